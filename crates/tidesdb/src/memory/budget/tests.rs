//! What is counted of memory, and what follows from it.

use super::*;
use crate::cache::BlockCache;

const MIB: u64 = 1 << 20;

fn budget(mib: u64) -> Arc<MemoryBudget> {
    let blocks = Arc::new(BlockCache::new(32 << 20, 4096));
    Arc::new(MemoryBudget::new(mib * MIB, 0, blocks, BlockPool::new(0)))
}

#[test]
fn what_is_reserved_is_counted_until_it_is_dropped() {
    let budget = budget(1000);
    let reservation = budget.reserve(Holder::Scans, 5);
    budget.take(Holder::Tables, 7);
    let held = budget.held();
    assert_eq!((held.scans, held.tables, held.transactions), (5, 7, 0));
    drop(reservation);
    budget.take(Holder::Transactions, 1);
    assert_eq!((budget.held().scans, budget.held().transactions), (0, 1));
}

#[test]
fn growth_of_others_shrinks_the_cache_and_calls_for_a_writer() {
    let budget = budget(100);
    let before = budget.blocks.capacity_bytes();
    assert!(before > 20 * MIB);
    assert!(!budget.is_due(MIB));
    let reservation = budget.reserve(Holder::Background, 45 * MIB);
    assert!(budget.blocks.capacity_bytes() <= 10 * MIB);
    assert!(budget.is_due(1));
    drop(reservation);
    budget.review();
    assert_eq!(budget.blocks.capacity_bytes(), before);
    assert!(!budget.is_due(MIB));
}

#[test]
fn index_nodes_have_a_share_of_the_budget_and_count_in_it() {
    let budget = budget(160);
    assert!(budget.has_room());
    NodeMemory::take(&*budget, 10 * MIB - 1);
    assert!(budget.has_room());
    NodeMemory::take(&*budget, 1);
    assert!(!budget.has_room());
    assert_eq!(budget.held().tables, 10 * MIB);
    NodeMemory::give_back(&*budget, 10 * MIB);
    assert!(budget.has_room());
    assert_eq!(budget.held().tables, 0);
}

/// Tables of any size were written, and as much read ahead, whatever the budget.
#[test]
fn buffers_of_compactions_are_a_part_of_the_budget() {
    let options = FamilyOptions::default();
    for mib in [64, 96, 1000] {
        let budget = budget(mib);
        let part = mib * MIB / 32;
        let entries = budget.entries_per_table(&options);
        let bytes = table_writer_bytes(&options, entries);
        assert!(bytes <= part && bytes > part - MIB / 8, "{mib} MiB: {bytes}");
        assert_eq!(budget.readahead_bytes(), part);
    }
    assert_eq!(budget(1).entries_per_table(&options), LEAST_ENTRIES);
    let unbounded = budget(0);
    unbounded.set_bytes(u64::MAX);
    assert!(unbounded.entries_per_table(&options) > 1 << 50);
}

#[test]
fn budget_and_cache_can_be_changed() {
    let budget = budget(1000);
    budget.set_cache_wanted(8 * MIB);
    assert_eq!(budget.blocks.capacity_bytes(), 8 * MIB);
    budget.set_bytes(10 * MIB);
    assert!(budget.blocks.capacity_bytes() <= 4 * MIB);
    budget.set_bytes(u64::MAX);
    assert_eq!(budget.blocks.capacity_bytes(), 8 * MIB);
}

/// One burst kept the block cache small until the database was opened again.
#[test]
fn what_memtables_once_took_is_forgotten_slowly() {
    let blocks = Arc::new(BlockCache::new(64 << 20, 4096));
    let budget = MemoryBudget::new(100 * MIB, 0, blocks, BlockPool::new(0));
    let cache_after = |minutes: u64| {
        budget.forget_burst(minutes * MINUTE_NANOS);
        budget.review();
        budget.blocks.capacity_bytes()
    };
    let before = cache_after(1000);
    budget.most_memtables.fetch_max(60 * MIB, Ordering::Relaxed);
    let during = cache_after(1000);
    assert!(during < before / 2, "{during} of {before}");
    let after = [1000, 1001, 1008, 1030, 1060].map(cache_after);
    assert_eq!(after[0], during);
    assert!(after.is_sorted() && after[1] < during + 5 * MIB, "{after:?}");
    // Small changes of the plan are not followed.
    assert!(before - after[4] <= before / 32, "{after:?}, {before} before");
    // What memtables take now is no memory of a burst.
    assert_eq!(after_minutes(60, 50, u64::MAX), 50);
    assert_eq!(after_minutes(50, 60, 1), 60);
}
