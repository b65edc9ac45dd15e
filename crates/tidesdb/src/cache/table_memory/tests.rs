//! Which tables give way to which, shown with tables that are nothing but flags.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use tidesdb_lockfree::arena::BlockPool;

use super::*;
use crate::cache::BlockCache;

const TABLE_BYTES: u64 = SHARE_PERCENT << 11;
const RUN_BYTES: u64 = 1 << 30;
/// That of a table that is asked and wants a place.
const ASKED: Claim = Claim::OfRun(RUN_BYTES);

#[derive(Debug)]
struct Fake {
    budget: Arc<MemoryBudget>,
    is_open: AtomicBool,
    /// The filter alone is held.
    is_filter: AtomicBool,
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

    fn held(&self) -> HeldParts {
        match self.is_filter.load(Ordering::Relaxed) {
            true => HeldParts::Filter,
            false => HeldParts::All,
        }
    }
}

impl HeldTable for Fake {
    fn begin_period(&self) -> Option<(HeldParts, Claim)> {
        self.looked_at.fetch_add(1, Ordering::Relaxed);
        let is_idle = !self.is_used.swap(false, Ordering::Relaxed);
        let of_run = Claim::OfRun(self.run_bytes.load(Ordering::Relaxed));
        self.is_open().then_some((self.held(), if is_idle { Claim::Idle } else { of_run }))
    }

    fn give_way(&self, held: HeldParts, claim: Claim) {
        let is_used = claim == Claim::Idle && self.is_used.load(Ordering::Relaxed);
        if held == self.held() && !is_used {
            self.close();
        }
    }

    fn close(&self) {
        if self.is_open.swap(false, Ordering::Relaxed) {
            self.budget.give_back(Holder::Tables, TABLE_BYTES);
        }
    }
}

/// Those of a table that has a filter and next to no index.
const fn sizes(filter: u64) -> HeldSizes {
    HeldSizes { filter, index: 0 }
}

/// What a table wants of which nothing is held.
const fn wanted(filter: u64) -> Wanted {
    Wanted { sizes: sizes(filter), held: HeldParts::None, needs_filter: true }
}

/// A share that is full of the filters of so many tables, all of which were used.
fn full(count: u64) -> (TableMemory, Vec<Arc<Fake>>) {
    let blocks = Arc::new(BlockCache::new(1 << 20, 4096));
    let bytes = count * TABLE_BYTES / SHARE_PERCENT * 100;
    let budget = Arc::new(MemoryBudget::new(bytes, 0, blocks, BlockPool::new(0)));
    let memory = TableMemory::new(Arc::clone(&budget));
    let open = |_| {
        assert_eq!(memory.make_room(sizes(TABLE_BYTES)), HeldParts::All);
        budget.take(Holder::Tables, TABLE_BYTES);
        let (is_open, is_used) = (AtomicBool::new(true), AtomicBool::new(true));
        let (budget, run_bytes) = (Arc::clone(&budget), AtomicU64::new(RUN_BYTES));
        let (is_filter, looked_at) = (AtomicBool::new(true), Default::default());
        let table = Arc::new(Fake { budget, is_open, is_filter, is_used, run_bytes, looked_at });
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
            assert_eq!(memory.make_room(sizes(TABLE_BYTES)), HeldParts::None);
        }
        tables.iter().for_each(|table| table.read());
    }
    assert!(tables.iter().all(|table| table.is_open()));
    let looks = tables.iter().map(|table| table.looked_at.load(Ordering::Relaxed)).sum::<usize>();
    assert!(looks <= 50 * 90, "openings looked at {looks} tables");
}

/// With very many tables their records and what was open of them took more than half of a budget.
#[test]
fn what_is_known_of_tables_leaves_open_ones_less() {
    let (memory, tables) = full(30);
    let budget = Arc::clone(&memory.budget);
    let open = || tables.iter().filter(|table| table.is_open()).count() as u64;
    for (known, left) in [(0, 30), (10, 20), (1000, 10)] {
        budget.take(Holder::TableRecords, known * TABLE_BYTES);
        memory.keep_to_share();
        assert_eq!(open(), left);
        let is_full = memory.make_room(sizes(TABLE_BYTES)) == HeldParts::None;
        assert!(is_full, "of {left} tables none was idle");
        budget.give_back(Holder::TableRecords, known * TABLE_BYTES);
    }
    assert_eq!(memory.make_room(sizes(TABLE_BYTES)), HeldParts::All);
}

/// In a period of its own at least one table was asked often: what was not used in it at all
/// gives way.
#[test]
fn a_table_that_is_asked_often_takes_the_room_of_an_idle_one() {
    let (memory, tables) = full(10);
    let counts = [CountsSince::default(), CountsSince::default()];
    // Both counted in part of the first period only, so one period is over.
    let asked = |bytes, n: usize| memory.make_room_for_asked(wanted(bytes), ASKED, &counts[n]);
    assert_eq!([asked(1, 0), asked(1, 1)], [HeldParts::None; 2]);
    tables.iter().skip(1).for_each(|table| table.read());
    assert_eq!(asked(TABLE_BYTES, 0), HeldParts::All);
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
        memory.make_room_for_asked(wanted(1), claim, &counts[n]) != HeldParts::None
    };
    let open = || (0..10).filter(|n| tables[*n].is_open()).collect::<Vec<_>>();
    assert!(asks(0, ASKED));
    assert_eq!(open(), [0, 1, 2, 3, 4, 6, 7, 8, 9]);
    memory.budget.take(Holder::Tables, TABLE_BYTES);
    assert!(asks(1, ASKED));
    assert_eq!(open(), [0, 1, 2, 4, 6, 7, 8, 9]);
    memory.budget.take(Holder::Tables, TABLE_BYTES);
    assert!(!asks(2, ASKED), "the others' runs are not larger");
    assert_eq!(memory.make_room(sizes(1)), HeldParts::None, "an opening is no ask");
    assert_eq!(open(), [0, 1, 2, 4, 6, 7, 8, 9]);
    assert!(asks(3, Claim::OfRun(RUN_BYTES / 2)));
    assert_eq!(open().len(), 7);
    assert!(tables[7].is_open());
}

/// A get asks the filters of many tables and the index of one.
#[test]
fn an_index_gives_way_to_a_filter_and_no_filter_to_an_index() {
    let (memory, tables) = full(10);
    let open = || tables.iter().filter(|table| table.is_open()).count();
    tables[..2].iter().for_each(|table| table.is_filter.store(false, Ordering::Relaxed));
    let counts = CountsSince::default();
    let asks = |wanted| {
        tables.iter().for_each(|table| table.read());
        memory.make_room_for_asked(wanted, ASKED, &counts)
    };
    let spared = Wanted { needs_filter: false, ..wanted(1) };
    assert_eq!(asks(spared), HeldParts::None, "its filter is not asked");
    assert_eq!(open(), 10);
    let sizes = HeldSizes { filter: TABLE_BYTES, index: 2 * TABLE_BYTES };
    assert_eq!(asks(Wanted { sizes, ..wanted(0) }), HeldParts::Filter);
    assert_eq!(open(), 9);
    assert!(!tables[..2].iter().all(|table| table.is_open()));
    let held = HeldParts::Filter;
    assert_eq!(asks(Wanted { sizes, held, needs_filter: false }), held, "no index");
    assert_eq!(open(), 9);
    // What is free does for the filter of a table that is opened.
    assert_eq!(memory.make_room(sizes), HeldParts::Filter);
    assert_eq!(open(), 9);
}

/// Without tables that are held in parts and asked, openings alone show what is idle.
#[test]
fn many_openings_close_what_is_not_used() {
    let (memory, tables) = full(10);
    let opened = (0..40).position(|_| {
        tables[3].read();
        memory.make_room(sizes(5 * TABLE_BYTES)) != HeldParts::None
    });
    assert!(opened.is_some_and(|openings| openings > 10), "{opened:?}");
    assert!(tables[3].is_open());
    assert_eq!(tables.iter().filter(|table| table.is_open()).count(), 5);
}

#[test]
fn a_smaller_budget_closes_tables_in_use() {
    let (memory, tables) = full(10);
    memory.budget.set_bytes(4 * TABLE_BYTES / SHARE_PERCENT * 100);
    memory.keep_to_share();
    assert_eq!(tables.iter().filter(|table| table.is_open()).count(), 4);
}
