//! The structures of the C interface, field for field as `include/tidesdb/db.h` declares them.
//!
//! Their sizes and offsets are part of the interface: clients were compiled against them.

use std::ffi::{c_char, c_double, c_float, c_int, c_void};

/// `TDB_MAX_COMPARATOR_NAME`.
pub const MOST_COMPARATOR_NAME_BYTES: usize = 64;
/// `TDB_MAX_COMPARATOR_CTX`.
pub const MOST_COMPARATOR_CONTEXT_BYTES: usize = 256;
/// `TDB_MAX_CF_NAME_LEN`.
pub const MOST_FAMILY_NAME_BYTES: usize = 128;

/// `tidesdb_comparator_fn`.
pub type ComparatorFn =
    unsafe extern "C" fn(*const u8, usize, *const u8, usize, *mut c_void) -> c_int;
/// `tidesdb_commit_hook_fn`.
pub type CommitHookFn = unsafe extern "C" fn(*const CommitOp, c_int, u64, *mut c_void) -> c_int;

/// `tidesdb_config_t`: options of a database.
// More than a dozen fields: the layout of a struct in C.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Config {
    pub db_path: *mut c_char,
    pub num_flush_threads: c_int,
    pub num_compaction_threads: c_int,
    pub log_level: c_int,
    pub block_cache_size: usize,
    pub max_open_sstables: usize,
    pub log_to_file: c_int,
    pub log_truncation_at: usize,
    pub max_memory_usage: usize,
    pub unified_memtable: c_int,
    pub unified_memtable_write_buffer_size: usize,
    pub unified_memtable_skip_list_max_level: c_int,
    pub unified_memtable_skip_list_probability: c_float,
    pub unified_memtable_sync_mode: c_int,
    pub unified_memtable_sync_interval_us: u64,
    pub object_store: *mut ObjectStore,
    pub object_store_config: *mut ObjectStoreConfig,
    pub max_concurrent_flushes: c_int,
    pub finish_compactions_on_close: c_int,
}

/// `tidesdb_column_family_config_t`: options of a column family.
// More than a dozen fields: the layout of a struct in C.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct FamilyConfig {
    pub name: [c_char; MOST_FAMILY_NAME_BYTES],
    pub write_buffer_size: usize,
    pub level_size_ratio: usize,
    pub min_levels: c_int,
    pub dividing_level_offset: c_int,
    pub klog_value_threshold: usize,
    pub compression_algorithm: c_int,
    pub enable_bloom_filter: c_int,
    pub bloom_fpr: c_double,
    pub enable_block_indexes: c_int,
    pub index_sample_ratio: c_int,
    pub block_index_prefix_len: c_int,
    pub sync_mode: c_int,
    pub sync_interval_us: u64,
    pub comparator_name: [c_char; MOST_COMPARATOR_NAME_BYTES],
    pub comparator_ctx_str: [c_char; MOST_COMPARATOR_CONTEXT_BYTES],
    pub comparator_fn_cached: Option<ComparatorFn>,
    pub comparator_ctx_cached: *mut c_void,
    pub skip_list_max_level: c_int,
    pub skip_list_probability: c_float,
    pub default_isolation_level: c_int,
    pub min_disk_space: u64,
    pub l1_file_count_trigger: c_int,
    pub l0_queue_stall_threshold: c_int,
    pub tombstone_density_trigger: c_double,
    pub tombstone_density_min_entries: u64,
    pub use_btree: c_int,
    pub commit_hook_fn: Option<CommitHookFn>,
    pub commit_hook_ctx: *mut c_void,
    pub object_target_file_size: usize,
    pub object_lazy_compaction: c_int,
    pub object_prefetch_compaction: c_int,
}

/// `tidesdb_commit_op_t`: one operation of a commit, for a commit hook.
#[repr(C)]
pub struct CommitOp {
    pub key: *const u8,
    pub key_size: usize,
    pub value: *const u8,
    pub value_size: usize,
    pub ttl: libc::time_t,
    pub is_delete: c_int,
}

/// What ends `tidesdb_stats_t` and `tidesdb_db_stats_t` alike: what was written since the opening.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Written {
    pub wal_bytes_written: u64,
    pub flush_bytes_written: u64,
    pub compaction_bytes_written: u64,
    pub compaction_bytes_read: u64,
    pub user_bytes_written: u64,
    pub flush_count: u64,
    pub compaction_count: u64,
}

/// `tidesdb_stats_t`: statistics of a family.
// More than a dozen fields: the layout of a struct in C.
#[repr(C)]
pub struct Stats {
    pub num_levels: c_int,
    pub memtable_size: usize,
    pub level_sizes: *mut usize,
    pub level_num_sstables: *mut c_int,
    pub config: *mut FamilyConfig,
    pub total_keys: u64,
    pub total_data_size: u64,
    pub avg_key_size: c_double,
    pub avg_value_size: c_double,
    pub level_key_counts: *mut u64,
    pub read_amp: c_double,
    pub hit_rate: c_double,
    pub use_btree: c_int,
    pub btree_total_nodes: u64,
    pub btree_max_height: u32,
    pub btree_avg_height: c_double,
    pub total_tombstones: u64,
    pub tombstone_ratio: c_double,
    pub level_tombstone_counts: *mut u64,
    pub max_sst_density: c_double,
    pub max_sst_density_level: c_int,
    pub written: Written,
}

/// `tidesdb_cache_stats_t`: statistics of the block cache.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CacheStats {
    pub enabled: c_int,
    pub total_entries: usize,
    pub total_bytes: usize,
    pub hits: u64,
    pub misses: u64,
    pub hit_rate: c_double,
    pub num_partitions: usize,
}

/// `tidesdb_db_stats_t`: statistics of a database.
// More than a dozen fields: the layout of a struct in C.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct DbStats {
    pub num_column_families: c_int,
    pub total_memory: u64,
    pub available_memory: u64,
    pub resolved_memory_limit: usize,
    pub memory_pressure_level: c_int,
    pub flush_pending_count: c_int,
    pub total_memtable_bytes: i64,
    pub total_immutable_count: c_int,
    pub total_sstable_count: c_int,
    pub total_data_size_bytes: u64,
    pub num_open_sstables: c_int,
    pub global_seq: u64,
    pub txn_memory_bytes: i64,
    pub compaction_queue_size: usize,
    pub flush_queue_size: usize,
    pub unified_memtable_enabled: c_int,
    pub unified_memtable_bytes: i64,
    pub unified_immutable_count: c_int,
    pub unified_is_flushing: c_int,
    pub unified_next_cf_index: u32,
    pub unified_wal_generation: u64,
    pub object_store_enabled: c_int,
    pub object_store_connector: *const c_char,
    pub local_cache_bytes_used: usize,
    pub local_cache_bytes_max: usize,
    pub local_cache_num_files: c_int,
    pub last_uploaded_generation: u64,
    pub upload_queue_depth: usize,
    pub total_uploads: u64,
    pub total_upload_failures: u64,
    pub replica_mode: c_int,
    pub primary_epoch: u64,
    pub seen_epoch: u64,
    pub uwal_bytes_written: u64,
    pub written: Written,
}

/// `tidesdb_objstore_config_t`: options of object store mode.
// More than a dozen fields: the layout of a struct in C.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ObjectStoreConfig {
    pub local_cache_path: *const c_char,
    pub local_cache_max_bytes: usize,
    pub cache_on_read: c_int,
    pub cache_on_write: c_int,
    pub max_concurrent_uploads: c_int,
    pub max_concurrent_downloads: c_int,
    pub multipart_threshold: usize,
    pub multipart_part_size: usize,
    pub sync_manifest_to_object: c_int,
    pub replicate_wal: c_int,
    pub wal_upload_sync: c_int,
    pub wal_sync_threshold_bytes: usize,
    pub wal_sync_on_commit: c_int,
    pub replica_mode: c_int,
    pub replica_sync_interval_us: u64,
    pub replica_replay_wal: c_int,
}

/// What `list` of a connector calls for each object.
pub type ListedFn = unsafe extern "C" fn(*const c_char, usize, *mut c_void);

/// `tidesdb_objstore_t`: the functions of a connector.
#[repr(C)]
pub struct ObjectStore {
    pub backend: c_int,
    pub put: Option<unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> c_int>,
    pub get: Option<unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> c_int>,
    pub range_get:
        Option<unsafe extern "C" fn(*mut c_void, *const c_char, u64, *mut c_void, usize) -> isize>,
    pub delete_object: Option<unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int>,
    pub exists: Option<unsafe extern "C" fn(*mut c_void, *const c_char, *mut usize) -> c_int>,
    pub list: Option<
        unsafe extern "C" fn(*mut c_void, *const c_char, Option<ListedFn>, *mut c_void) -> c_int,
    >,
    pub put_if: Option<PutIfFn>,
    pub head: Option<
        unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_char, usize, *mut u64) -> c_int,
    >,
    pub destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    pub ctx: *mut c_void,
}

/// `put_if` of a connector.
pub type PutIfFn = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    *const c_char,
    c_int,
    *const c_char,
    u64,
    *mut c_char,
    usize,
    usize,
) -> c_int;
