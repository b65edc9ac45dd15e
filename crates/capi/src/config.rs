//! Options: the defaults of the interface, and what they become in the engine.

use std::ffi::c_int;
use std::ptr;

use tidesdb::{Compression, DbOptions, FamilyOptions, SyncMode, WriteOptions};

use crate::boundary::{Outcome, refuse, set_text};
use crate::codes;
use crate::types::{Config, FamilyConfig, ObjectStoreConfig};

/// `TDB_LOG_INFO`.
const LOG_INFO: c_int = 1;
/// `TDB_DEFAULT_SYNC_INTERVAL_US`.
const SYNC_INTERVAL_US: u64 = 128_000;
/// Interval of the shared log when none is given, in microseconds.
const SHARED_SYNC_INTERVAL_US: u64 = 1_000_000;
/// `TDB_MAX_LEVELS`.
pub const MOST_LEVELS: c_int = 32;
/// Share of the machine's memory below which an explicit limit is raised: one in twenty.
const LEAST_SHARE_OF_MEMORY: u64 = 20;
/// Default of [`FamilyConfig::min_disk_space`], in bytes.
pub const USUAL_MIN_DISK_SPACE: u64 = 100 << 20;

/// `tidesdb_sync_mode_t`.
pub const SYNC_NONE: c_int = 0;
pub const SYNC_FULL: c_int = 1;
pub const SYNC_INTERVAL: c_int = 2;

/// See `tidesdb_default_config` in `db.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_default_config() -> Config {
    Config {
        db_path: c"./tidesdb".as_ptr().cast_mut(),
        num_flush_threads: 0,
        num_compaction_threads: 2,
        log_level: LOG_INFO,
        block_cache_size: 64 << 20,
        max_open_sstables: 256,
        log_to_file: 0,
        log_truncation_at: 24 << 20,
        max_memory_usage: 0,
        unified_memtable: 0,
        unified_memtable_write_buffer_size: 0,
        unified_memtable_skip_list_max_level: 0,
        unified_memtable_skip_list_probability: 0.0,
        unified_memtable_sync_mode: SYNC_NONE,
        unified_memtable_sync_interval_us: 0,
        object_store: ptr::null_mut(),
        object_store_config: ptr::null_mut(),
        max_concurrent_flushes: 0,
        finish_compactions_on_close: 0,
    }
}

/// The defaults of a family.
pub const fn family_defaults() -> FamilyConfig {
    FamilyConfig {
        name: [0; 128],
        write_buffer_size: 64 << 20,
        level_size_ratio: 10,
        min_levels: 1,
        dividing_level_offset: 1,
        klog_value_threshold: 512,
        compression_algorithm: 2,
        enable_bloom_filter: 1,
        bloom_fpr: 0.01,
        enable_block_indexes: 1,
        index_sample_ratio: 1,
        block_index_prefix_len: 16,
        sync_mode: SYNC_NONE,
        sync_interval_us: SYNC_INTERVAL_US,
        comparator_name: [0; 64],
        comparator_ctx_str: [0; 256],
        comparator_fn_cached: None,
        comparator_ctx_cached: ptr::null_mut(),
        skip_list_max_level: 12,
        skip_list_probability: 0.25,
        default_isolation_level: 1,
        min_disk_space: USUAL_MIN_DISK_SPACE,
        l1_file_count_trigger: 4,
        l0_queue_stall_threshold: 10,
        tombstone_density_trigger: 0.0,
        tombstone_density_min_entries: 1024,
        use_btree: 0,
        commit_hook_fn: None,
        commit_hook_ctx: ptr::null_mut(),
        object_target_file_size: 0,
        object_lazy_compaction: 0,
        object_prefetch_compaction: 1,
    }
}

/// See `tidesdb_default_column_family_config` in `db.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_default_column_family_config() -> FamilyConfig {
    family_defaults()
}

/// See `tidesdb_objstore_default_config` in `db.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_objstore_default_config() -> ObjectStoreConfig {
    ObjectStoreConfig {
        local_cache_path: ptr::null(),
        local_cache_max_bytes: 0,
        cache_on_read: 1,
        cache_on_write: 1,
        max_concurrent_uploads: 4,
        max_concurrent_downloads: 8,
        multipart_threshold: 64 << 20,
        multipart_part_size: 8 << 20,
        sync_manifest_to_object: 1,
        replicate_wal: 1,
        wal_upload_sync: 0,
        wal_sync_threshold_bytes: 1 << 20,
        wal_sync_on_commit: 0,
        replica_mode: 0,
        replica_sync_interval_us: 5_000_000,
        replica_replay_wal: 1,
    }
}

/// See `tidesdb_compression_available` in `tidesdb.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tidesdb_compression_available(algorithm: c_int) -> c_int {
    c_int::from(compression(algorithm).is_ok())
}

/// The codec of a number of `compression_algorithm`.
pub fn compression(number: c_int) -> Outcome<Compression> {
    match number {
        0 => Ok(Compression::None),
        1 => Ok(Compression::Snappy),
        2 => Ok(Compression::Lz4),
        3 => Ok(Compression::Zstd),
        4 => Ok(Compression::Lz4Fast),
        _ => refuse(codes::INVALID),
    }
}

fn sync_mode(mode: c_int, interval_us: u64) -> Outcome<SyncMode> {
    match mode {
        SYNC_NONE => Ok(SyncMode::None),
        SYNC_FULL => Ok(SyncMode::Full),
        SYNC_INTERVAL if interval_us > 0 => Ok(SyncMode::Interval { interval_us }),
        _ => refuse(codes::INVALID),
    }
}

/// Milliseconds that a commit waits for flushes before it is refused as busy.
const STALL_TIMEOUT_MS: u64 = 10_000;

/// Takes over what the engine's options say.
pub fn take_engine_options(config: &mut FamilyConfig, options: &FamilyOptions) {
    let int = |number: usize| c_int::try_from(number).unwrap_or(c_int::MAX);
    config.write_buffer_size = options.write_buffer_size;
    config.klog_value_threshold = options.klog_value_threshold;
    config.compression_algorithm = match options.compression {
        Compression::None => 0,
        Compression::Snappy => 1,
        Compression::Lz4 => 2,
        Compression::Zstd => 3,
        Compression::Lz4Fast => 4,
    };
    config.use_btree = c_int::from(options.use_btree);
    config.enable_block_indexes = c_int::from(options.enable_block_indexes);
    config.index_sample_ratio = int(options.index_sample_ratio);
    config.block_index_prefix_len = int(options.block_index_prefix_len);
    config.enable_bloom_filter = c_int::from(options.enable_bloom_filter);
    config.bloom_fpr = options.bloom_fpr;
    config.l0_queue_stall_threshold = int(options.l0_queue_stall_threshold);
    config.l1_file_count_trigger = int(options.l1_file_count_trigger);
    config.level_size_ratio = options.level_size_ratio;
    config.tombstone_density_trigger = options.tombstone_density_trigger;
    config.tombstone_density_min_entries = options.tombstone_density_min_entries;
    config.min_disk_space = options.min_disk_space.unwrap_or(USUAL_MIN_DISK_SPACE);
    config.sync_mode = match options.sync_mode {
        SyncMode::None => SYNC_NONE,
        SyncMode::Full => SYNC_FULL,
        SyncMode::Interval { interval_us } => {
            config.sync_interval_us = interval_us;
            SYNC_INTERVAL
        }
    };
}

/// Half of the address space: no limit on memory is larger.
const MOST_MEMORY: u64 = (usize::MAX / 2) as u64;

/// The memory limit that a configured one becomes, in bytes: small ones are raised to a twentieth
/// of the machine's memory, and 0 stays the engine's default.
fn memory_limit(configured: u64, machine: u64) -> u64 {
    match configured {
        0 => 0,
        _ => configured.max(machine / LEAST_SHARE_OF_MEMORY).min(MOST_MEMORY),
    }
}

/// [`Config::unified_memtable_write_buffer_size`] where it is 0.
const SHARED_WRITE_BUFFER_BYTES: u64 = 64 << 20;

/// What the engine is opened with.
pub fn db_options(config: &Config, machine_memory: u64) -> Outcome<DbOptions> {
    let shared = config.unified_memtable != 0;
    let interval_us = match config.unified_memtable_sync_interval_us {
        0 => SHARED_SYNC_INTERVAL_US,
        given => given,
    };
    let limit = memory_limit(config.max_memory_usage as u64, machine_memory);
    let threads = |number: c_int| usize::try_from(number).unwrap_or(0).min(256);
    Ok(DbOptions::default()
        .block_cache_bytes(config.block_cache_size)
        .max_open_files(config.max_open_sstables)
        .flush_threads(threads(config.num_flush_threads))
        .compaction_threads(threads(config.num_compaction_threads))
        .sync_mode(if shared {
            sync_mode(config.unified_memtable_sync_mode, interval_us)?
        } else {
            SyncMode::None
        })
        .shared_write_buffer_bytes(match config.unified_memtable_write_buffer_size as u64 {
            _ if !shared => 0,
            0 => SHARED_WRITE_BUFFER_BYTES,
            bytes => bytes,
        })
        .stall_timeout_ms(STALL_TIMEOUT_MS)
        .max_memory_usage(limit))
}

/// How durable commits are: as their families say, or with a shared memtable as the database does.
pub fn durability(config: &Config) -> WriteOptions {
    match config.unified_memtable {
        0 => WriteOptions::new(),
        _ => WriteOptions::new().sync(config.unified_memtable_sync_mode == SYNC_FULL),
    }
}

/// Puts values in order that the interface accepts and corrects.
///
/// # Errors
/// `TDB_ERR_INVALID_ARGS` for values that it refuses.
pub fn normalised(mut config: FamilyConfig, memory_limit: u64) -> Outcome<FamilyConfig> {
    if config.min_levels > MOST_LEVELS
        || compression(config.compression_algorithm).is_err()
        || sync_mode(config.sync_mode, config.sync_interval_us).is_err()
        || (config.write_buffer_size as u64).saturating_mul(2) > memory_limit
    {
        return refuse(codes::INVALID);
    }
    config.min_levels = config.min_levels.max(1);
    config.index_sample_ratio = config.index_sample_ratio.max(1);
    if !(4..=256).contains(&config.block_index_prefix_len) {
        config.block_index_prefix_len = 16;
    }
    config.l0_queue_stall_threshold = config.l0_queue_stall_threshold.max(1);
    if config.tombstone_density_min_entries == 0 {
        config.tombstone_density_min_entries = 1024;
    }
    Ok(config)
}

/// What a family of the engine is created with, or changed to from `present`.
pub fn family_options(config: &FamilyConfig, present: FamilyOptions) -> Outcome<FamilyOptions> {
    Ok(asked_options(config, present)?.within_limits())
}

/// The same as the config has it, beyond the engine's limits perhaps.
pub fn asked_options(config: &FamilyConfig, present: FamilyOptions) -> Outcome<FamilyOptions> {
    let number = |number: c_int| usize::try_from(number).unwrap_or(0);
    // In C there is no other sign for it: who leaves the default gets what is right for the volume.
    let (mut options, least) = (present, config.min_disk_space);
    options.min_disk_space = (least != USUAL_MIN_DISK_SPACE).then_some(least);
    Ok(options
        .write_buffer_size(config.write_buffer_size)
        .klog_value_threshold(config.klog_value_threshold)
        .compression(compression(config.compression_algorithm)?)
        .use_btree(config.use_btree != 0)
        .enable_block_indexes(config.enable_block_indexes != 0)
        .index_sample_ratio(number(config.index_sample_ratio))
        .block_index_prefix_len(number(config.block_index_prefix_len))
        .enable_bloom_filter(config.enable_bloom_filter != 0)
        .bloom_fpr(config.bloom_fpr)
        .l0_queue_stall_threshold(number(config.l0_queue_stall_threshold))
        .l1_file_count_trigger(number(config.l1_file_count_trigger))
        .level_size_ratio(config.level_size_ratio)
        .tombstone_density_trigger(config.tombstone_density_trigger)
        .tombstone_density_min_entries(config.tombstone_density_min_entries)
        .sync_mode(sync_mode(config.sync_mode, config.sync_interval_us)?))
}

/// Takes over the fields that may change in use. What the creation of a family would refuse of them
/// and has a nearest value gets that: a program that changes an option sends all of them.
pub fn take_runtime_fields(config: &mut FamilyConfig, new: &FamilyConfig) {
    config.write_buffer_size = new.write_buffer_size;
    config.level_size_ratio = new.level_size_ratio;
    config.min_levels = new.min_levels.min(MOST_LEVELS);
    config.dividing_level_offset = new.dividing_level_offset;
    config.klog_value_threshold = new.klog_value_threshold;
    config.compression_algorithm = new.compression_algorithm;
    config.enable_bloom_filter = new.enable_bloom_filter;
    config.bloom_fpr = new.bloom_fpr;
    config.enable_block_indexes = new.enable_block_indexes;
    config.index_sample_ratio = new.index_sample_ratio;
    config.block_index_prefix_len = new.block_index_prefix_len;
    config.sync_mode = new.sync_mode;
    config.sync_interval_us = match (new.sync_mode, new.sync_interval_us) {
        (SYNC_INTERVAL, 0) if config.sync_interval_us > 0 => config.sync_interval_us,
        (SYNC_INTERVAL, 0) => family_defaults().sync_interval_us,
        (_, interval_us) => interval_us,
    };
    config.default_isolation_level = new.default_isolation_level;
    config.skip_list_max_level = new.skip_list_max_level;
    config.skip_list_probability = new.skip_list_probability;
    config.l1_file_count_trigger = new.l1_file_count_trigger;
    config.l0_queue_stall_threshold = new.l0_queue_stall_threshold;
    config.tombstone_density_trigger = new.tombstone_density_trigger;
    config.tombstone_density_min_entries = new.tombstone_density_min_entries;
    config.min_disk_space = new.min_disk_space;
    config.commit_hook_fn = new.commit_hook_fn;
    config.commit_hook_ctx = new.commit_hook_ctx;
}

/// A copy of the config with the family's name in it.
pub fn named(mut config: FamilyConfig, name: &str) -> FamilyConfig {
    set_text(&mut config.name, name);
    config
}
