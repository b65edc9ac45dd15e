//! The part of RocksDB's C API that the adapter uses, loaded from a shared library at run time.
//!
//! Owned by the adapter in `super`; nothing else calls it. Each function pointer is declared by
//! hand after `rocksdb/c.h` of the 10.x/11.x series (these signatures have been stable since 7.x).
//! The last ones, marked `?`, are missing in 7.x and 8.x, which distributions ship and which the
//! cross-check with `db_bench` needs; the adapter does without them. A library that lacks any other
//! is refused as a whole. [`Api`] keeps the library mapped for as long as a pointer into it can be
//! used.
#![expect(unsafe_code, reason = "function pointers of a C library that is loaded at run time")]

use crate::c_functions::c_functions;
use crate::engine::{EngineError, Result};
use libc::{c_char, c_double, c_int, c_uchar, c_void, size_t};
use std::path::{Path, PathBuf};

/// Pointer to an opaque object of the library.
pub(super) type Handle = *mut c_void;
/// Where the library stores an allocated error text.
pub(super) type ErrorSlot = *mut *mut c_char;

c_functions! {
    close: "rocksdb_close" = fn(Handle);
    free: "rocksdb_free" = fn(*mut c_void);
    set_perf_level: "rocksdb_set_perf_level" = fn(c_int);
    write: "rocksdb_write" = fn(Handle, Handle, Handle, ErrorSlot);
    get_pinned:
        "rocksdb_get_pinned_cf" = fn(Handle, Handle, Handle, *const u8, size_t, ErrorSlot) -> Handle;
    batched_multi_get: "rocksdb_batched_multi_get_cf" = fn(
        Handle, Handle, Handle, size_t, *const *const u8, *const size_t, *mut Handle,
        *mut *mut c_char, bool
    );
    open_families: "rocksdb_open_column_families" = fn(
        Handle, *const c_char, c_int, *const *const c_char, *const Handle, *mut Handle, ErrorSlot
    ) -> Handle;
    list_families: "rocksdb_list_column_families" =
        fn(Handle, *const c_char, *mut size_t, ErrorSlot) -> *mut *mut c_char;
    list_families_destroy: "rocksdb_list_column_families_destroy" = fn(*mut *mut c_char, size_t);
    create_family:
        "rocksdb_create_column_family" = fn(Handle, Handle, *const c_char, ErrorSlot) -> Handle;
    drop_family: "rocksdb_drop_column_family" = fn(Handle, Handle, ErrorSlot);
    family_handle_destroy: "rocksdb_column_family_handle_destroy" = fn(Handle);
    compact_range: "rocksdb_compact_range_cf" =
        fn(Handle, Handle, *const u8, size_t, *const u8, size_t);
    checkpoint_object_create: "rocksdb_checkpoint_object_create" = fn(Handle, ErrorSlot) -> Handle;
    checkpoint_create: "rocksdb_checkpoint_create" = fn(Handle, *const c_char, u64, ErrorSlot);
    checkpoint_object_destroy: "rocksdb_checkpoint_object_destroy" = fn(Handle);
    get_options_from_string:
        "rocksdb_get_options_from_string" = fn(Handle, *const c_char, Handle, ErrorSlot);
    optimistic_open: "rocksdb_optimistictransactiondb_open_column_families" = fn(
        Handle, *const c_char, c_int, *const *const c_char, *const Handle, *mut Handle, ErrorSlot
    ) -> Handle;
    optimistic_close: "rocksdb_optimistictransactiondb_close" = fn(Handle);
    optimistic_base: "rocksdb_optimistictransactiondb_get_base_db" = fn(Handle) -> Handle;
    optimistic_close_base: "rocksdb_optimistictransactiondb_close_base_db" = fn(Handle);
    optimistic_begin:
        "rocksdb_optimistictransaction_begin" = fn(Handle, Handle, Handle, Handle) -> Handle;
    optimistic_options_create: "rocksdb_optimistictransaction_options_create" = fn() -> Handle;
    optimistic_options_destroy: "rocksdb_optimistictransaction_options_destroy" = fn(Handle);
    optimistic_options_set_set_snapshot:
        "rocksdb_optimistictransaction_options_set_set_snapshot" = fn(Handle, c_uchar);
    transaction_put:
        "rocksdb_transaction_put_cf" = fn(Handle, Handle, *const u8, size_t, *const u8, size_t, ErrorSlot);
    transaction_get: "rocksdb_transaction_get_pinned_cf" =
        fn(Handle, Handle, Handle, *const u8, size_t, ErrorSlot) -> Handle;
    transaction_get_for_update: "rocksdb_transaction_get_pinned_for_update_cf" =
        fn(Handle, Handle, Handle, *const u8, size_t, c_uchar, ErrorSlot) -> Handle;
    transaction_get_snapshot: "rocksdb_transaction_get_snapshot" = fn(Handle) -> Handle;
    transaction_commit: "rocksdb_transaction_commit" = fn(Handle, ErrorSlot);
    transaction_rollback: "rocksdb_transaction_rollback" = fn(Handle, ErrorSlot);
    transaction_destroy: "rocksdb_transaction_destroy" = fn(Handle);
    pinnableslice_value: "rocksdb_pinnableslice_value" = fn(Handle, *mut size_t) -> *const u8;
    pinnableslice_destroy: "rocksdb_pinnableslice_destroy" = fn(Handle);
    flush: "rocksdb_flush_cf" = fn(Handle, Handle, Handle, ErrorSlot);
    flush_wal: "rocksdb_flush_wal" = fn(Handle, c_uchar, ErrorSlot);
    property_value: "rocksdb_property_value" = fn(Handle, *const c_char) -> *mut c_char;
    writebatch_create: "rocksdb_writebatch_create" = fn() -> Handle;
    writebatch_destroy: "rocksdb_writebatch_destroy" = fn(Handle);
    writebatch_clear: "rocksdb_writebatch_clear" = fn(Handle);
    writebatch_put:
        "rocksdb_writebatch_put_cf" = fn(Handle, Handle, *const u8, size_t, *const u8, size_t);
    writebatch_delete: "rocksdb_writebatch_delete_cf" = fn(Handle, Handle, *const u8, size_t);
    writebatch_delete_range: "rocksdb_writebatch_delete_range_cf" =
        fn(Handle, Handle, *const u8, size_t, *const u8, size_t);
    writeoptions_create: "rocksdb_writeoptions_create" = fn() -> Handle;
    writeoptions_destroy: "rocksdb_writeoptions_destroy" = fn(Handle);
    writeoptions_set_sync: "rocksdb_writeoptions_set_sync" = fn(Handle, c_uchar);
    readoptions_create: "rocksdb_readoptions_create" = fn() -> Handle;
    readoptions_destroy: "rocksdb_readoptions_destroy" = fn(Handle);
    readoptions_set_snapshot: "rocksdb_readoptions_set_snapshot" = fn(Handle, Handle);
    create_iterator: "rocksdb_create_iterator_cf" = fn(Handle, Handle, Handle) -> Handle;
    iter_destroy: "rocksdb_iter_destroy" = fn(Handle);
    iter_seek: "rocksdb_iter_seek" = fn(Handle, *const u8, size_t);
    iter_seek_for_prev: "rocksdb_iter_seek_for_prev" = fn(Handle, *const u8, size_t);
    iter_seek_to_first: "rocksdb_iter_seek_to_first" = fn(Handle);
    iter_seek_to_last: "rocksdb_iter_seek_to_last" = fn(Handle);
    iter_valid: "rocksdb_iter_valid" = fn(Handle) -> c_uchar;
    iter_next: "rocksdb_iter_next" = fn(Handle);
    iter_prev: "rocksdb_iter_prev" = fn(Handle);
    iter_key: "rocksdb_iter_key" = fn(Handle, *mut size_t) -> *const u8;
    iter_value: "rocksdb_iter_value" = fn(Handle, *mut size_t) -> *const u8;
    iter_get_error: "rocksdb_iter_get_error" = fn(Handle, ErrorSlot);
    options_create: "rocksdb_options_create" = fn() -> Handle;
    options_destroy: "rocksdb_options_destroy" = fn(Handle);
    options_set_create_if_missing: "rocksdb_options_set_create_if_missing" = fn(Handle, c_uchar);
    options_set_write_buffer_size: "rocksdb_options_set_write_buffer_size" = fn(Handle, size_t);
    options_set_max_write_buffer_number:
        "rocksdb_options_set_max_write_buffer_number" = fn(Handle, c_int);
    options_set_compression: "rocksdb_options_set_compression" = fn(Handle, c_int);
    options_set_bottommost_compression:
        "rocksdb_options_set_bottommost_compression" = fn(Handle, c_int);
    options_set_max_background_jobs: "rocksdb_options_set_max_background_jobs" = fn(Handle, c_int);
    options_set_max_open_files: "rocksdb_options_set_max_open_files" = fn(Handle, c_int);
    options_set_target_file_size_base:
        "rocksdb_options_set_target_file_size_base" = fn(Handle, u64);
    options_set_max_bytes_for_level_base:
        "rocksdb_options_set_max_bytes_for_level_base" = fn(Handle, u64);
    options_set_block_based_table_factory:
        "rocksdb_options_set_block_based_table_factory" = fn(Handle, Handle);
    options_set_info_log_level: "rocksdb_options_set_info_log_level" = fn(Handle, c_int);
    options_set_enable_pipelined_write:
        "rocksdb_options_set_enable_pipelined_write" = fn(Handle, c_uchar);
    options_set_bytes_per_sync: "rocksdb_options_set_bytes_per_sync" = fn(Handle, u64);
    options_set_max_subcompactions: "rocksdb_options_set_max_subcompactions" = fn(Handle, u32);
    options_set_recycle_log_file_num:
        "rocksdb_options_set_recycle_log_file_num" = fn(Handle, size_t);
    options_set_enable_blob_files: "rocksdb_options_set_enable_blob_files" = fn(Handle, c_uchar);
    options_set_min_blob_size: "rocksdb_options_set_min_blob_size" = fn(Handle, u64);
    options_set_blob_file_size: "rocksdb_options_set_blob_file_size" = fn(Handle, u64);
    options_set_blob_compression_type:
        "rocksdb_options_set_blob_compression_type" = fn(Handle, c_int);
    options_set_enable_blob_gc: "rocksdb_options_set_enable_blob_gc" = fn(Handle, c_uchar);
    options_set_level_compaction_dynamic_level_bytes:
        "rocksdb_options_set_level_compaction_dynamic_level_bytes" = fn(Handle, c_uchar);
    options_set_db_write_buffer_size:
        "rocksdb_options_set_db_write_buffer_size" = fn(Handle, size_t);
    block_based_options_create: "rocksdb_block_based_options_create" = fn() -> Handle;
    block_based_options_destroy: "rocksdb_block_based_options_destroy" = fn(Handle);
    block_based_options_set_block_size:
        "rocksdb_block_based_options_set_block_size" = fn(Handle, size_t);
    block_based_options_set_block_cache:
        "rocksdb_block_based_options_set_block_cache" = fn(Handle, Handle);
    block_based_options_set_filter_policy:
        "rocksdb_block_based_options_set_filter_policy" = fn(Handle, Handle);
    block_based_options_set_checksum:
        "rocksdb_block_based_options_set_checksum" = fn(Handle, c_char);
    cache_destroy: "rocksdb_cache_destroy" = fn(Handle);
    filterpolicy_create_bloom_full:
        "rocksdb_filterpolicy_create_bloom_full" = fn(c_double) -> Handle;
    flushoptions_create: "rocksdb_flushoptions_create" = fn() -> Handle;
    flushoptions_destroy: "rocksdb_flushoptions_destroy" = fn(Handle);
    cache_create_lru: "rocksdb_cache_create_lru" = fn(size_t) -> Handle;
    property_int: "rocksdb_property_int" = fn(Handle, *const c_char, *mut u64) -> c_int;
    ? wait_for_compact: "rocksdb_wait_for_compact" = fn(Handle, Handle, ErrorSlot);
    ? iter_refresh: "rocksdb_iter_refresh" = fn(Handle, ErrorSlot);
    ? options_set_max_write_batch_group_size_bytes:
        "rocksdb_options_set_max_write_batch_group_size_bytes" = fn(Handle, u64);
    ? block_based_options_set_optimize_filters_for_memory:
        "rocksdb_block_based_options_set_optimize_filters_for_memory" = fn(Handle, c_uchar);
    ? cache_create_hyper_clock: "rocksdb_cache_create_hyper_clock" = fn(size_t, size_t) -> Handle;
    ? wait_for_compact_options_create: "rocksdb_wait_for_compact_options_create" = fn() -> Handle;
    ? wait_for_compact_options_destroy: "rocksdb_wait_for_compact_options_destroy" = fn(Handle);
}

/// Places to look for the library, in order, when no path is named.
fn candidates() -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Some(named) = std::env::var_os("ROCKSDB_LIB") {
        found.push(PathBuf::from(named));
    }
    for directory in ["target/peers", "../target/peers", "../../target/peers"] {
        found.push(PathBuf::from(directory).join("librocksdbjni-linux64.so"));
        found.push(PathBuf::from(directory).join("librocksdb.so"));
    }
    if let Ok(executable) = std::env::current_exe() {
        // A build leaves the tool in target/release; the peers lie beside that folder.
        for ancestor in executable.ancestors().skip(1).take(3) {
            found.push(ancestor.join("peers/librocksdbjni-linux64.so"));
            found.push(ancestor.join("peers/librocksdb.so"));
        }
    }
    for directory in ["/usr/local/lib", "/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu"] {
        found.push(PathBuf::from(directory).join("librocksdb.so"));
    }
    found
}

/// The library to load: the named one, else the first that exists in the usual places.
pub(super) fn find_library(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = named {
        return if path.exists() {
            Ok(path.to_path_buf())
        } else {
            Err(EngineError::new(format!("no library at {}", path.display())))
        };
    }
    candidates().into_iter().find(|path| path.exists()).ok_or_else(|| {
        EngineError::new(
            "no RocksDB library found: run scripts/fetch-rocksdb, set ROCKSDB_LIB, or pass \
             --rocksdb-lib PATH",
        )
    })
}
