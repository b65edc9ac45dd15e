//! What a reader must see: which records are there, and in which generation.
//!
//! Few cases cover all workloads without storing values. [`Expectation::Full`]: every resident
//! record in generation 0. [`Expectation::Progress`]: each thread wrote (or deleted) a prefix of
//! its part of an order, each record once. [`Expectation::Generations`]: records are overwritten,
//! deleted or inserted; a table holds for each one the states begun and committed.
//!
//! Threads: a record of the table is changed only by its owning thread ([`Generations::own`], or
//! the thread that inserts it); any thread reads it. A reader takes the committed state before its
//! read ([`Generations::before`]) and asks afterwards whether what it got is allowed.

use crate::data::order::{Order, owner_of, slice_of};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

/// Set in a state that means "the record is absent".
const ABSENT: u32 = 1 << 31;

/// A state of a record: how many changes it has had, and whether the last one removed it. The value
/// of generation `g` is written by change `g + 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(u32);

impl State {
    const NEVER: Self = Self(ABSENT);
    const LOADED: Self = Self(1);

    fn changes(self) -> u32 {
        self.0 & !ABSENT
    }

    /// Whether the record is there.
    pub(crate) fn present(self) -> bool {
        self.0 & ABSENT == 0
    }
}

/// Begun and committed state per record.
#[derive(Debug)]
pub(crate) struct Generations {
    /// Begun in the high half, committed in the low half.
    cells: Vec<AtomicU64>,
    threads: u64,
}

fn cell(begun: State, committed: State) -> u64 {
    u64::from(begun.0) << 32 | u64::from(committed.0)
}

impl Generations {
    /// A table of `count` records; those that `present` names are there in generation 0. Changes
    /// are made by `threads` threads.
    pub(crate) fn new(count: u64, threads: u64, present: impl Fn(u64) -> bool) -> Self {
        let state = |record| if present(record) { State::LOADED } else { State::NEVER };
        let cells = (0..count).map(|record| AtomicU64::new(cell(state(record), state(record))));
        Self { cells: cells.collect(), threads: threads.max(1) }
    }

    /// The nearest record that changing thread `thread` owns, given a drawn one.
    pub(crate) fn own(&self, thread: u64, record: u64) -> u64 {
        let owned = record - record % self.threads + thread;
        if owned < self.cells.len() as u64 {
            owned
        } else {
            // The last group is incomplete; the group before it is not, if there are two.
            owned.saturating_sub(self.threads).min(self.cells.len() as u64 - 1)
        }
    }

    fn load(&self, record: u64) -> (State, State) {
        // ORDERING: Acquire pairs with the Release stores below: a thread that meets a new value in
        // the engine also finds it begun here, and a thread that finds a state committed starts its
        // read after the call that it stands for.
        let cell = self.cells[record as usize].load(Ordering::Acquire);
        (State((cell >> 32) as u32), State(cell as u32))
    }

    fn store(&self, record: u64, begun: State, committed: State) {
        // ORDERING: see `load`.
        self.cells[record as usize].store(cell(begun, committed), Ordering::Release);
    }

    /// Starts a put; returns the generation to write. Only the owner calls this.
    pub(crate) fn begin(&self, record: u64) -> u32 {
        let (begun, committed) = self.load(record);
        self.store(record, State(begun.changes() + 1), committed);
        begun.changes()
    }

    /// Starts a delete. Only the owner calls this.
    pub(crate) fn begin_delete(&self, record: u64) {
        let (begun, committed) = self.load(record);
        self.store(record, State((begun.changes() + 1) | ABSENT), committed);
    }

    /// Marks everything begun on a record as committed. Only the owner calls this.
    pub(crate) fn commit(&self, record: u64) {
        let (begun, _) = self.load(record);
        self.store(record, begun, begun);
    }

    /// Forgets what was begun on a record and did not happen. Only the owner calls this.
    pub(crate) fn abandon(&self, record: u64) {
        let (_, committed) = self.load(record);
        self.store(record, committed, committed);
    }

    /// Sets a record that exists to a range of generations that may be found.
    pub(crate) fn set(&self, record: u64, generations: RangeInclusive<u32>) {
        self.store(record, State(generations.end() + 1), State(generations.start() + 1));
    }

    /// The committed state, to be taken before a read.
    pub(crate) fn before(&self, record: u64) -> State {
        self.load(record).1
    }

    /// Number of records.
    pub(crate) fn count(&self) -> u64 {
        self.cells.len() as u64
    }

    /// Whether a read that began after `before` was taken may return this generation, or nothing.
    pub(crate) fn allows(&self, record: u64, before: State, generation: Option<u32>) -> bool {
        let (begun, _) = self.load(record);
        let (first, last) = (before.changes(), begun.changes());
        match generation {
            Some(generation) => {
                let change = generation.saturating_add(1);
                let removed =
                    (change == first && !before.present()) || (change == last && !begun.present());
                (first..=last).contains(&change) && !removed
            }
            // With two changes or more since, one in between may have been a delete.
            None => !before.present() || !begun.present() || last - first > 1,
        }
    }
}

/// How positions of an order are divided among threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Split {
    /// Each thread has a slice.
    Slices,
    /// Threads take positions in turn.
    Interleaved,
}

impl Split {
    /// Positions of one thread.
    pub(crate) fn length(self, count: u64, threads: u64, thread: u64) -> u64 {
        let slice = slice_of(count, threads, thread);
        slice.end - slice.start
    }

    /// The `step`-th position of a thread.
    pub(crate) fn position(self, count: u64, threads: u64, thread: u64, step: u64) -> u64 {
        match self {
            Self::Slices => slice_of(count, threads, thread).start + step,
            Self::Interleaved => step * threads + thread,
        }
    }

    /// From one position of a thread to its next.
    pub(crate) fn stride(self, threads: u64) -> u64 {
        match self {
            Self::Slices => 1,
            Self::Interleaved => threads,
        }
    }

    /// The thread and step of a position.
    fn owner(self, count: u64, threads: u64, position: u64) -> (u64, u64) {
        match self {
            Self::Slices => {
                let thread = owner_of(count, threads, position);
                (thread, position - slice_of(count, threads, thread).start)
            }
            Self::Interleaved => (position % threads, position / threads),
        }
    }
}

/// How far each thread went through its part of an order.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The order that was followed.
    pub(crate) order: Order,
    /// Number of positions that were to be visited; records of later ones are absent.
    pub(crate) count: u64,
    /// How the positions were divided.
    pub(crate) split: Split,
    /// Operations that each thread completed.
    pub(crate) done: Vec<u64>,
    /// True after deletes: the records reached are gone instead of present.
    pub(crate) removed: bool,
}

impl Progress {
    fn reached(&self, position: u64) -> bool {
        let threads = self.done.len() as u64;
        let (thread, step) = self.split.owner(self.count, threads, position);
        step < self.done[thread as usize]
    }

    /// Whether the record must be there.
    pub(crate) fn present(&self, record: u64) -> bool {
        let position = self.order.position_of(record);
        position < self.count && self.reached(position) != self.removed
    }
}

/// What must be visible once all writers have stopped.
#[derive(Debug)]
pub(crate) enum Expectation {
    /// Every resident record, generation 0; the function of the data set says which are resident.
    Full {
        /// Number of resident records.
        count: u64,
    },
    /// Records of [`Expectation::Full`], any of which may be missing: what an engine that keeps
    /// unsynced commits in its memory may leave when its process dies.
    Remains {
        /// Number of records that were written.
        count: u64,
    },
    /// The records that a partial pass has or has not reached, generation 0.
    Progress(Progress),
    /// What the table says.
    Generations(Generations),
    /// Every other record: those with an even number.
    Even {
        /// Number of records.
        count: u64,
        /// How many of the first ones were written at all.
        written: Progress,
    },
}

impl Expectation {
    /// The generations allowed for a record, or `None` if it must be absent; `resident` says
    /// whether it was loaded.
    pub(crate) fn of(&self, record: u64, resident: bool) -> Option<RangeInclusive<u32>> {
        match self {
            Self::Full { .. } | Self::Remains { .. } => resident.then_some(0..=0),
            Self::Progress(progress) => progress.present(record).then_some(0..=0),
            Self::Even { written, .. } => {
                (record.is_multiple_of(2) && written.present(record)).then_some(0..=0)
            }
            Self::Generations(table) => {
                let (begun, committed) = table.load(record);
                committed.present().then(|| committed.changes() - 1..=begun.changes() - 1)
            }
        }
    }

    /// Whether records may be missing.
    pub(crate) fn may_lack(&self) -> bool {
        matches!(self, Self::Remains { .. })
    }

    /// Number of records that must be visible, or may be where they may be missing.
    pub(crate) fn visible(&self) -> u64 {
        match self {
            Self::Full { count } | Self::Remains { count } => *count,
            Self::Progress(progress) => {
                let done: u64 = progress.done.iter().sum();
                if progress.removed { progress.count - done } else { done }
            }
            Self::Even { count, written } => {
                (0..*count).step_by(2).filter(|record| written.present(*record)).count() as u64
            }
            Self::Generations(table) => {
                (0..table.count()).filter(|record| table.before(*record).present()).count() as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::order::Permutation;

    #[test]
    fn progress_knows_each_record() {
        for split in [Split::Slices, Split::Interleaved] {
            let order = Order::Permuted(Permutation::new(120, 5));
            let done = vec![10, 3, 33];
            let progress = Progress { order, count: 100, split, done, removed: false };
            let reached: Vec<u64> = (0..3)
                .flat_map(|thread| {
                    let order = &progress.order;
                    (0..progress.done[thread as usize])
                        .map(move |step| order.at(split.position(100, 3, thread, step)))
                })
                .collect();
            let expectation = Expectation::Progress(progress);
            let seen = |record: &u64| expectation.of(*record, true).is_some();
            assert!(reached.iter().all(seen));
            assert_eq!((0..120).filter(seen).count(), 46);
            assert_eq!(expectation.visible(), 46);
        }
    }

    #[test]
    fn generations_bound_what_a_reader_may_see() {
        let table = Generations::new(10, 2, |record| record < 8);
        assert_eq!(table.own(1, 4), 5);
        assert_eq!(Generations::new(5, 2, |_| true).own(1, 4), 3);
        assert_eq!(table.begin(5), 1);
        let before = table.before(5);
        assert!(table.allows(5, before, Some(0)) && table.allows(5, before, Some(1)));
        assert!(!table.allows(5, before, Some(2)) && !table.allows(5, before, None));
        table.commit(5);
        let before = table.before(5);
        assert!(!table.allows(5, before, Some(0)), "stale");
        assert!(table.allows(5, before, Some(1)));
        table.begin_delete(5);
        assert!(table.allows(5, before, Some(1)) && table.allows(5, before, None));
        table.commit(5);
        let gone = table.before(5);
        assert!(!gone.present() && !table.allows(5, gone, Some(1)) && table.allows(5, gone, None));
        assert_eq!(table.begin(5), 3);
        assert!(table.allows(5, gone, Some(3)) && table.allows(5, gone, None));
        assert!(!table.allows(5, gone, Some(2)));
        table.commit(5);
        let absent = table.before(9);
        assert!(table.allows(9, absent, None) && !table.allows(9, absent, Some(0)));
        assert_eq!(table.begin(9), 0);
        assert!(table.allows(9, absent, Some(0)));
        let expectation = Expectation::Generations(table);
        assert_eq!(expectation.of(5, true), Some(3..=3));
        assert_eq!(expectation.of(6, true), Some(0..=0));
        assert_eq!(expectation.of(9, false), None);
        assert_eq!(expectation.visible(), 8);
    }
}
