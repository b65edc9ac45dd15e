//! How much of a table range tombstones hide, once it was measured (`range_deleted`).

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
