//! How much of a table range tombstones hide, once it was measured (`range_deleted`), and of a run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tidesdb_base::entry::SequenceNumber;

/// What is known of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RangeDeleted {
    /// Versions that a compaction leaves out, and how many when no snapshot is in the way.
    pub now: u64,
    pub without_snapshots: u64,
    /// The newest tombstone when that was measured, and the snapshots that were in the way.
    pub through: SequenceNumber,
    pub in_the_way: InTheWay,
}

/// Snapshots that see an entry of a table and not all tombstones: the first, and how many.
pub(super) type InTheWay = (SequenceNumber, usize);

/// What range tombstones hide of a run when no snapshot is in the way: the sum over its tables.
/// Flushes and compactions ask for it, and there may be very many tables.
#[derive(Debug, Default)]
pub(super) struct RangeDeletedSum(Arc<AtomicU64>);

impl RangeDeletedSum {
    pub(super) fn get(&self) -> u64 {
        // ORDERING: relaxed; an estimate.
        self.0.load(Ordering::Relaxed)
    }
}

/// What is known of one table, and the sums in which it counts: a table is in several runs while a
/// compaction moves it from one to another, and may be measured for either.
#[derive(Debug, Default)]
pub(super) struct MeasuredDeletions {
    known: RangeDeleted,
    sums: Vec<Weak<AtomicU64>>,
}

impl MeasuredDeletions {
    pub(super) const fn known(&self) -> RangeDeleted {
        self.known
    }

    /// Notes what was found.
    pub(super) fn set(&mut self, known: RangeDeleted) {
        let more = known.without_snapshots.wrapping_sub(self.known.without_snapshots);
        for sum in self.sums.iter().filter_map(Weak::upgrade) {
            // ORDERING: relaxed here and below; an estimate. It wraps around, so that what is less
            // can be added.
            sum.fetch_add(more, Ordering::Relaxed);
        }
        self.known = known;
    }

    /// The table counts in this sum from now on.
    pub(super) fn count_in(&mut self, sum: &RangeDeletedSum) {
        self.sums.retain(|sum| sum.strong_count() > 0);
        self.sums.push(Arc::downgrade(&sum.0));
        sum.0.fetch_add(self.known.without_snapshots, Ordering::Relaxed);
    }
}
