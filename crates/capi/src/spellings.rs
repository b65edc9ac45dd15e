//! Which keys are the same key, in a family whose order a program has registered.
//!
//! The interface wants keys that the order calls equal to be one key. The engine stores the keys of
//! such a family as they are and tells them apart by their bytes. So of each key one spelling is in
//! use, that under which it was first written, and all calls that name a key in another spelling
//! mean that one: gets, puts, deletes, and with them what is checked at a commit.
//!
//! The spellings are kept in memory, in the family's order. They are read from the family when its
//! handle is made, which is before anything is written to it. Those that were added and that no
//! commit has stored are dropped at the next moment when no transaction has any in its buffer and
//! none reads an old state of the database, in which such a key may still be. Those of keys that
//! have gone are dropped at such a moment once they are many.
//!
//! Lock: the spellings of one family are read-locked while a known key is looked up, and locked
//! while one is added and while they are read anew. The program's function is called with them
//! locked.

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering as Memory, fence};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tidesdb::{Family, IsolationLevel, ScanOptions};

use crate::boundary::Outcome;
use crate::comparators::Comparator;

/// Spellings that may be kept for nothing, beside as many as there are keys.
const MOST_USELESS: usize = 1024;

/// Transactions of the process that read an old state of their database.
static VIEWS: AtomicUsize = AtomicUsize::new(0);

/// Counts a transaction that does so.
pub struct View(());

impl View {
    /// Counts a transaction of this level that begins now, if it needs to be.
    #[inline]
    pub fn open(level: IsolationLevel) -> Option<Self> {
        (level >= IsolationLevel::RepeatableRead).then(|| {
            // ORDERING: relaxed, and a fence. Who finds none, behind a fence of its own, is so late
            // that this transaction begins with all that it has seen.
            VIEWS.fetch_add(1, Memory::Relaxed);
            fence(Memory::SeqCst);
            Self(())
        })
    }

    fn any() -> bool {
        // ORDERING: see `open`.
        fence(Memory::SeqCst);
        VIEWS.load(Memory::Relaxed) > 0
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // ORDERING: relaxed; that it is seen late only puts off what is dropped.
        VIEWS.fetch_sub(1, Memory::Relaxed);
    }
}

/// See the module's documentation.
pub struct Spellings {
    family: Family,
    comparator: Comparator,
    known: RwLock<Known>,
}

struct Known {
    spellings: BTreeSet<Spelling>,
    /// Those that were added, of which it is not known yet whether a commit has stored them.
    added: Vec<Arc<[u8]>>,
    /// Transactions that have used the family and are not over.
    users: usize,
    /// With so many, those of keys that have gone are dropped.
    prune_at: usize,
}

/// A key in the order of its family.
struct Spelling {
    key: Arc<[u8]>,
    comparator: Comparator,
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

impl<'a> Borrow<dyn Comparable + 'a> for Spelling {
    fn borrow(&self) -> &(dyn Comparable + 'a) {
        self
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

impl Spellings {
    /// The spellings of the keys in a family. The second number is of keys that are equal to
    /// another one and were written by other means than this interface: they can't be reached by
    /// it.
    pub fn of(family: &Family, comparator: Comparator) -> Outcome<(Arc<Self>, usize)> {
        let (spellings, hidden) = read(family, comparator)?;
        let prune_at = most(&spellings);
        let known = RwLock::new(Known { spellings, added: Vec::new(), users: 0, prune_at });
        Ok((Arc::new(Self { family: family.clone(), comparator, known }), hidden))
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_mut(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transaction uses the family: the spellings that it is told stay until [`Self::leave`].
    pub fn enter(&self) {
        self.known_mut().users += 1;
    }

    /// The transaction is over.
    pub fn leave(&self) {
        let mut known = self.known_mut();
        known.users = known.users.saturating_sub(1);
        let is_much = known.spellings.len() >= known.prune_at;
        if known.users > 0 || (known.added.is_empty() && !is_much) {
            return;
        }
        // Nothing is written to the family while they are locked: who would write waits to be told
        // a spelling. So a view that is opened later shows no key that is not read here.
        if View::any() {
            return;
        }
        let added = std::mem::take(&mut known.added);
        if !is_much {
            for key in added {
                // One that can't be read may be stored.
                if self.family.contains(&key).is_ok_and(|is_stored| !is_stored) {
                    known.spellings.remove(&Spelling { key, comparator: self.comparator });
                }
            }
            return;
        }
        if let Ok((spellings, _)) = read(&self.family, self.comparator) {
            known.spellings = spellings;
        }
        known.prune_at = most(&known.spellings);
    }

    /// The spelling in use of a key, for a read that leaves no trace: its own if there is none.
    pub fn present<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        let known = self.known();
        known.find(key, self.comparator).map_or(Cow::Borrowed(key), |found| in_use(key, found))
    }

    /// The spelling in use of a key, which becomes its own if there is none.
    pub fn settle<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        if let Some(found) = self.known().find(key, self.comparator) {
            return in_use(key, found);
        }
        let mut known = self.known_mut();
        if let Some(found) = known.find(key, self.comparator) {
            return in_use(key, found);
        }
        let own: Arc<[u8]> = key.into();
        known.added.push(Arc::clone(&own));
        known.spellings.insert(Spelling { key: own, comparator: self.comparator });
        Cow::Borrowed(key)
    }
}

impl Known {
    fn find(&self, key: &[u8], comparator: Comparator) -> Option<&[u8]> {
        let sought: &dyn Comparable = &(key, comparator);
        self.spellings.get(sought).map(|spelling| &*spelling.key)
    }
}

fn in_use<'k>(key: &'k [u8], found: &[u8]) -> Cow<'k, [u8]> {
    if key == found { Cow::Borrowed(key) } else { Cow::Owned(found.to_vec()) }
}

/// With so many spellings there may be as many useless ones as others.
fn most(spellings: &BTreeSet<Spelling>) -> usize {
    spellings.len() * 2 + MOST_USELESS
}

fn read(family: &Family, comparator: Comparator) -> Outcome<(BTreeSet<Spelling>, usize)> {
    let (mut spellings, mut hidden) = (BTreeSet::new(), 0);
    let mut scan = family.scan(ScanOptions::new())?;
    scan.seek_to_first()?;
    while scan.valid() {
        let is_new = spellings.insert(Spelling { key: scan.key().into(), comparator });
        hidden += usize::from(!is_new);
        scan.next()?;
    }
    Ok((spellings, hidden))
}
