//! The range deletions of one memtable.
//!
//! A memtable owns one [`GrowingTombstones`]; commits add to it while readers search it. What was
//! added lies in immutable sets of growing size, and a new one is merged with those that are no
//! larger, so that a hundred thousand deletions cost each about seventeen copies of a pointer, and
//! a reader searches as many small trees at most. A memtable without range deletions costs its
//! readers one load.
//!
//! Threads: any. Adders take a lock; readers take none. A thread that sees a commit as published
//! sees its tombstones: they are added before it is. Nothing is ever taken out, since readers may
//! be looking at any earlier moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwapOption;
use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::range_tombstone::{RangeTombstone, RangeTombstoneSets};
use tidesdb_lockfree::sync::lock;

/// Range tombstones that are added one by one.
#[derive(Debug, Default)]
pub(crate) struct GrowingTombstones {
    sets: ArcSwapOption<RangeTombstoneSets>,
    /// Memory taken; zero while there is none.
    bytes: AtomicU64,
    adding: Mutex<()>,
}

impl GrowingTombstones {
    /// Adds a tombstone.
    pub(crate) fn add(&self, tombstone: RangeTombstone) {
        let bytes = tombstone.memory_bytes();
        let _one_at_a_time = lock(&self.adding);
        let mut sets = self.sets();
        sets.add(vec![Arc::new(tombstone)]);
        self.sets.store(Some(Arc::new(sets)));
        // ORDERING: relaxed; a reader learns of the commit by an acquiring load of the published
        // position, which comes after this in the committing thread.
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Memory taken, in bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        // ORDERING: see `add`.
        self.bytes.load(Ordering::Relaxed)
    }

    /// True when a reader at `snapshot` sees a tombstone over `key` that is newer than `sequence`.
    #[inline]
    pub(crate) fn hides(
        &self,
        key: &[u8],
        sequence: SequenceNumber,
        snapshot: SequenceNumber,
    ) -> bool {
        self.bytes() != 0 && self.search(key, sequence, snapshot)
    }

    #[cold]
    fn search(&self, key: &[u8], sequence: SequenceNumber, snapshot: SequenceNumber) -> bool {
        self.sets.load().as_deref().is_some_and(|sets| sets.hides(key, sequence, snapshot))
    }

    /// All tombstones there are now.
    pub(crate) fn sets(&self) -> RangeTombstoneSets {
        if self.bytes() == 0 {
            return RangeTombstoneSets::default();
        }
        self.sets.load().as_deref().cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_tombstones_lie_in_few_sets_and_none_is_lost() {
        let growing = GrowingTombstones::default();
        assert!(!growing.hides(b"k", 0, u64::MAX) && growing.sets().is_empty());
        for sequence in 1..=1000u64 {
            let start = sequence.to_be_bytes();
            let end = (sequence + 1).to_be_bytes();
            growing.add(RangeTombstone { start: start.into(), end: end.into(), sequence });
        }
        let sets = growing.sets();
        assert_eq!(sets.iter().count(), 1000);
        assert!(sets.as_slice().len() <= 10, "{} sets", sets.as_slice().len());
        for sequence in 1..=1000u64 {
            let key = sequence.to_be_bytes();
            assert!(growing.hides(&key, sequence - 1, sequence));
            assert!(!growing.hides(&key, sequence, u64::MAX));
        }
        assert!(growing.bytes() >= 1000 * 16);
    }
}
