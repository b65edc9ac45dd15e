//! Which keys are the same key, in a family whose order a program has registered.
//!
//! The interface wants keys that the order calls equal to be one key. The engine stores the keys of
//! such a family as they are and tells them apart by their bytes. So of each key one spelling is in
//! use, that under which it was first written, and all calls that name a key in another spelling
//! mean that one: gets, puts, deletes, and with them what is checked at a commit.
//!
//! The spellings are kept in memory, in the family's order. They are read from the family when its
//! handle is made, which is before anything is written to it. One is *in doubt* when the
//! transaction for which it came ends without a committed put of it, and when one ends that deleted
//! its key. It goes once
//!
//! 1. no transaction holds it, since a commit of one that does may store it,
//! 2. the family does not have it, and
//! 3. no snapshot is left from between the moment when it came and the moment when 2 was seen.
//!
//! So those that are in doubt are no more than transactions and snapshots keep, however they
//! overlap (I-320). Keys that expire are not deleted by a call: their spellings are looked for when
//! spellings have become many.
//!
//! Lock: the spellings of one family are read-locked while a known key is looked up, and locked
//! while one is added, and while those in doubt are looked at. The program's function is called
//! with them locked.

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering as Memory, fence};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tidesdb::{Db, Error, Family, ScanOptions};
use tidesdb_sys::forks::ProcessMark;

use crate::boundary::Outcome;
use crate::comparators::Comparator;

/// Spellings that may be kept for nothing, beside as many as there are keys.
const MOST_USELESS: usize = 1024;
/// Spellings in doubt that the end of a transaction looks at, beside twice as many as it adds.
const LOOKED_AT: usize = 8;
/// The spelling may be stored.
const NOT_SEEN_GONE: u64 = u64::MAX;

/// How the keys of a family were spelled when they were put.
pub struct Spellings {
    db: Db,
    /// In a forked child they may be locked for good.
    home: ProcessMark,
    family: Family,
    comparator: Comparator,
    known: RwLock<Known>,
    /// How many are in doubt, for those who hold no lock.
    in_doubt: AtomicUsize,
    /// They have become many.
    is_much: AtomicBool,
}

struct Known {
    spellings: BTreeSet<Arc<Spelling>>,
    in_doubt: VecDeque<Arc<Spelling>>,
    /// With so many, those of keys that have gone are looked for.
    prune_at: usize,
}

/// A key in the order of its family. A transaction that holds one may store the key.
pub struct Spelling {
    key: Box<[u8]>,
    comparator: Comparator,
    /// The sequence number of the database when it came: no snapshot up to there shows it.
    born: u64,
    /// A sequence number at which the family did not have it, if that was seen and it was given to
    /// no transaction since.
    gone: AtomicU64,
    is_in_doubt: AtomicBool,
}

impl Spelling {
    fn new(key: &[u8], comparator: Comparator, born: u64) -> Arc<Self> {
        let (gone, is_in_doubt) = (AtomicU64::new(NOT_SEEN_GONE), AtomicBool::new(false));
        Arc::new(Self { key: key.into(), comparator, born, gone, is_in_doubt })
    }

    /// Whether anything but the set and the caller has it. Only while the spellings are locked, so
    /// that it is given to no one.
    fn is_held(self: &Arc<Self>) -> bool {
        let held = Arc::strong_count(self) > 2;
        // ORDERING: acquire pairs with the release by which a transaction lets go of it: what it
        // has committed is seen then.
        fence(Memory::Acquire);
        held
    }

    /// Whether one of the snapshots may show a key that was gone at this sequence number.
    fn is_shown_by(&self, snapshots: &[u64], gone: u64) -> bool {
        snapshots.iter().any(|&snapshot| self.born < snapshot && snapshot <= gone)
    }
}

/// A key that is looked for, or known. A set finds what it has by something that can be borrowed of
/// it and that compares alike, and this is both.
trait Comparable {
    fn parts(&self) -> (&[u8], &Comparator);
}

impl Comparable for Spelling {
    fn parts(&self) -> (&[u8], &Comparator) {
        (&self.key, &self.comparator)
    }
}

impl Comparable for (&[u8], Comparator) {
    fn parts(&self) -> (&[u8], &Comparator) {
        (self.0, &self.1)
    }
}

impl<'a> Borrow<dyn Comparable + 'a> for Arc<Spelling> {
    fn borrow(&self) -> &(dyn Comparable + 'a) {
        &**self
    }
}

impl Ord for dyn Comparable + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        let ((one, comparator), (two, _)) = (self.parts(), other.parts());
        comparator.compare(one, two)
    }
}

impl PartialOrd for dyn Comparable + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Comparable + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn Comparable + '_ {}

impl Ord for Spelling {
    fn cmp(&self, other: &Self) -> Ordering {
        self.comparator.compare(&self.key, &other.key)
    }
}

impl PartialOrd for Spelling {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Spelling {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Spelling {}

/// A spelling that a transaction has got.
pub struct Settled<'k> {
    /// As which the key is stored.
    pub key: Cow<'k, [u8]>,
    /// Keeps the spelling.
    pub spelling: Arc<Spelling>,
    /// There was none of this key.
    pub is_new: bool,
}

/// What has become of a spelling in doubt.
enum Fate {
    /// A transaction may store it yet.
    Held,
    Stored,
    /// Not stored at this sequence number, nor later.
    Gone(u64),
}

impl Spellings {
    /// The spellings of the keys in a family. The second number is of keys that are equal to
    /// another one and were written by other means than this interface: they can't be reached by
    /// it.
    pub fn of(db: &Db, family: &Family, comparator: Comparator) -> Outcome<(Arc<Self>, usize)> {
        let (spellings, hidden) = read(family, comparator)?;
        let prune_at = most(spellings.len());
        let known = RwLock::new(Known { spellings, in_doubt: VecDeque::new(), prune_at });
        let spellings = Self {
            db: db.clone(),
            home: ProcessMark::of_this(),
            family: family.clone(),
            comparator,
            known,
            in_doubt: AtomicUsize::new(0),
            is_much: AtomicBool::new(false),
        };
        Ok((Arc::new(spellings), hidden))
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_mut(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The spelling in use of a key, for a read that leaves no trace: its own if there is none.
    pub fn present<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        let known = self.known();
        known.find(key, self.comparator).map_or(Cow::Borrowed(key), |found| in_use(key, found))
    }

    /// The spelling in use of a key, which becomes its own if there is none. It stays as long as
    /// the caller holds it, and is given back by [`Self::leave`].
    pub fn settle<'k>(&self, key: &'k [u8]) -> Settled<'k> {
        if let Some(found) = self.known().settled(key, self.comparator) {
            return found;
        }
        let mut known = self.known_mut();
        if let Some(found) = known.settled(key, self.comparator) {
            return found;
        }
        let own = Spelling::new(key, self.comparator, self.db.sequence());
        known.spellings.insert(Arc::clone(&own));
        if known.spellings.len() >= known.prune_at {
            // ORDERING: relaxed; a hint for the next transaction that ends.
            self.is_much.store(true, Memory::Relaxed);
        }
        Settled { key: Cow::Borrowed(key), spelling: own, is_new: true }
    }

    /// A transaction is over that held spellings; see the module's documentation for those that
    /// are in doubt then.
    pub fn leave(&self, in_doubt: Vec<Arc<Spelling>>) {
        // ORDERING: relaxed; hints, and the next one that ends comes by as well.
        let others = self.in_doubt.load(Memory::Relaxed);
        let is_much = self.is_much.load(Memory::Relaxed);
        let nothing = in_doubt.is_empty() && others == 0 && !is_much;
        if nothing || !self.home.is_here() {
            return;
        }
        let mut known = self.known_mut();
        let looked_at = LOOKED_AT + 2 * in_doubt.len();
        in_doubt.into_iter().for_each(|spelling| known.doubt(spelling));
        if is_much {
            self.doubt_what_is_not_stored(&mut known);
            let all = known.in_doubt.len();
            self.look(&mut known, all);
            known.prune_at = most(known.spellings.len());
            // ORDERING: as above.
            self.is_much.store(false, Memory::Relaxed);
        } else {
            self.look(&mut known, looked_at);
        }
        // ORDERING: as above.
        self.in_doubt.store(known.in_doubt.len(), Memory::Relaxed);
    }

    /// Looks at so many of those that are in doubt, the longest known first.
    fn look(&self, known: &mut Known, count: usize) {
        let count = count.min(known.in_doubt.len());
        let looked_at = known.in_doubt.drain(..count);
        let seen: Vec<_> = looked_at.map(|spelling| (self.fate(&spelling), spelling)).collect();
        // Behind all that was seen: a snapshot that is taken later shows nothing older.
        let snapshots = self.db.live_snapshots();
        for (fate, spelling) in seen {
            match fate {
                // ORDERING: relaxed, by the lock.
                Fate::Stored => spelling.is_in_doubt.store(false, Memory::Relaxed),
                Fate::Gone(at) if !spelling.is_shown_by(&snapshots, at) => {
                    known.spellings.remove(&spelling);
                }
                Fate::Held | Fate::Gone(_) => known.in_doubt.push_back(spelling),
            }
        }
    }

    /// What has become of a spelling in doubt. The spellings are locked, so that it is given to no
    /// transaction.
    fn fate(&self, spelling: &Arc<Spelling>) -> Fate {
        if spelling.is_held() {
            return Fate::Held;
        }
        // ORDERING: relaxed, by the lock.
        let seen = spelling.gone.load(Memory::Relaxed);
        if seen != NOT_SEEN_GONE {
            return Fate::Gone(seen);
        }
        let is_stored = match self.family.contains(&spelling.key) {
            Err(Error::FamilyDropped(_)) => false,
            // One that can't be read may be stored.
            other => other.unwrap_or(true),
        };
        if is_stored {
            return Fate::Stored;
        }
        // No transaction can store it meanwhile, so it is not there at whatever is visible now.
        let now = self.db.sequence();
        spelling.gone.store(now, Memory::Relaxed);
        Fate::Gone(now)
    }

    /// The family is gone, and what is left of it needs no memory.
    pub fn forget_all(&self) {
        let mut known = self.known_mut();
        known.spellings.clear();
        known.in_doubt.clear();
        // ORDERING: as in `leave`.
        self.in_doubt.store(0, Memory::Relaxed);
    }

    /// Spellings have become many: those that the family does not have are in doubt.
    fn doubt_what_is_not_stored(&self, known: &mut Known) {
        let Ok((stored, _)) = read(&self.family, self.comparator) else { return };
        let missing = |spelling: &&Arc<Spelling>| !stored.contains(*spelling);
        let missing: Vec<_> = known.spellings.iter().filter(missing).map(Arc::clone).collect();
        missing.into_iter().for_each(|spelling| known.doubt(spelling));
    }
}

impl Known {
    fn find(&self, key: &[u8], comparator: Comparator) -> Option<&Arc<Spelling>> {
        let sought: &dyn Comparable = &(key, comparator);
        self.spellings.get(sought)
    }

    /// Returns a spelling to a caller that may store it.
    fn settled<'k>(&self, key: &'k [u8], comparator: Comparator) -> Option<Settled<'k>> {
        let found = self.find(key, comparator)?;
        // ORDERING: relaxed; who looks at it has the lock that keeps this out.
        if found.gone.load(Memory::Relaxed) != NOT_SEEN_GONE {
            found.gone.store(NOT_SEEN_GONE, Memory::Relaxed);
        }
        Some(Settled { key: in_use(key, found), spelling: Arc::clone(found), is_new: false })
    }

    fn doubt(&mut self, spelling: Arc<Spelling>) {
        // ORDERING: relaxed; all that use it have the lock.
        if !spelling.is_in_doubt.swap(true, Memory::Relaxed) {
            self.in_doubt.push_back(spelling);
        }
    }
}

fn in_use<'k>(key: &'k [u8], found: &Spelling) -> Cow<'k, [u8]> {
    if *key == *found.key { Cow::Borrowed(key) } else { Cow::Owned(found.key.to_vec()) }
}

/// So many spellings for so many keys: as many useless ones as others.
const fn most(keys: usize) -> usize {
    keys * 2 + MOST_USELESS
}

/// The keys that are stored, and how many are equal to another one.
fn read(family: &Family, comparator: Comparator) -> Outcome<(BTreeSet<Arc<Spelling>>, usize)> {
    let (mut spellings, mut hidden) = (BTreeSet::new(), 0);
    let mut scan = family.scan(ScanOptions::new())?;
    scan.seek_to_first()?;
    while scan.valid() {
        // They may be of any age.
        let is_new = spellings.insert(Spelling::new(scan.key(), comparator, 0));
        hidden += usize::from(!is_new);
        scan.next()?;
    }
    Ok((spellings, hidden))
}
