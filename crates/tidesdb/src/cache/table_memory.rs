//! The memory of open tables: indexes and filters, which a share of the memory budget is for.
//!
//! A table is held as a whole, or, where there is no room for that, in parts: then its index and
//! filter are read through the block cache, and little stays here. Tables that are not used give
//! way to those that are; those that are held in parts only when these alone are too many. A get
//! asks each run for its key, from the newest on, so a byte of a small run's filters is asked more
//! often than one of a large run's: a table that is held in parts and asked often takes the place
//! of tables of runs that are at least twice as large. A caller that opens a table asks first;
//! nothing polls.
//!
//! A table is idle when no call used it for a whole period. A period ends when a table that is held
//! in parts was asked often within it, or when room was sought as many times as there are tables.
//! So a caller that seeks room looks at the idle tables that the last period left, and takes
//! nothing from those in use: where all are in use, a table more is read in parts. Without periods,
//! each opening would find idle whatever was not used since the opening before. A database with
//! more tables than its share has room for opens some all the time, each of them would close
//! others, and these are opened again: an index and a filter are read and checked for each.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tidesdb_lockfree::sync::lock;

use crate::memory::MemoryBudget;

/// Open tables may take this part of the memory budget: one in so many.
const BUDGET_SHARE: u64 = 8;

/// So many entries are not worth a look for those that point at nothing any more.
const LEAST_LOOKED_THROUGH: usize = 64;

/// How much of a table is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldAs {
    /// Index and filter.
    Whole,
    /// What finds their parts.
    Parts,
}

/// What a table that is held as a whole has to say for that; the larger one gives way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// It was used, and its run has so many bytes: the fewer, the more often it is asked for each.
    OfRun(u64),
    /// It was not used in the last period.
    Idle,
}

impl Claim {
    /// Whether a table with this claim gives way to one in use. A run has to be much smaller than
    /// the other: of two that are alike each would take the place of the other in turn.
    fn gives_way_to(self, other: Self) -> bool {
        match (self, other) {
            (Self::Idle, _) => true,
            (Self::OfRun(bytes), Self::OfRun(others)) => bytes / 2 >= others,
            (Self::OfRun(_), Self::Idle) => false,
        }
    }
}

/// A table that has something in memory.
pub(crate) trait HeldTable: Debug + Send + Sync {
    /// Begins a period. How the table is held, and what the last period says for that; none of a
    /// table that is not open.
    fn begin_period(&self) -> Option<(HeldAs, Claim)>;

    /// Closes the table if it is held like this, unless it was idle and is no more.
    fn give_way(&self, held: HeldAs, claim: Claim);

    /// Closes the table.
    fn close(&self);
}

/// The period in which a table began to count how often it is asked.
#[derive(Debug, Default)]
pub(crate) struct CountsSince(AtomicU32);

/// Which open tables are held, and which of them give their memory up next.
#[derive(Debug)]
pub(crate) struct TableMemory {
    budget: Arc<MemoryBudget>,
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    /// Every table that was ever opened, once.
    all: Vec<Weak<dyn HeldTable>>,
    /// With so many entries, those that point at nothing any more are looked for.
    looked_through_at: usize,
    period: u32,
    /// How often room was sought in this period.
    sought: usize,
    /// Tables that were held as a whole when the period began, and those that were held in parts
    /// and idle: those that give way first are the last ones.
    held: [Vec<(Claim, Weak<dyn HeldTable>)>; 2],
}

impl Tables {
    fn begin_period(&mut self) {
        self.period = self.period.wrapping_add(1);
        self.sought = 0;
        self.held.iter_mut().for_each(Vec::clear);
        for weak in &self.all {
            let Some((held, claim)) = weak.upgrade().and_then(|table| table.begin_period()) else {
                continue;
            };
            if held == HeldAs::Whole || claim == Claim::Idle {
                self.held[held as usize].push((claim, Weak::clone(weak)));
            }
        }
        self.held[HeldAs::Whole as usize].sort_by_key(|(claim, _)| *claim);
    }
}

impl TableMemory {
    /// The share of `budget`.
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, tables: Mutex::default() }
    }

    /// The share of a budget of so many bytes.
    pub(crate) const fn share_of(budget: u64) -> u64 {
        budget / BUDGET_SHARE
    }

    /// Whether so many bytes more are within the share.
    fn has_room(&self, bytes: u64) -> bool {
        self.budget.table_bytes().saturating_add(bytes) <= Self::share_of(self.budget.bytes())
    }

    /// Closes idle tables until there is room for a table of so many bytes; false when there
    /// is none: all tables are in use.
    pub(crate) fn make_room(&self, bytes: u64) -> bool {
        if self.has_room(bytes) {
            return true;
        }
        let mut tables = lock(&self.tables);
        tables.sought += 1;
        if tables.sought > tables.all.len() {
            tables.begin_period();
        }
        let has_room = self.close_for(&mut tables, (HeldAs::Whole, Claim::Idle), bytes);
        if !has_room && !self.has_room(0) {
            self.close_for(&mut tables, (HeldAs::Parts, Claim::Idle), 0);
        }
        has_room
    }

    /// As [`TableMemory::make_room`], for a table that is held in parts and was asked often since
    /// it was said so last: then a table gives way that was not asked at all meanwhile, or that is
    /// of a much larger run.
    pub(crate) fn make_room_for_asked(
        &self,
        bytes: u64,
        claim: Claim,
        counts: &CountsSince,
    ) -> bool {
        if self.has_room(bytes) {
            return true;
        }
        let mut tables = lock(&self.tables);
        // ORDERING: relaxed; changed with the lock held.
        if counts.0.load(Ordering::Relaxed) == tables.period {
            tables.begin_period();
        }
        counts.0.store(tables.period, Ordering::Relaxed);
        self.close_for(&mut tables, (HeldAs::Whole, claim), bytes)
    }

    /// Closes tables that are held like this and give way to `claim`, until there is room.
    fn close_for(&self, tables: &mut Tables, (held, claim): (HeldAs, Claim), bytes: u64) -> bool {
        while !self.has_room(bytes) {
            let last = tables.held[held as usize].pop_if(|(its, _)| its.gives_way_to(claim));
            let Some((its, weak)) = last else { return false };
            if let Some(table) = weak.upgrade() {
                table.give_way(held, its);
            }
        }
        true
    }

    /// Closes tables until the others are within the share, those that are idle first: the budget
    /// was lowered.
    pub(crate) fn keep_to_share(&self) {
        if self.has_room(0) {
            return;
        }
        let mut tables = lock(&self.tables);
        self.close_for(&mut tables, (HeldAs::Whole, Claim::Idle), 0);
        for table in tables.all.iter().filter_map(Weak::upgrade) {
            if self.has_room(0) {
                return;
            }
            table.close();
        }
    }

    /// Notes a table that is opened for the first time.
    pub(crate) fn opened(&self, table: Weak<dyn HeldTable>) {
        let mut tables = lock(&self.tables);
        tables.all.push(table);
        if tables.all.len() > tables.looked_through_at {
            // A table that is gone leaves its memory to holders that still point at it.
            tables.all.retain(|table| table.strong_count() > 0);
            tables.looked_through_at = 2 * tables.all.len() + LEAST_LOOKED_THROUGH;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

    use tidesdb_lockfree::arena::BlockPool;

    use super::*;
    use crate::cache::BlockCache;
    use crate::memory::Holder;

    const TABLE_BYTES: u64 = 1 << 16;
    const RUN_BYTES: u64 = 1 << 30;
    /// That of a table that is asked and wants a place.
    const ASKED: Claim = Claim::OfRun(RUN_BYTES);

    #[derive(Debug)]
    struct Fake {
        budget: Arc<MemoryBudget>,
        is_open: AtomicBool,
        is_used: AtomicBool,
        run_bytes: AtomicU64,
        looked_at: AtomicUsize,
    }

    impl Fake {
        fn read(&self) {
            self.is_used.store(true, Ordering::Relaxed);
        }

        fn is_open(&self) -> bool {
            self.is_open.load(Ordering::Relaxed)
        }
    }

    impl HeldTable for Fake {
        fn begin_period(&self) -> Option<(HeldAs, Claim)> {
            self.looked_at.fetch_add(1, Ordering::Relaxed);
            let is_idle = !self.is_used.swap(false, Ordering::Relaxed);
            let of_run = Claim::OfRun(self.run_bytes.load(Ordering::Relaxed));
            self.is_open().then_some((HeldAs::Whole, if is_idle { Claim::Idle } else { of_run }))
        }

        fn give_way(&self, held: HeldAs, claim: Claim) {
            let is_used = claim == Claim::Idle && self.is_used.load(Ordering::Relaxed);
            if held == HeldAs::Whole && !is_used {
                self.close();
            }
        }

        fn close(&self) {
            if self.is_open.swap(false, Ordering::Relaxed) {
                self.budget.give_back(Holder::Tables, TABLE_BYTES);
            }
        }
    }

    /// A share that is full of so many tables, all of which were used.
    fn full(count: u64) -> (TableMemory, Vec<Arc<Fake>>) {
        let blocks = Arc::new(BlockCache::new(1 << 20, 4096));
        let bytes = count * TABLE_BYTES * BUDGET_SHARE;
        let budget = Arc::new(MemoryBudget::new(bytes, 0, blocks, BlockPool::new(0)));
        let memory = TableMemory::new(Arc::clone(&budget));
        let open = |_| {
            assert!(memory.make_room(TABLE_BYTES));
            budget.take(Holder::Tables, TABLE_BYTES);
            let (is_open, is_used) = (AtomicBool::new(true), AtomicBool::new(true));
            let (budget, run_bytes) = (Arc::clone(&budget), AtomicU64::new(RUN_BYTES));
            let looked_at = Default::default();
            let table = Arc::new(Fake { budget, is_open, is_used, run_bytes, looked_at });
            let weak: Weak<Fake> = Arc::downgrade(&table);
            memory.opened(weak);
            table
        };
        let tables = (0..count).map(open).collect();
        (memory, tables)
    }

    /// A get finds most tables of its runs open, and opens the others: these must not close those.
    #[test]
    fn openings_leave_tables_in_use_alone() {
        let (memory, tables) = full(100);
        for _ in 0..50 {
            for _ in 0..90 {
                assert!(!memory.make_room(TABLE_BYTES));
            }
            tables.iter().for_each(|table| table.read());
        }
        assert!(tables.iter().all(|table| table.is_open()));
        let looks =
            tables.iter().map(|table| table.looked_at.load(Ordering::Relaxed)).sum::<usize>();
        assert!(looks <= 50 * 90, "openings looked at {looks} tables");
    }

    /// In a period of its own at least one table was asked often: what was not used in it at all
    /// gives way.
    #[test]
    fn a_table_that_is_asked_often_takes_the_room_of_an_idle_one() {
        let (memory, tables) = full(10);
        let counts = [CountsSince::default(), CountsSince::default()];
        // Both counted in part of the first period only, so one period is over.
        let found = counts.each_ref().map(|counts| memory.make_room_for_asked(1, ASKED, counts));
        assert_eq!(found, [false, false]);
        tables.iter().skip(1).for_each(|table| table.read());
        assert!(memory.make_room_for_asked(TABLE_BYTES, ASKED, &counts[0]));
        assert!(!tables[0].is_open());
        assert!(tables.iter().skip(1).all(|table| table.is_open()));
    }

    /// Of all tables that are asked those of the smallest runs are asked most for their bytes.
    #[test]
    fn a_table_of_a_much_larger_run_gives_way_to_one_that_is_asked() {
        let (memory, tables) = full(10);
        let of_run = |n: usize, bytes| tables[n].run_bytes.store(bytes, Ordering::Relaxed);
        of_run(3, 4 * RUN_BYTES);
        of_run(5, 8 * RUN_BYTES);
        of_run(7, RUN_BYTES / 4);
        let counts = [(); 9].map(|()| CountsSince::default());
        // A period begins, in which all are used.
        let asks = |n: usize, claim| {
            tables.iter().for_each(|table| table.read());
            memory.make_room_for_asked(1, claim, &counts[n])
        };
        let open = || (0..10).filter(|n| tables[*n].is_open()).collect::<Vec<_>>();
        assert!(asks(0, ASKED));
        assert_eq!(open(), [0, 1, 2, 3, 4, 6, 7, 8, 9]);
        memory.budget.take(Holder::Tables, TABLE_BYTES);
        assert!(asks(1, ASKED));
        assert_eq!(open(), [0, 1, 2, 4, 6, 7, 8, 9]);
        memory.budget.take(Holder::Tables, TABLE_BYTES);
        assert!(!asks(2, ASKED), "the others' runs are not larger");
        assert!(!memory.make_room(1), "an opening is no ask");
        assert_eq!(open(), [0, 1, 2, 4, 6, 7, 8, 9]);
        assert!(asks(3, Claim::OfRun(RUN_BYTES / 2)));
        assert_eq!(open().len(), 7);
        assert!(tables[7].is_open());
    }

    /// Without tables that are held in parts and asked, openings alone show what is idle.
    #[test]
    fn many_openings_close_what_is_not_used() {
        let (memory, tables) = full(10);
        let opened = (0..40).position(|_| {
            tables[3].read();
            memory.make_room(5 * TABLE_BYTES)
        });
        assert!(opened.is_some_and(|openings| openings > 10), "{opened:?}");
        assert!(tables[3].is_open());
        assert_eq!(tables.iter().filter(|table| table.is_open()).count(), 5);
    }

    #[test]
    fn a_smaller_budget_closes_tables_in_use() {
        let (memory, tables) = full(10);
        memory.budget.set_bytes(4 * TABLE_BYTES * BUDGET_SHARE);
        memory.keep_to_share();
        assert_eq!(tables.iter().filter(|table| table.is_open()).count(), 4);
    }
}
