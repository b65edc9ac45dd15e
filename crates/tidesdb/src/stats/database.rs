//! Statistics of a whole database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidesdb_base::event::{MemoryLevel, StallReason};
use tidesdb_lockfree::sync::lock;

use super::{CacheStats, FamilyStats, LevelStats, ReadStats, WorkStats};
use crate::core::Core;
use crate::family::FamilyState;
use crate::flow::Stalls;
use crate::memory::MemoryBudget;
use crate::telemetry::counters::Counted;

/// Statistics of a whole database.
// More than a dozen fields: one for each statistic that users read.
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
    /// The block cache.
    pub cache: CacheStats,
    /// Tables and value logs open.
    pub open_files: u64,
    /// How many of these are tables.
    pub open_tables: u64,
    /// Syncs of the log since the open.
    pub log_syncs: u64,
    /// Commits that waited for a sync since the open.
    pub synced_commits: u64,
    /// Bytes of log that a recovery would read.
    pub log_retained_bytes: u64,
    /// Commits of the log that the opening left out, since a record in front of them was not
    /// whole: after a crash they were never acknowledged, after damage to the log they are lost.
    pub left_out_commits: u64,
    /// Bytes of their records.
    pub left_out_bytes: u64,
    /// Frozen memtables of all families: they wait for their flush, or are being flushed.
    pub frozen_memtables: u64,
    /// Families with a memtable that waits to be written to tables, or is being written, now.
    pub families_flushing: u64,
    /// Families with a compaction that is queued or running, now.
    pub families_compacting: u64,
    /// Tables of all families.
    pub tables: u64,
    /// Their bytes.
    pub table_bytes: u64,
    /// Value-log files of all families.
    pub value_log_files: u64,
    /// Their bytes.
    pub value_log_bytes: u64,
    /// What was done since the open: commits, flushes and compactions.
    pub work: WorkStats,
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
    /// The budget; `u64::MAX` when the machine does not report how much memory it has.
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
    /// Indexes and filters of open tables, the records of all tables, and range tombstones.
    pub table_bytes: u64,
    /// Buffers of scans.
    pub scan_bytes: u64,
    /// Open transactions.
    pub transaction_bytes: u64,
    /// Buffers of flushes and compactions.
    pub background_bytes: u64,
    /// Column families themselves, whatever they hold: 4 KiB each.
    pub family_bytes: u64,
    /// Mapped log segments.
    pub log_bytes: u64,
}

impl MemoryStats {
    fn of(budget: &MemoryBudget) -> Self {
        let held = budget.held();
        Self {
            budget_bytes: budget.bytes(),
            used_bytes: held.total(),
            level: budget.level(),
            memtable_bytes: held.memtables,
            recycled_bytes: held.recycled,
            block_cache_bytes: held.block_cache,
            table_bytes: held.tables,
            scan_bytes: held.scans,
            transaction_bytes: held.transactions,
            background_bytes: held.background,
            family_bytes: held.families,
            log_bytes: held.log,
        }
    }
}

impl StallStats {
    fn of(stalls: &Stalls, reason: StallReason) -> Self {
        let [count, nanos, longest_nanos] = stalls.counters(reason);
        Self { reason, count, nanos, longest_nanos }
    }
}

fn get(counter: &AtomicU64) -> u64 {
    // ORDERING: a statistic.
    counter.load(Ordering::Relaxed)
}

impl DbStats {
    pub(crate) fn of(core: &Core) -> Self {
        let (states, counted) = all_that_was_done(core);
        let at_work = |is_at_work: fn(&FamilyState) -> bool| -> u64 {
            states.iter().filter(|family| is_at_work(family)).count() as u64
        };
        let families: Vec<FamilyStats> = states.iter().map(|f| FamilyStats::of(f)).collect();
        let sum = |field: fn(&FamilyStats) -> u64| families.iter().map(field).sum::<u64>();
        let levels = |field: fn(&LevelStats) -> u64| -> u64 {
            families.iter().flat_map(|family| &family.levels).map(field).sum()
        };
        let left_out = core.storage.left_out.as_ref();
        Self {
            sequence: core.storage.log.published(),
            synced_sequence: core.storage.log.synced(),
            families: families.len() as u64,
            memtable_bytes: sum(|family| family.memtable_bytes),
            cache: CacheStats::of(&core.storage.files.blocks),
            open_files: core.storage.files.open_files.count() as u64,
            open_tables: core.storage.files.open_files.tables() as u64,
            log_syncs: get(&core.storage.log.counters.syncs),
            synced_commits: get(&core.storage.log.counters.synced_commits),
            log_retained_bytes: core.storage.log.retained_bytes(),
            left_out_commits: left_out.map_or(0, |left_out| left_out.commits),
            left_out_bytes: left_out.map_or(0, |left_out| left_out.bytes),
            frozen_memtables: sum(|family| family.frozen_memtables),
            families_flushing: at_work(FamilyState::is_flushing),
            families_compacting: at_work(FamilyState::is_compacting),
            tables: levels(|level| level.tables),
            table_bytes: levels(|level| level.bytes),
            value_log_files: sum(|family| family.value_log_files),
            value_log_bytes: sum(|family| family.value_log_bytes),
            work: WorkStats::of(&counted),
            reads: ReadStats::of(&counted),
            stall_nanos: core.flow.stalls.nanos(),
            stalls: StallReason::ALL
                .map(|reason| StallStats::of(&core.flow.stalls, reason))
                .to_vec(),
            slow_operations: core.telemetry.latencies.slow_operations(),
            memory: MemoryStats::of(&core.memory.budget),
        }
    }
}

/// The families, and what they and those that are dropped have done.
fn all_that_was_done(core: &Core) -> (Vec<Arc<FamilyState>>, Counted) {
    let dropped = lock(&core.telemetry.counters.dropped);
    let families = core.families.all();
    let mut counted = *dropped;
    families.iter().for_each(|family| counted.add(&family.counters.counted()));
    (families, counted)
}
