//! Figures about a database and its families. All are snapshots of counters that move on; sums
//! may be off by what happens while they are read.

mod estimates;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use tidesdb_base::event::{MemoryLevel, StallReason};

use crate::core::Core;
use crate::family::{FamilyState, View};

/// Figures of a whole database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Blocks in the cache.
    pub block_cache_entries: u64,
    /// Parts of the cache that have a budget and an order of eviction of their own.
    pub block_cache_shards: u64,
    /// Tables and value logs open.
    pub open_tables: u64,
    /// Bytes of log records written since the open.
    pub log_bytes_written: u64,
    /// Syncs of the log since the open.
    pub log_syncs: u64,
    /// Commits that waited for a sync since the open.
    pub synced_commits: u64,
    /// Bytes of log that a recovery would read.
    pub log_retained_bytes: u64,
    /// Bytes of keys and values committed since the open.
    pub user_bytes_written: u64,
    /// Bytes of tables and value logs written by flushes since the open.
    pub flush_bytes_written: u64,
    /// Tables written by flushes since the open.
    pub flush_count: u64,
    /// Bytes of tables written by merges since the open.
    pub compaction_bytes_written: u64,
    /// Bytes of tables read by merges since the open.
    pub compaction_bytes_read: u64,
    /// Merges since the open.
    pub compaction_count: u64,
    /// Nanoseconds that writers were held up since the open, for all reasons.
    pub stall_nanos: u64,
    /// The same by reason, all reasons in the order of [`StallReason::ALL`].
    pub stalls: Vec<StallStats>,
    /// Memory in use.
    pub memory: MemoryStats,
}

/// How often and how long writers were held up for one reason since the open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        let [bytes, capacity, hits, misses] = core.files.blocks.figures();
        let families = core.families.all();
        let sum = |count: fn(&FamilyState) -> u64| families.iter().map(|f| count(f)).sum();
        Self {
            sequence: core.log.published(),
            synced_sequence: core.log.synced(),
            families: families.len() as u64,
            memtable_bytes: sum(memtable_bytes),
            block_cache_bytes: bytes,
            block_cache_capacity: capacity,
            block_cache_hits: hits,
            block_cache_misses: misses,
            block_cache_entries: core.files.blocks.entries(),
            block_cache_shards: core.files.blocks.shards(),
            open_tables: core.files.open_files.count() as u64,
            log_bytes_written: core.log.bytes_written(),
            log_syncs: get(&core.log.counters.syncs),
            synced_commits: get(&core.log.counters.synced_commits),
            log_retained_bytes: core.log.retained_bytes(),
            user_bytes_written: sum(|f| f.counters.user.totals().0),
            flush_bytes_written: sum(|f| get(&f.counters.flush_bytes)),
            flush_count: sum(|f| get(&f.counters.flush_count)),
            compaction_bytes_written: sum(|f| get(&f.counters.compaction_bytes_written)),
            compaction_bytes_read: sum(|f| get(&f.counters.compaction_bytes_read)),
            compaction_count: sum(|f| get(&f.counters.compaction_count)),
            stall_nanos: core.flow.stalls.nanos(),
            stalls: StallReason::ALL.map(|reason| StallStats::of(core, reason)).to_vec(),
            memory: MemoryStats::of(core),
        }
    }

    /// Bytes written to log, tables and value logs for each byte that users wrote, since the
    /// open; 0 when they wrote none.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        if self.user_bytes_written == 0 {
            return 0.0;
        }
        let written =
            self.log_bytes_written + self.flush_bytes_written + self.compaction_bytes_written;
        written as f64 / self.user_bytes_written as f64
    }
}

fn memtable_bytes(family: &FamilyState) -> u64 {
    let view = family.view.load();
    let frozen: u64 = view.frozen.iter().map(|memtable| memtable.allocated_bytes()).sum();
    view.active.allocated_bytes() + frozen
}

fn range_tombstones(view: &View) -> u64 {
    let memtables = std::iter::once(&view.active).chain(&view.frozen);
    let in_memory: usize = memtables.map(|m| m.range_tombstones().iter().count()).sum();
    (in_memory + view.version.range_tombstones.len()) as u64
}

/// Figures of one level of a family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelStats {
    /// The level; 1 is the newest on disk.
    pub level: u32,
    /// Sorted runs.
    pub runs: u64,
    /// Tables.
    pub tables: u64,
    /// Bytes of the tables.
    pub bytes: u64,
    /// Entries, tombstones included.
    pub entries: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Tombstones and entries of the table with the largest share of tombstones.
    pub densest_table: (u64, u64),
}

/// Figures of one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FamilyStats {
    /// Bytes of memory held by memtables.
    pub memtable_bytes: u64,
    /// Memtables waiting to be written out.
    pub immutable_memtables: u64,
    /// The levels that hold anything.
    pub levels: Vec<LevelStats>,
    /// Range deletions that hide something, or may: those in memory, and those on disk that some
    /// table still needs.
    pub range_tombstones: u64,
    /// Value-log files.
    pub value_log_files: u64,
    /// Bytes of value-log files.
    pub value_log_bytes: u64,
    /// Bytes of keys and values committed since the open.
    pub user_bytes_written: u64,
    /// Operations committed since the open.
    pub operations_written: u64,
    /// Bytes of tables and value logs written by flushes since the open.
    pub flush_bytes_written: u64,
    /// Tables written by flushes since the open.
    pub flush_count: u64,
    /// Bytes of tables written by merges since the open.
    pub compaction_bytes_written: u64,
    /// Bytes of tables read by merges since the open.
    pub compaction_bytes_read: u64,
    /// Merges since the open.
    pub compaction_count: u64,
    /// Those of them that were of a part of the key space alone, for the garbage in it.
    pub compaction_slices: u64,
    /// Places where a lookup without filters searches: memtables that hold anything, and sorted
    /// runs. A seek searches all of them.
    pub read_amplification: u64,
}

impl FamilyStats {
    pub(crate) fn of(family: &FamilyState) -> Self {
        let view = family.view.load();
        let mut levels: BTreeMap<u32, LevelStats> = BTreeMap::new();
        for run in &view.version.runs {
            let level = levels.entry(run.level).or_default();
            level.level = run.level;
            level.runs += 1;
            for table in &run.tables {
                level.tables += 1;
                level.bytes += table.record.bytes;
                level.entries += table.record.entries;
                level.tombstones += table.record.tombstones;
                let (tombstones, entries) = (table.record.tombstones, table.record.entries);
                let (most, of) = level.densest_table;
                if u128::from(tombstones) * u128::from(of.max(1))
                    > u128::from(most) * u128::from(entries.max(1))
                {
                    level.densest_table = (tombstones, entries);
                }
            }
        }
        let (user_bytes_written, operations_written) = family.counters.user.totals();
        Self {
            memtable_bytes: memtable_bytes(family),
            immutable_memtables: view.frozen.len() as u64,
            levels: levels.into_values().collect(),
            range_tombstones: range_tombstones(&view),
            value_log_files: view.version.value_logs.len() as u64,
            value_log_bytes: view.version.value_logs.values().map(|f| f.life().bytes()).sum(),
            user_bytes_written,
            operations_written,
            flush_bytes_written: get(&family.counters.flush_bytes),
            flush_count: get(&family.counters.flush_count),
            compaction_bytes_written: get(&family.counters.compaction_bytes_written),
            compaction_bytes_read: get(&family.counters.compaction_bytes_read),
            compaction_count: get(&family.counters.compaction_count),
            compaction_slices: get(&family.counters.compaction_slices),
            read_amplification: (view.version.runs.len()
                + view.frozen.len()
                + usize::from(!view.active.is_empty())) as u64,
        }
    }
}
