//! The memory of open tables: indexes and filters, which a share of the memory budget is for.
//!
//! A table is held as a whole, or, where there is no room for that, in parts: then its index and
//! filter are read through the block cache, and little stays here. Tables that are not used give
//! way to those that are; those that are held in parts only when these alone are too many. A caller
//! that opens a table asks first; nothing polls.
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

/// A table that has something in memory.
pub(crate) trait HeldTable: Debug + Send + Sync {
    /// Begins a period. How the table is held if it was not used in the last one.
    fn idle_as(&self) -> Option<HeldAs>;

    /// Closes the table if it is held like this and was not used in this period so far.
    fn close_if_idle(&self, held: HeldAs);

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
    /// Tables that were not used in the last period, by how they are held.
    idle: [Vec<Weak<dyn HeldTable>>; 2],
}

impl Tables {
    fn begin_period(&mut self) {
        self.period = self.period.wrapping_add(1);
        self.sought = 0;
        self.idle.iter_mut().for_each(Vec::clear);
        for weak in &self.all {
            if let Some(held) = weak.upgrade().and_then(|table| table.idle_as()) {
                self.idle[held as usize].push(Weak::clone(weak));
            }
        }
    }
}

impl TableMemory {
    /// The share of `budget`.
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, tables: Mutex::default() }
    }

    /// Whether so many bytes more are within the share.
    fn has_room(&self, bytes: u64) -> bool {
        self.budget.table_bytes().saturating_add(bytes) <= self.budget.bytes() / BUDGET_SHARE
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
        let has_room = self.close_idle(&mut tables, HeldAs::Whole, bytes);
        if !has_room && !self.has_room(0) {
            self.close_idle(&mut tables, HeldAs::Parts, 0);
        }
        has_room
    }

    /// As [`TableMemory::make_room`], for a table that is held in parts and was asked often since
    /// it was said so last: then a table that was not asked at all meanwhile gives way.
    pub(crate) fn make_room_for_asked(&self, bytes: u64, counts: &CountsSince) -> bool {
        if self.has_room(bytes) {
            return true;
        }
        let mut tables = lock(&self.tables);
        // ORDERING: relaxed; changed with the lock held.
        if counts.0.load(Ordering::Relaxed) == tables.period {
            tables.begin_period();
        }
        counts.0.store(tables.period, Ordering::Relaxed);
        self.close_idle(&mut tables, HeldAs::Whole, bytes)
    }

    fn close_idle(&self, tables: &mut Tables, held: HeldAs, bytes: u64) -> bool {
        while !self.has_room(bytes) {
            let Some(weak) = tables.idle[held as usize].pop() else { return false };
            if let Some(table) = weak.upgrade() {
                table.close_if_idle(held);
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
        self.close_idle(&mut tables, HeldAs::Whole, 0);
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
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    use tidesdb_lockfree::arena::BlockPool;

    use super::*;
    use crate::cache::BlockCache;
    use crate::memory::Holder;

    const TABLE_BYTES: u64 = 1 << 16;

    #[derive(Debug)]
    struct Fake {
        budget: Arc<MemoryBudget>,
        is_open: AtomicBool,
        is_used: AtomicBool,
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
        fn idle_as(&self) -> Option<HeldAs> {
            self.looked_at.fetch_add(1, Ordering::Relaxed);
            let is_idle = !self.is_used.swap(false, Ordering::Relaxed);
            (is_idle && self.is_open()).then_some(HeldAs::Whole)
        }

        fn close_if_idle(&self, held: HeldAs) {
            if held == HeldAs::Whole && !self.is_used.load(Ordering::Relaxed) {
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
            let budget = Arc::clone(&budget);
            let table = Arc::new(Fake { budget, is_open, is_used, looked_at: Default::default() });
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
        let found = counts.each_ref().map(|counts| memory.make_room_for_asked(1, counts));
        assert_eq!(found, [false, false]);
        tables.iter().skip(1).for_each(|table| table.read());
        assert!(memory.make_room_for_asked(TABLE_BYTES, &counts[0]));
        assert!(!tables[0].is_open());
        assert!(tables.iter().skip(1).all(|table| table.is_open()));
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
