//! Statistics of families, databases and the block cache.

use std::ffi::c_int;
use std::ptr;

use tidesdb::{FamilyStats, LevelStats, MemoryLevel, WorkStats};

use crate::allocator;
use crate::boundary::{Outcome, answer, call_for, call_of, log_of, refuse};
use crate::codes;
use crate::config::MOST_LEVELS;
use crate::database::{Database, database};
use crate::families::{FamilyHandle, present_family};
use crate::types::{CacheStats, DbStats, Stats, Written};

fn as_int(number: u64) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

fn as_size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn table_bytes(stats: &FamilyStats) -> u64 {
    stats.levels.iter().map(|level| level.bytes).sum()
}

/// The largest values are in value logs before there is a table; the interface counts what tables
/// have.
fn data_bytes(stats: &FamilyStats) -> u64 {
    match table_bytes(stats) {
        0 => 0,
        tables => tables + stats.value_log_bytes,
    }
}

/// What was written, as both structures end.
const fn written(work: &WorkStats, is_log_shared: bool) -> Written {
    Written {
        wal_bytes_written: if is_log_shared { 0 } else { work.log_bytes_written },
        flush_bytes_written: work.flush_bytes_written,
        compaction_bytes_written: work.compaction_bytes_written,
        compaction_bytes_read: work.compaction_bytes_read,
        user_bytes_written: work.user_bytes_written,
        flush_count: work.flush_tables_written,
        compaction_count: work.compaction_tables_written,
    }
}

/// See `tidesdb_get_stats` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_get_stats(cf: *mut FamilyHandle, stats: *mut *mut Stats) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(cf) };
    call_of("tidesdb_get_stats", log, || {
        // SAFETY: the caller's handle, by the interface.
        let handle = unsafe { present_family(cf) }?;
        if stats.is_null() {
            return refuse(codes::INVALID);
        }
        let made = make(&handle)?;
        // SAFETY: the caller's place, checked above.
        unsafe { answer(stats, made) }
    })
}

fn make(handle: &FamilyHandle) -> Outcome<*mut Stats> {
    // Before the tables: what is flushed in between counts twice rather than not at all.
    let memtable_keys = handle.family.memtable_keys();
    let stats = handle.family.stats();
    let config = *handle.config();
    let deepest = stats.levels.iter().map(|level| level.level as usize).max().unwrap_or(0);
    // Whatever another program has stored.
    let least = usize::try_from(config.min_levels).unwrap_or(1).clamp(1, MOST_LEVELS as usize);
    let levels = deepest.max(least);
    let made: *mut Stats = allocator::zeroed(1);
    if made.is_null() {
        return refuse(codes::MEMORY);
    }
    // SAFETY: new memory, all zero, which is a valid value of every field.
    let out = unsafe { &mut *made };
    out.num_levels = as_int(levels as u64);
    out.level_sizes = allocator::zeroed(levels);
    out.level_num_sstables = allocator::zeroed(levels);
    out.level_key_counts = allocator::zeroed(levels);
    out.level_tombstone_counts = allocator::zeroed(levels);
    out.config = allocator::boxed(config);
    let parts = [
        out.level_sizes.cast::<u8>(),
        out.level_num_sstables.cast(),
        out.level_key_counts.cast(),
        out.level_tombstone_counts.cast(),
        out.config.cast(),
    ];
    if parts.iter().any(|part| part.is_null()) {
        // SAFETY: made above, and not given out.
        unsafe { tidesdb_free_stats(made) };
        return refuse(codes::MEMORY);
    }
    for level in &stats.levels {
        // SAFETY: the arrays have `levels` places, and levels count from 1.
        unsafe { fill_level(out, level) };
    }
    fill(out, handle, &stats, memtable_keys);
    Ok(made)
}

/// Puts the statistics of a level into the arrays.
///
/// # Safety
/// The arrays have a place for the level.
unsafe fn fill_level(out: &mut Stats, level: &LevelStats) {
    let at = (level.level as usize).saturating_sub(1);
    // SAFETY: by contract.
    unsafe { out.level_sizes.add(at).write(as_size(level.bytes)) };
    // SAFETY: by contract.
    unsafe { out.level_num_sstables.add(at).write(as_int(level.tables)) };
    // SAFETY: by contract.
    unsafe { out.level_key_counts.add(at).write(level.entries) };
    // SAFETY: by contract.
    unsafe { out.level_tombstone_counts.add(at).write(level.tombstones) };
    let density = level.densest_table.ratio();
    if density > out.max_sst_density {
        out.max_sst_density = density;
        out.max_sst_density_level = as_int(u64::from(level.level));
    }
}

fn fill(out: &mut Stats, handle: &FamilyHandle, stats: &FamilyStats, memtable_keys: u64) {
    let database = handle.database();
    let sum = |of: fn(&LevelStats) -> u64| stats.levels.iter().map(of).sum::<u64>();
    let (entries, tombstones) = (sum(|level| level.entries), sum(|level| level.tombstones));
    let cache = database.db.cache_stats();
    out.memtable_size = as_size(stats.memtable_bytes);
    out.total_keys = memtable_keys + entries;
    out.total_data_size = data_bytes(stats);
    if out.total_keys > 0 {
        // The engine does not count the bytes of keys: an estimate, as the interface says. In value
        // logs there is nothing else but values.
        let mixed = (stats.memtable_bytes + table_bytes(stats)).max(1) as f64;
        let keys = out.total_keys as f64;
        out.avg_key_size = mixed * 0.3 / keys;
        out.avg_value_size = (mixed * 0.7 + stats.value_log_bytes as f64) / keys;
    }
    out.read_amp = 1.0 + stats.frozen_memtables as f64 + sum(|level| level.runs) as f64;
    out.hit_rate = cache.hit_rate();
    out.use_btree = handle.config().use_btree;
    if out.use_btree != 0 {
        // What can't be opened is an error of the reads that need it.
        let trees = handle.family.tree_stats().unwrap_or_default();
        out.btree_total_nodes = trees.nodes();
        out.btree_max_height = u32::try_from(trees.height()).unwrap_or(u32::MAX);
        out.btree_avg_height = trees.average_height();
    }
    out.total_tombstones = tombstones;
    out.tombstone_ratio = ratio(tombstones, out.total_keys);
    out.written = written(&stats.work, database.shared_memtable);
}

/// See `tidesdb_free_stats` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_free_stats(stats: *mut Stats) {
    if stats.is_null() {
        return;
    }
    call_for("tidesdb_free_stats", (), || {
        // SAFETY: by the interface it came from `tidesdb_get_stats`.
        let parts = unsafe { &*stats };
        let arrays = [
            parts.level_sizes.cast(),
            parts.level_num_sstables.cast(),
            parts.level_key_counts.cast(),
            parts.level_tombstone_counts.cast(),
            parts.config.cast(),
            stats.cast(),
        ];
        for part in arrays {
            // SAFETY: from the allocator, or null; released once.
            unsafe { allocator::tidesdb_free(part) };
        }
    });
}

/// See `tidesdb_get_cache_stats` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_get_cache_stats(
    db: *mut Database,
    stats: *mut CacheStats,
) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(db) };
    call_of("tidesdb_get_cache_stats", log, || {
        // SAFETY: the caller's handle, by the interface.
        let cache = unsafe { database(db) }?.db.cache_stats();
        let enabled = cache.capacity_bytes > 0;
        let found = CacheStats {
            enabled: c_int::from(enabled),
            total_entries: as_size(cache.entries),
            total_bytes: as_size(cache.used_bytes),
            hits: cache.hits,
            misses: cache.misses,
            hit_rate: cache.hit_rate(),
            num_partitions: as_size(cache.shards),
        };
        let none = CacheStats {
            enabled: 0,
            total_entries: 0,
            total_bytes: 0,
            hits: 0,
            misses: 0,
            hit_rate: 0.0,
            num_partitions: 0,
        };
        // SAFETY: the caller's structure, by the interface.
        unsafe { answer(stats, if enabled { found } else { none }) }
    })
}

/// See `tidesdb_get_db_stats` in `db.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidesdb_get_db_stats(db: *mut Database, stats: *mut DbStats) -> c_int {
    // SAFETY: the caller's handle, by the interface.
    let log = unsafe { log_of(db) };
    call_of("tidesdb_get_db_stats", log, || {
        // SAFETY: the caller's handle, by the interface.
        let found = of_database(unsafe { database(db) }?);
        // SAFETY: the caller's structure, by the interface.
        unsafe { answer(stats, found) }
    })
}

/// What the memtable that takes commits holds.
fn active_bytes(family: &FamilyStats) -> u64 {
    family.memtable_bytes - family.frozen_memtable_bytes
}

fn of_database(database: &Database) -> DbStats {
    let stats = database.db.stats();
    let names = database.db.family_names();
    let handles: Vec<_> = names.iter().filter_map(|name| database.db.family(name).ok()).collect();
    let families: Vec<FamilyStats> = handles.iter().map(|family| family.stats()).collect();
    let sum = |of: fn(&FamilyStats) -> u64| families.iter().map(of).sum::<u64>();
    let frozen = sum(|family| family.frozen_memtables);
    let flushing = stats.families_flushing;
    let shared = database.shared_memtable;
    let only_shared = |number: u64| if shared { number } else { 0 };
    DbStats {
        num_column_families: as_int(names.len() as u64),
        total_memory: database.machine_memory.total,
        available_memory: database.machine_memory.available,
        resolved_memory_limit: as_size(stats.memory.budget_bytes),
        memory_pressure_level: match stats.memory.level {
            MemoryLevel::Normal => 0,
            MemoryLevel::Elevated => 1,
            MemoryLevel::High => 2,
            MemoryLevel::Critical => 3,
        },
        flush_pending_count: as_int(frozen.max(flushing)),
        total_memtable_bytes: stats.memtable_bytes.cast_signed(),
        total_immutable_count: as_int(frozen),
        total_sstable_count: as_int(sum(|family| {
            family.levels.iter().map(|level| level.tables).sum()
        })),
        total_data_size_bytes: sum(data_bytes),
        num_open_sstables: as_int(stats.open_tables),
        global_seq: stats.sequence.max(1),
        txn_memory_bytes: stats.memory.transaction_bytes.cast_signed(),
        compaction_queue_size: as_size(stats.families_compacting),
        flush_queue_size: as_size(frozen),
        unified_memtable_enabled: c_int::from(shared),
        unified_memtable_bytes: only_shared(sum(active_bytes)).cast_signed(),
        unified_immutable_count: as_int(only_shared(frozen)),
        unified_is_flushing: c_int::from(shared && flushing > 0),
        unified_next_cf_index: u32::try_from(names.len()).unwrap_or(u32::MAX),
        unified_wal_generation: only_shared(1 + stats.work.memtables_frozen),
        object_store_enabled: 0,
        object_store_connector: ptr::null(),
        local_cache_bytes_used: 0,
        local_cache_bytes_max: 0,
        local_cache_num_files: 0,
        last_uploaded_generation: 0,
        upload_queue_depth: 0,
        total_uploads: 0,
        total_upload_failures: 0,
        replica_mode: 0,
        primary_epoch: 0,
        seen_epoch: 0,
        uwal_bytes_written: only_shared(stats.work.log_bytes_written),
        written: written(&stats.work, shared),
    }
}
