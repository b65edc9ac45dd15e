//! Iterators of a transaction: committed entries with the transaction's own writes laid over.
//!
//! Two sorted sides, an ordinary [`Scan`] and the [`Overlay`], are walked together; of equal keys
//! the own write wins, and an own deletion hides the key. Where the level asks for it, each
//! movement tells the read set how far the scan has come: what lies between two keys shown was
//! read as well.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex};

use tidesdb_base::error::Result;
use tidesdb_lockfree::sync::lock;

use super::overlay::Overlay;
use super::read_set::{RangeEnd, ReadRange, ReadSet};
use crate::family::FamilyState;
use crate::iterator::Scan;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// Which side the scan stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Nowhere yet: no seek since the scan was made.
    Unpositioned,
    /// Beyond the first or the last key: a seek found nothing, a step left the keys, or a call
    /// failed.
    Outside,
    Committed,
    Own,
}

/// A scan's place in the read set of its transaction.
#[derive(Debug)]
pub(super) struct Tracked {
    reads: Arc<Mutex<ReadSet>>,
    place: usize,
}

impl Tracked {
    pub(super) fn new(reads: &Arc<Mutex<ReadSet>>, family: &Arc<FamilyState>) -> Self {
        let place = lock(reads).open_scan(family);
        Self { reads: Arc::clone(reads), place }
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        lock(&self.reads).close_scan(self.place);
    }
}

/// What a scan is made of, besides the committed side.
#[derive(Debug)]
pub(super) struct ScanParts {
    pub family: u32,
    pub overlay: Arc<Overlay>,
    pub lower: Option<Vec<u8>>,
    pub upper: Option<Vec<u8>>,
    pub tracked: Option<Tracked>,
    /// Takes up what was committed since, at each positioning.
    pub moving: bool,
}

/// Walks the keys of a family in order, both ways, as a transaction sees them.
///
/// Made by [`Transaction::scan`](crate::Transaction::scan); not positioned until one of the `seek`
/// methods is called. It shows the transaction's writes as they were when it was made, also when the
/// transaction has ended since; what it reads counts as read by the transaction until that ends.
/// After an error it is invalid until the next seek.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # use tidesdb_engine as tidesdb;
/// use tidesdb::{Db, DbOptions, FamilyOptions, IsolationLevel, ScanOptions};
/// let db = Db::open(directory.path(), DbOptions::default())?;
/// let family = db.open_family("default", FamilyOptions::default())?;
/// family.put(b"a", b"1")?;
/// let mut transaction = db.begin(IsolationLevel::Serializable)?;
/// transaction.put(&family, b"b", b"2")?;
/// let mut scan = transaction.scan(&family, ScanOptions::new())?;
/// scan.seek_to_last()?;
/// assert_eq!(scan.key(), b"b");
/// scan.prev()?;
/// assert_eq!((scan.key(), scan.value()?), (&b"a"[..], &b"1"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TransactionScan {
    scan: Scan,
    parts: ScanParts,
    /// The part of the overlay within the bounds.
    own: std::ops::Range<usize>,
    /// Place of the own side; none when it is exhausted.
    own_at: Option<usize>,
    at: At,
    direction: Direction,
    key: Vec<u8>,
    now: u64,
}

impl TransactionScan {
    pub(super) fn new(scan: Scan, parts: ScanParts) -> Self {
        let from = parts.lower.as_deref().map_or(0, |lower| parts.overlay.before(lower));
        let all = parts.overlay.len();
        let to = parts.upper.as_deref().map_or(all, |upper| parts.overlay.before(upper));
        Self {
            now: scan.now(),
            scan,
            own: from..to.max(from),
            parts,
            own_at: None,
            at: At::Unpositioned,
            direction: Direction::Forward,
            key: Vec::new(),
        }
    }

    /// True when the scan stands on a key.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        matches!(self.at, At::Committed | At::Own)
    }

    /// The present key; empty when the scan is not valid.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match (self.at, self.own_at) {
            (At::Committed, _) => self.scan.key(),
            (At::Own, Some(at)) => self.parts.overlay.key(at),
            _ => &[],
        }
    }

    /// The present value; empty when the scan is not valid.
    ///
    /// # Errors
    /// `Corrupt` or `Io` when the value lies in a value log and can't be read.
    #[inline]
    pub fn value(&self) -> Result<&[u8]> {
        match (self.at, self.own_at) {
            (At::Committed, _) => self.scan.value(),
            (At::Own, Some(at)) => Ok(self.parts.overlay.value(at)),
            _ => Ok(&[]),
        }
    }

    /// Goes to the first key at or after `key`.
    ///
    /// # Errors
    /// `Corrupt` or `Io`; the scan is not valid then.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        let key = match self.parts.lower.take() {
            Some(lower) if lower.as_slice() > key => {
                let sought = self.seek_forward(&lower);
                self.parts.lower = Some(lower);
                return sought;
            }
            lower => {
                self.parts.lower = lower;
                key
            }
        };
        self.seek_forward(key)
    }

    fn seek_forward(&mut self, key: &[u8]) -> Result<()> {
        self.begin(Direction::Forward)?;
        self.scan.seek(key)?;
        self.own_at = self.own_from(self.parts.overlay.before(key).max(self.own.start));
        self.settle()?;
        self.track(|scan| ReadRange {
            family: scan.parts.family,
            start: key.to_vec(),
            end: scan.reached_end(),
        });
        Ok(())
    }

    /// Goes to the last key at or before `key`.
    ///
    /// # Errors
    /// As [`TransactionScan::seek`].
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        if self.parts.upper.as_ref().is_some_and(|upper| upper.as_slice() <= key) {
            return self.seek_to_last();
        }
        self.begin(Direction::Backward)?;
        self.scan.seek_for_prev(key)?;
        self.own_at = self.own_before(self.parts.overlay.through(key).min(self.own.end));
        self.settle()?;
        self.track(|scan| ReadRange {
            family: scan.parts.family,
            start: scan.reached_start().to_vec(),
            end: RangeEnd::Through(key.to_vec()),
        });
        Ok(())
    }

    /// Goes to the first key.
    ///
    /// # Errors
    /// As [`TransactionScan::seek`].
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.begin(Direction::Forward)?;
        self.scan.seek_to_first()?;
        self.own_at = self.own_from(self.own.start);
        self.settle()?;
        self.track(|scan| ReadRange {
            family: scan.parts.family,
            start: scan.parts.lower.clone().unwrap_or_default(),
            end: scan.reached_end(),
        });
        Ok(())
    }

    /// Goes to the last key.
    ///
    /// # Errors
    /// As [`TransactionScan::seek`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.begin(Direction::Backward)?;
        self.scan.seek_to_last()?;
        self.own_at = self.own_before(self.own.end);
        self.settle()?;
        self.track(|scan| ReadRange {
            family: scan.parts.family,
            start: scan.reached_start().to_vec(),
            end: scan.upper_end(),
        });
        Ok(())
    }

    /// Goes to the next key. On a scan that is not valid it does nothing.
    ///
    /// # Errors
    /// As [`TransactionScan::seek`].
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a scan moves; entries() is the Iterator")]
    pub fn next(&mut self) -> Result<()> {
        self.go(Direction::Forward)
    }

    /// Goes to the key before. On a scan that is not valid it does nothing.
    ///
    /// # Errors
    /// As [`TransactionScan::seek`].
    pub fn prev(&mut self) -> Result<()> {
        self.go(Direction::Backward)
    }

    /// The entries from the present position on, as a Rust iterator of copied keys and values.
    /// From the first when the scan was not positioned yet; none when the last call found nothing
    /// or failed, so that a walk by pages ends.
    #[must_use]
    pub const fn entries(self) -> TransactionEntries {
        TransactionEntries { scan: self, started: false, failed: false }
    }

    /// Prepares for a new position.
    fn begin(&mut self, direction: Direction) -> Result<()> {
        self.at = At::Outside;
        self.direction = direction;
        if self.parts.moving {
            self.scan.refresh()?;
        }
        if let Some(Tracked { reads, place }) = &self.parts.tracked {
            lock(reads).begin_range(*place, None);
        }
        Ok(())
    }

    fn track(&self, range: impl FnOnce(&Self) -> ReadRange) {
        if let Some(Tracked { reads, place }) = &self.parts.tracked {
            let range = range(self);
            lock(reads).begin_range(*place, Some(range));
        }
    }

    fn upper_end(&self) -> RangeEnd {
        self.parts.upper.clone().map_or(RangeEnd::Unbounded, RangeEnd::Before)
    }

    /// How far a scan that goes forwards has seen.
    fn reached_end(&self) -> RangeEnd {
        if self.valid() { RangeEnd::Through(self.key().to_vec()) } else { self.upper_end() }
    }

    /// How far a scan that goes backwards has seen.
    fn reached_start(&self) -> &[u8] {
        if self.valid() { self.key() } else { self.parts.lower.as_deref().unwrap_or(&[]) }
    }

    fn own_from(&self, at: usize) -> Option<usize> {
        (at < self.own.end).then_some(at)
    }

    fn own_before(&self, at: usize) -> Option<usize> {
        at.checked_sub(1).filter(|&at| at >= self.own.start)
    }

    /// Goes to the neighbour of the present key.
    #[inline]
    fn go(&mut self, direction: Direction) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        if self.direction == direction {
            self.step()?;
        } else {
            self.turn(direction)?;
        }
        self.settle()?;
        if let Some(Tracked { reads, place }) = &self.parts.tracked {
            match direction {
                Direction::Forward => lock(reads).extend_end(*place, self.reached_end()),
                Direction::Backward => lock(reads).extend_start(*place, self.reached_start()),
            }
        }
        Ok(())
    }

    /// Moves the committed side on.
    #[inline]
    fn step_committed(&mut self) -> Result<()> {
        match self.direction {
            Direction::Forward => self.scan.next(),
            Direction::Backward => self.scan.prev(),
        }
    }

    /// Moves the own side on.
    fn step_own(&mut self) {
        self.own_at = self.own_at.and_then(|at| match self.direction {
            Direction::Forward => self.own_from(at + 1),
            Direction::Backward => self.own_before(at),
        });
    }

    /// Steps over the present key on the sides that stand on it. Both stand at it or further on.
    #[inline]
    fn step(&mut self) -> Result<()> {
        let both = self.same_key();
        let at = std::mem::replace(&mut self.at, At::Outside);
        if at == At::Own || both {
            self.step_own();
        }
        if at == At::Committed || both {
            self.step_committed()?;
        }
        Ok(())
    }

    fn same_key(&self) -> bool {
        match self.own_at {
            Some(at) if self.scan.valid() => self.parts.overlay.key(at) == self.scan.key(),
            _ => false,
        }
    }

    /// Puts both sides on the neighbours of the present key in the other direction.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        self.keep_key();
        self.at = At::Outside;
        self.direction = direction;
        let (own, overlay) = (&self.own, &self.parts.overlay);
        match direction {
            Direction::Forward => {
                self.own_at = self.own_from(overlay.through(&self.key).max(own.start));
                self.scan.seek(&self.key)?;
            }
            Direction::Backward => {
                self.own_at = self.own_before(overlay.before(&self.key).min(own.end));
                self.scan.seek_for_prev(&self.key)?;
            }
        }
        if self.scan.valid() && self.scan.key() == self.key.as_slice() {
            self.step_committed()?;
        }
        Ok(())
    }

    fn keep_key(&mut self) {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend_from_slice(self.key());
        self.key = key;
    }

    /// Chooses the side that comes first, past what own writes hide.
    #[inline]
    fn settle(&mut self) -> Result<()> {
        let first = match self.direction {
            Direction::Forward => Ordering::Less,
            Direction::Backward => Ordering::Greater,
        };
        loop {
            let Some(own) = self.own_at else {
                self.at = if self.scan.valid() { At::Committed } else { At::Outside };
                return Ok(());
            };
            let own_key = self.parts.overlay.key(own);
            if self.scan.valid() && self.scan.key().cmp(own_key) == first {
                self.at = At::Committed;
                return Ok(());
            }
            if !self.parts.overlay.hides(own, self.now) {
                self.at = At::Own;
                return Ok(());
            }
            if self.same_key() {
                self.step_committed()?;
            }
            self.step_own();
        }
    }
}

/// A transaction's scan as a Rust iterator. It ends after the first error.
#[derive(Debug)]
pub struct TransactionEntries {
    scan: TransactionScan,
    started: bool,
    failed: bool,
}

impl TransactionEntries {
    fn step(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if self.started {
            self.scan.next()?;
        } else {
            self.started = true;
            if self.scan.at == At::Unpositioned {
                self.scan.seek_to_first()?;
            }
        }
        if !self.scan.valid() {
            return Ok(None);
        }
        Ok(Some((self.scan.key().to_vec(), self.scan.value()?.to_vec())))
    }
}

impl Iterator for TransactionEntries {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let step = self.step();
        self.failed = step.is_err();
        step.transpose()
    }
}

impl IntoIterator for TransactionScan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = TransactionEntries;

    /// As [`TransactionScan::entries`].
    fn into_iter(self) -> TransactionEntries {
        self.entries()
    }
}
