//! Figures of a whole database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidesdb_base::event::{MemoryLevel, StallReason};
use tidesdb_lockfree::sync::lock;

use super::{CacheStats, FamilyStats, LevelStats, ReadStats, ratio};
use crate::core::Core;
use crate::counters::{Counted, Hot, Work};
use crate::family::FamilyState;

/// Figures of a whole database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DbStats {
    /// Sequence number up to which everything is visible.
    pub sequence: u64,
    /// Sequence number up to which everything survives a power cut.
    pub synced_sequence: u64,
    /// Number of column families.
    pub families: u64,
    /// Bytes of memory held by memtables.
    pub memtable_bytes: u64,
    /// Bytes used in the block cache.
    pub block_cache_bytes: u64,
    /// Size of the block cache in bytes.
    pub block_cache_capacity: u64,
    /// Blocks found in the cache.
    pub block_cache_hits: u64,
    /// Blocks that had to be read.
    pub block_cache_misses: u64,
    /// Blocks that left the cache to make room for others.
    pub block_cache_evictions: u64,
    /// Blocks in the cache.
    pub block_cache_entries: u64,
    /// Parts of the cache that have a budget and an order of eviction of their own.
    pub block_cache_shards: u64,
    /// Tables and value logs open.
    pub open_tables: u64,
    /// Bytes of the log records of all commits since the open, with their headers and padding.
    pub log_bytes_written: u64,
    /// Syncs of the log since the open.
    pub log_syncs: u64,
    /// Commits that waited for a sync since the open.
    pub synced_commits: u64,
    /// Bytes of log that a recovery would read.
    pub log_retained_bytes: u64,
    /// Bytes of keys and values committed since the open.
    pub user_bytes_written: u64,
    /// Operations committed since the open.
    pub operations_written: u64,
    /// Memtables waiting to be written out.
    pub immutable_memtables: u64,
    /// Tables of all families.
    pub tables: u64,
    /// Their bytes.
    pub table_bytes: u64,
    /// Value-log files of all families.
    pub value_log_files: u64,
    /// Their bytes.
    pub value_log_bytes: u64,
    /// Bytes of tables and value logs written by flushes since the open.
    pub flush_bytes_written: u64,
    /// Tables written by flushes since the open.
    pub flush_count: u64,
    /// Memtables written out since the open.
    pub flushes: u64,
    /// Flushes that failed since the open; they are tried again.
    pub flush_failures: u64,
    /// Nanoseconds that flushes took since the open.
    pub flush_nanos: u64,
    /// Bytes of tables and value logs written by merges since the open.
    pub compaction_bytes_written: u64,
    /// Bytes of tables read by merges since the open.
    pub compaction_bytes_read: u64,
    /// Tables written by merges since the open.
    pub compaction_tables_written: u64,
    /// Merges since the open.
    pub compaction_count: u64,
    /// Those of them that were of a part of the key space alone, for the garbage in it.
    pub compaction_slices: u64,
    /// Those of them that failed or were given up.
    pub compaction_failures: u64,
    /// Nanoseconds that merges took since the open.
    pub compaction_nanos: u64,
    /// What reads have met since the open.
    pub reads: ReadStats,
    /// Nanoseconds that writers were held up since the open, for all reasons.
    pub stall_nanos: u64,
    /// The same by reason, all reasons in the order of [`StallReason::ALL`].
    pub stalls: Vec<StallStats>,
    /// Gets, commits, seeks and steps that took `DbOptions::slow_operation_us` and more.
    pub slow_operations: u64,
    /// Memory in use.
    pub memory: MemoryStats,
}

/// How often and how long writers were held up for one reason since the open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallStats {
    /// Why.
    pub reason: StallReason,
    /// Waits and delays.
    pub count: u64,
    /// Nanoseconds of all of them.
    pub nanos: u64,
    /// Nanoseconds of the longest.
    pub longest_nanos: u64,
}

/// Memory in use, in bytes, as the database accounts for it. See `DbOptions::max_memory_usage`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// The budget; `u64::MAX` when the machine does not tell how much memory it has.
    pub budget_bytes: u64,
    /// All that is listed below.
    pub used_bytes: u64,
    /// How much of the budget is in use.
    pub level: MemoryLevel,
    /// Memtables.
    pub memtable_bytes: u64,
    /// Memory of former memtables, kept for the next.
    pub recycled_bytes: u64,
    /// The block cache.
    pub block_cache_bytes: u64,
    /// Indexes and filters of open tables.
    pub table_bytes: u64,
    /// Buffers of scans.
    pub scan_bytes: u64,
    /// Open transactions.
    pub transaction_bytes: u64,
    /// Buffers of flushes and merges.
    pub background_bytes: u64,
    /// Mapped log segments.
    pub log_bytes: u64,
}

impl MemoryStats {
    fn of(core: &Core) -> Self {
        let held = core.budget.held();
        Self {
            budget_bytes: core.budget.bytes(),
            used_bytes: held.total(),
            level: core.budget.level(),
            memtable_bytes: held.memtables,
            recycled_bytes: held.recycled,
            block_cache_bytes: held.block_cache,
            table_bytes: held.tables,
            scan_bytes: held.scans,
            transaction_bytes: held.transactions,
            background_bytes: held.background,
            log_bytes: held.log,
        }
    }
}

impl StallStats {
    fn of(core: &Core, reason: StallReason) -> Self {
        let [count, nanos, longest_nanos] = core.flow.stalls.figures(reason);
        Self { reason, count, nanos, longest_nanos }
    }
}

fn get(counter: &AtomicU64) -> u64 {
    // ORDERING: a statistic.
    counter.load(Ordering::Relaxed)
}

impl DbStats {
    pub(crate) fn of(core: &Core) -> Self {
        let cache = CacheStats::of(core);
        let (families, counted) = all_that_was_done(core);
        let families: Vec<FamilyStats> = families.iter().map(|f| FamilyStats::of(f)).collect();
        let sum = |figure: fn(&FamilyStats) -> u64| families.iter().map(figure).sum::<u64>();
        let levels = |figure: fn(&LevelStats) -> u64| -> u64 {
            families.iter().flat_map(|family| &family.levels).map(figure).sum()
        };
        Self {
            sequence: core.log.published(),
            synced_sequence: core.log.synced(),
            families: families.len() as u64,
            memtable_bytes: sum(|family| family.memtable_bytes),
            block_cache_bytes: cache.used_bytes,
            block_cache_capacity: cache.capacity_bytes,
            block_cache_hits: cache.hits,
            block_cache_misses: cache.misses,
            block_cache_evictions: cache.evictions,
            block_cache_entries: cache.entries,
            block_cache_shards: cache.shards,
            open_tables: core.files.open_files.count() as u64,
            log_bytes_written: counted.hot(Hot::LogBytes),
            log_syncs: get(&core.log.counters.syncs),
            synced_commits: get(&core.log.counters.synced_commits),
            log_retained_bytes: core.log.retained_bytes(),
            user_bytes_written: counted.hot(Hot::UserBytes),
            operations_written: counted.hot(Hot::Operations),
            immutable_memtables: sum(|family| family.immutable_memtables),
            tables: levels(|level| level.tables),
            table_bytes: levels(|level| level.bytes),
            value_log_files: sum(|family| family.value_log_files),
            value_log_bytes: sum(|family| family.value_log_bytes),
            flush_bytes_written: counted.work(Work::FlushBytes),
            flush_count: counted.work(Work::FlushTables),
            flushes: counted.work(Work::Flushes),
            flush_failures: counted.work(Work::FlushFailures),
            flush_nanos: counted.work(Work::FlushNanos),
            compaction_bytes_written: counted.work(Work::MergeBytesWritten),
            compaction_bytes_read: counted.work(Work::MergeBytesRead),
            compaction_tables_written: counted.work(Work::MergedTables),
            compaction_count: counted.work(Work::Merges),
            compaction_slices: counted.work(Work::MergedSlices),
            compaction_failures: counted.work(Work::MergeFailures),
            compaction_nanos: counted.work(Work::MergeNanos),
            reads: ReadStats::of(&counted),
            stall_nanos: core.flow.stalls.nanos(),
            stalls: StallReason::ALL.map(|reason| StallStats::of(core, reason)).to_vec(),
            slow_operations: core.watch.slow_operations(),
            memory: MemoryStats::of(core),
        }
    }

    /// Bytes written to log, tables and value logs for each byte that users wrote, since the
    /// open; 0 when they wrote none.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        let written =
            self.log_bytes_written + self.flush_bytes_written + self.compaction_bytes_written;
        ratio(written, self.user_bytes_written)
    }

    /// Share of lookups in the block cache that found their block, 0 when there were none.
    #[must_use]
    pub fn cache_hit_rate(&self) -> f64 {
        ratio(self.block_cache_hits, self.block_cache_hits + self.block_cache_misses)
    }
}

/// The families, and what they and those that are dropped have done.
fn all_that_was_done(core: &Core) -> (Vec<Arc<FamilyState>>, Counted) {
    let dropped = lock(&core.counters.dropped);
    let families = core.families.all();
    let mut counted = *dropped;
    families.iter().for_each(|family| counted.add(&family.counters.counted()));
    (families, counted)
}
