//! TidesDB's C interface, version 9.3, as far as the adapter uses it, loaded at run time.
//!
//! Structures have the fields and the order of the published headers, which is the binary
//! interface; [`check_layout`] compares their sizes and some offsets with the documented ones. A
//! library that lacks one of the functions is refused as a whole. [`Api`] keeps the library mapped
//! for as long as a pointer into it can be used.
#![expect(unsafe_code, reason = "function pointers of a C library that is loaded at run time")]

use crate::c_functions::c_functions;
use crate::engine::{EngineError, Result};
use libc::{c_char, c_double, c_float, c_int, c_void, size_t, time_t};
use std::mem::{offset_of, size_of};

/// Pointer to an opaque object of the library.
pub(super) type Handle = *mut c_void;

/// `tidesdb_config_t`.
// More than a dozen fields: the layout of a struct in C.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Config {
    pub(super) db_path: *mut c_char,
    pub(super) num_flush_threads: c_int,
    pub(super) num_compaction_threads: c_int,
    pub(super) log_level: c_int,
    pub(super) block_cache_size: size_t,
    pub(super) max_open_sstables: size_t,
    log_to_file: c_int,
    log_truncation_at: size_t,
    max_memory_usage: size_t,
    unified_memtable: c_int,
    unified_memtable_write_buffer_size: size_t,
    unified_memtable_skip_list_max_level: c_int,
    unified_memtable_skip_list_probability: c_float,
    unified_memtable_sync_mode: c_int,
    unified_memtable_sync_interval_us: u64,
    object_store: Handle,
    object_store_config: Handle,
    max_concurrent_flushes: c_int,
    finish_compactions_on_close: c_int,
}

/// `tidesdb_column_family_config_t`.
// More than a dozen fields: the layout of a struct in C.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct FamilyConfig {
    name: [c_char; 128],
    pub(super) write_buffer_size: size_t,
    level_size_ratio: size_t,
    min_levels: c_int,
    dividing_level_offset: c_int,
    pub(super) klog_value_threshold: size_t,
    pub(super) compression_algorithm: c_int,
    pub(super) enable_bloom_filter: c_int,
    pub(super) bloom_fpr: c_double,
    enable_block_indexes: c_int,
    index_sample_ratio: c_int,
    block_index_prefix_len: c_int,
    pub(super) sync_mode: c_int,
    pub(super) sync_interval_us: u64,
    comparator_name: [c_char; 64],
    comparator_ctx_str: [c_char; 256],
    comparator_fn_cached: Handle,
    comparator_ctx_cached: Handle,
    skip_list_max_level: c_int,
    skip_list_probability: c_float,
    default_isolation_level: c_int,
    min_disk_space: u64,
    l1_file_count_trigger: c_int,
    pub(super) l0_queue_stall_threshold: c_int,
    tombstone_density_trigger: c_double,
    tombstone_density_min_entries: u64,
    pub(super) use_btree: c_int,
    commit_hook_fn: Handle,
    commit_hook_ctx: Handle,
    object_target_file_size: size_t,
    object_lazy_compaction: c_int,
    object_prefetch_compaction: c_int,
}

/// `tidesdb_db_stats_t`.
// More than a dozen fields: the layout of a struct in C.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct DbStats {
    num_column_families: c_int,
    total_memory: u64,
    available_memory: u64,
    resolved_memory_limit: size_t,
    memory_pressure_level: c_int,
    pub(super) flush_pending_count: c_int,
    total_memtable_bytes: i64,
    total_immutable_count: c_int,
    total_sstable_count: c_int,
    total_data_size_bytes: u64,
    num_open_sstables: c_int,
    global_seq: u64,
    txn_memory_bytes: i64,
    pub(super) compaction_queue_size: size_t,
    pub(super) flush_queue_size: size_t,
    unified_memtable_enabled: c_int,
    unified_memtable_bytes: i64,
    unified_immutable_count: c_int,
    unified_is_flushing: c_int,
    unified_next_cf_index: u32,
    unified_wal_generation: u64,
    object_store_enabled: c_int,
    object_store_connector: usize,
    local_cache_bytes_used: size_t,
    local_cache_bytes_max: size_t,
    local_cache_num_files: c_int,
    last_uploaded_generation: u64,
    upload_queue_depth: size_t,
    total_uploads: u64,
    total_upload_failures: u64,
    replica_mode: c_int,
    primary_epoch: u64,
    seen_epoch: u64,
    pub(super) uwal_bytes_written: u64,
    pub(super) wal_bytes_written: u64,
    pub(super) flush_bytes_written: u64,
    pub(super) compaction_bytes_written: u64,
    compaction_bytes_read: u64,
    user_bytes_written: u64,
    flush_count: u64,
    compaction_count: u64,
}

/// `tidesdb_cache_stats_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct CacheStats {
    pub(super) enabled: c_int,
    total_entries: size_t,
    total_bytes: size_t,
    pub(super) hits: u64,
    pub(super) misses: u64,
    hit_rate: c_double,
    num_partitions: size_t,
}

/// Compares the structures above with the documented sizes and offsets of 64-bit systems.
pub(super) fn check_layout() -> Result<()> {
    let right = size_of::<Config>() == 128
        && offset_of!(Config, block_cache_size) == 24
        && offset_of!(Config, object_store) == 104
        && offset_of!(Config, finish_compactions_on_close) == 124
        && size_of::<FamilyConfig>() == 624
        && offset_of!(FamilyConfig, write_buffer_size) == 128
        && offset_of!(FamilyConfig, comparator_name) == 200
        && offset_of!(FamilyConfig, comparator_fn_cached) == 520
        && offset_of!(FamilyConfig, commit_hook_fn) == 592
        && offset_of!(FamilyConfig, object_prefetch_compaction) == 620
        && size_of::<CacheStats>() == 56
        && size_of::<DbStats>() == 304
        && offset_of!(DbStats, object_store_connector) == 152
        && offset_of!(DbStats, primary_epoch) == 224
        && offset_of!(DbStats, compaction_count) == 296;
    if right {
        Ok(())
    } else {
        Err(EngineError::new("TidesDB's C interface is known for 64-bit systems only"))
    }
}

c_functions! {
    default_config: "tidesdb_default_config" = fn() -> Config;
    default_family_config: "tidesdb_default_column_family_config" = fn() -> FamilyConfig;
    free: "tidesdb_free" = fn(*mut c_void);
    open: "tidesdb_open" = fn(*const Config, *mut Handle) -> c_int;
    close: "tidesdb_close" = fn(Handle) -> c_int;
    checkpoint: "tidesdb_checkpoint" = fn(Handle, *const c_char) -> c_int;
    get_db_stats: "tidesdb_get_db_stats" = fn(Handle, *mut DbStats) -> c_int;
    get_cache_stats: "tidesdb_get_cache_stats" = fn(Handle, *mut CacheStats) -> c_int;
    create_family:
        "tidesdb_create_column_family" = fn(Handle, *const c_char, *const FamilyConfig) -> c_int;
    drop_family: "tidesdb_drop_column_family" = fn(Handle, *const c_char) -> c_int;
    get_family: "tidesdb_get_column_family" = fn(Handle, *const c_char) -> Handle;
    flush_memtable: "tidesdb_flush_memtable" = fn(Handle) -> c_int;
    compact: "tidesdb_compact" = fn(Handle) -> c_int;
    is_flushing: "tidesdb_is_flushing" = fn(Handle) -> c_int;
    is_compacting: "tidesdb_is_compacting" = fn(Handle) -> c_int;
    sync_wal: "tidesdb_sync_wal" = fn(Handle) -> c_int;
    begin: "tidesdb_txn_begin_with_isolation" = fn(Handle, c_int, *mut Handle) -> c_int;
    put: "tidesdb_txn_put" =
        fn(Handle, Handle, *const u8, size_t, *const u8, size_t, time_t) -> c_int;
    get: "tidesdb_txn_get" =
        fn(Handle, Handle, *const u8, size_t, *mut *mut u8, *mut size_t) -> c_int;
    delete: "tidesdb_txn_delete" = fn(Handle, Handle, *const u8, size_t) -> c_int;
    commit: "tidesdb_txn_commit" = fn(Handle) -> c_int;
    rollback: "tidesdb_txn_rollback" = fn(Handle) -> c_int;
    reset: "tidesdb_txn_reset" = fn(Handle, c_int) -> c_int;
    txn_free: "tidesdb_txn_free" = fn(Handle);
    iter_new: "tidesdb_iter_new" = fn(Handle, Handle, *mut Handle) -> c_int;
    iter_seek: "tidesdb_iter_seek" = fn(Handle, *const u8, size_t) -> c_int;
    iter_seek_for_prev: "tidesdb_iter_seek_for_prev" = fn(Handle, *const u8, size_t) -> c_int;
    iter_seek_to_first: "tidesdb_iter_seek_to_first" = fn(Handle) -> c_int;
    iter_seek_to_last: "tidesdb_iter_seek_to_last" = fn(Handle) -> c_int;
    iter_next: "tidesdb_iter_next" = fn(Handle) -> c_int;
    iter_prev: "tidesdb_iter_prev" = fn(Handle) -> c_int;
    iter_valid: "tidesdb_iter_valid" = fn(Handle) -> c_int;
    iter_key_value: "tidesdb_iter_key_value" =
        fn(Handle, *mut *mut u8, *mut size_t, *mut *mut u8, *mut size_t) -> c_int;
    iter_free: "tidesdb_iter_free" = fn(Handle);
    ? wait_idle: "tidesdb_wait_idle" = fn(Handle) -> c_int;
}

#[cfg(test)]
mod tests {
    #[test]
    fn structures_have_the_documented_layout() {
        super::check_layout().unwrap();
    }
}
