//! Iterators of a transaction: committed entries with the transaction's own writes laid over.
//!
//! Two sorted sides, an ordinary [`StoredScan`] and the [`Overlay`], are walked together; of equal keys
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
use crate::flow::Lent;
use crate::iterator::{Movement, StoredScan, Walk};

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

/// Walks stored keys in the order of bytes: what a [`super::TransactionScan`] is made of. It has its
/// methods, and what these say holds for it.
#[derive(Debug)]
pub(super) struct StoredTransactionScan {
    scan: StoredScan,
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

impl StoredTransactionScan {
    pub(super) fn new(scan: StoredScan, parts: ScanParts) -> Self {
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
    fn valid(&self) -> bool {
        matches!(self.at, At::Committed | At::Own)
    }

    /// The present key; empty when the scan is not valid.
    #[inline]
    fn key(&self) -> &[u8] {
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
    fn value(&self) -> Result<&[u8]> {
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
    fn seek(&mut self, key: &[u8]) -> Result<()> {
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
    /// As [`StoredTransactionScan::seek`].
    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
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
    /// As [`StoredTransactionScan::seek`].
    fn seek_to_first(&mut self) -> Result<()> {
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
    /// As [`StoredTransactionScan::seek`].
    fn seek_to_last(&mut self) -> Result<()> {
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
    /// As [`StoredTransactionScan::seek`].
    #[inline]
    fn next(&mut self) -> Result<()> {
        self.go(Direction::Forward)
    }

    /// Goes to the key before. On a scan that is not valid it does nothing.
    ///
    /// # Errors
    /// As [`StoredTransactionScan::seek`].
    fn prev(&mut self) -> Result<()> {
        self.go(Direction::Backward)
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

impl Walk for StoredTransactionScan {
    fn is_unpositioned(&self) -> bool {
        self.at == At::Unpositioned
    }

    fn moves_with_commits(&self) -> bool {
        self.parts.moving
    }

    #[inline]
    fn valid(&self) -> bool {
        Self::valid(self)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        Self::key(self)
    }

    #[inline]
    fn value(&self) -> Result<&[u8]> {
        Self::value(self)
    }

    #[inline]
    fn go(&mut self, movement: Movement<'_>) -> Result<()> {
        match movement {
            Movement::Next => self.next(),
            Movement::Prev => self.prev(),
            Movement::To(key) => self.seek(key),
            Movement::ToOrBefore(key) => self.seek_for_prev(key),
            Movement::First => self.seek_to_first(),
            Movement::Last => self.seek_to_last(),
        }
    }

    fn lend(&self, bytes: u64) -> Lent {
        self.scan.lend(bytes)
    }
}
