//! What a reader must see: which records are there, and in which generation.
//!
//! Three cases cover all workloads without storing values. [`Expectation::Full`]: every record in
//! generation 0. [`Expectation::Progress`]: each thread wrote (or deleted) a prefix of its slice of an
//! order, each record once. [`Expectation::Generations`]: records are overwritten; a table holds for
//! each one the generations begun and committed.
//!
//! Threads: a record of the table is written only by its owning thread ([`Generations::own`]); any
//! thread reads it. A reader takes the committed generation before its read and the begun one
//! after it; the value it got must lie between the two.

use crate::data::order::{Order, owner_of, slice_of};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

/// Marks a record that does not exist.
const ABSENT: u32 = 0;

/// Begun and committed generation per record, counted from 1; value generation 0 is count 1.
#[derive(Debug)]
pub(crate) struct Generations {
    /// Begun in the high half, committed in the low half.
    cells: Vec<AtomicU64>,
    threads: u64,
}

impl Generations {
    /// A table of `count` records, all absent or all in generation 0.
    pub(crate) fn new(count: u64, threads: u64, present: bool) -> Self {
        let cell = if present { (1 << 32) | 1 } else { u64::from(ABSENT) };
        Self { cells: (0..count).map(|_| AtomicU64::new(cell)).collect(), threads }
    }

    /// The nearest record that `thread` owns, given a drawn one.
    pub(crate) fn own(&self, thread: u64, record: u64) -> u64 {
        let owned = record - record % self.threads + thread;
        if owned < self.cells.len() as u64 {
            owned
        } else {
            // The last group is incomplete; the group before it is not, if there are two.
            owned.saturating_sub(self.threads).min(self.cells.len() as u64 - 1)
        }
    }

    fn cell(&self, record: u64) -> &AtomicU64 {
        &self.cells[record as usize]
    }

    /// Starts an overwrite; returns the generation to write. Only the owner calls this.
    pub(crate) fn begin(&self, record: u64) -> u32 {
        let cell = self.cell(record);
        let before = cell.load(Ordering::Relaxed);
        let begun = (before >> 32) + 1;
        // ORDERING: Release pairs with the Acquire in `begun`: a reader that meets the new value
        // in the engine also finds the generation begun.
        cell.store((begun << 32) | (before & 0xffff_ffff), Ordering::Release);
        (begun - 1) as u32
    }

    /// Marks everything begun on a record as committed. Only the owner calls this.
    pub(crate) fn commit(&self, record: u64) {
        let cell = self.cell(record);
        let begun = cell.load(Ordering::Relaxed) >> 32;
        // ORDERING: Release pairs with the Acquire in `committed`: a reader that sees the mark
        // starts its read after the write it stands for.
        cell.store((begun << 32) | begun, Ordering::Release);
    }

    /// Marks a record as gone. Only the owner calls this, with no reader active.
    pub(crate) fn remove(&self, record: u64) {
        self.cell(record).store(u64::from(ABSENT), Ordering::Relaxed);
    }

    /// Committed count of a record, 0 if it is absent.
    pub(crate) fn committed(&self, record: u64) -> u32 {
        // ORDERING: see `commit`.
        self.cell(record).load(Ordering::Acquire) as u32
    }

    /// Begun count of a record.
    pub(crate) fn begun(&self, record: u64) -> u32 {
        // ORDERING: see `begin`.
        (self.cell(record).load(Ordering::Acquire) >> 32) as u32
    }

    /// Whether a value of this generation may be read after `committed` was taken.
    pub(crate) fn allows(&self, record: u64, committed: u32, generation: u32) -> bool {
        let count = generation.saturating_add(1);
        (committed.max(1)..=self.begun(record)).contains(&count)
    }
}

/// How far each thread went through its slice of an order.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The order that was followed.
    pub(crate) order: Order,
    /// Number of records.
    pub(crate) count: u64,
    /// Operations that each thread completed.
    pub(crate) done: Vec<u64>,
    /// True after deletes: the records reached are gone instead of present.
    pub(crate) removed: bool,
}

impl Progress {
    fn reached(&self, record: u64) -> bool {
        let threads = self.done.len() as u64;
        let position = self.order.position_of(record);
        let thread = owner_of(self.count, threads, position);
        let start = slice_of(self.count, threads, thread).start;
        position - start < self.done[thread as usize]
    }
}

/// What must be visible once all writers have stopped.
#[derive(Debug)]
pub(crate) enum Expectation {
    /// Every record, generation 0.
    Full {
        /// Number of records.
        count: u64,
    },
    /// The records that a partial pass has or has not reached, generation 0.
    Progress(Progress),
    /// What the table says.
    Generations(Generations),
}

impl Expectation {
    /// The generations allowed for a record, or `None` if it must be absent.
    pub(crate) fn of(&self, record: u64) -> Option<RangeInclusive<u32>> {
        match self {
            Self::Full { count } => (record < *count).then_some(0..=0),
            Self::Progress(progress) => {
                (progress.reached(record) != progress.removed).then_some(0..=0)
            }
            Self::Generations(table) => match table.committed(record) {
                ABSENT => None,
                committed => Some(committed - 1..=table.begun(record) - 1),
            },
        }
    }

    /// Number of records that must be visible.
    pub(crate) fn visible(&self) -> u64 {
        match self {
            Self::Full { count } => *count,
            Self::Progress(progress) => {
                let done: u64 = progress.done.iter().sum();
                if progress.removed { progress.count - done } else { done }
            }
            Self::Generations(table) => (0..table.cells.len() as u64)
                .filter(|record| table.committed(*record) != ABSENT)
                .count() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::order::Permutation;

    #[test]
    fn progress_knows_each_record() {
        let order = Order::Permuted(Permutation::new(100, 5));
        let progress = Progress { order, count: 100, done: vec![10, 3, 33], removed: false };
        let expectation = Expectation::Progress(progress);
        let seen = (0..100).filter(|record| expectation.of(*record).is_some()).count();
        assert_eq!(seen, 46);
        assert_eq!(expectation.visible(), 46);
    }

    #[test]
    fn generations_bound_what_a_reader_may_see() {
        let table = Generations::new(10, 2, true);
        assert_eq!(table.own(1, 4), 5);
        assert_eq!(Generations::new(5, 2, true).own(1, 4), 3);
        assert_eq!(table.begin(5), 1);
        let before = table.committed(5);
        assert!(table.allows(5, before, 0) && table.allows(5, before, 1));
        assert!(!table.allows(5, before, 2));
        table.commit(5);
        let before = table.committed(5);
        assert!(!table.allows(5, before, 0), "stale");
        assert!(table.allows(5, before, 1));
        let expectation = Expectation::Generations(table);
        assert_eq!(expectation.of(5), Some(1..=1));
        assert_eq!(expectation.of(6), Some(0..=0));
    }
}
