//! Options objects of RocksDB from the neutral options: the profiles parity and tuned.
//!
//! `parity` gives RocksDB the resources and shapes that every engine gets. `tuned` is what its own
//! guides advise on top: larger write groups, pipelined writes for many threads, blocks of 16 KiB,
//! filters fitted to the allocator. Settings in RocksDB's own words come last and win.
//! Called by `super` while a database is opened; every object is destroyed by its [`Owned`].

use super::api::{Api, Handle};
use super::{Owned, Profile, checked};
use crate::engine::{Compression, EngineError, EngineOptions, Result};
use libc::{c_char, c_int};
use std::ffi::CString;

const MIB: u64 = 1 << 20;

fn to_c_int(value: u32) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

fn to_size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn codec(compression: Compression) -> c_int {
    match compression {
        Compression::None => 0,
        Compression::Snappy => 1,
        Compression::Lz4 => 4,
        Compression::Zstd => 7,
    }
}

/// What an old library has no setting for, for the reports.
pub(super) fn differences(api: &Api, profile: Profile) -> Vec<String> {
    let tuned = profile == Profile::Tuned;
    let missing = [
        (api.cache_create_hyper_clock.is_none(), "an LRU cache, as it has no HyperClock"),
        (
            tuned && api.options_set_max_write_batch_group_size_bytes.is_none(),
            "write groups of at most 1 MiB in the tuned profile",
        ),
        (
            tuned && api.block_based_options_set_optimize_filters_for_memory.is_none(),
            "filters not fitted to the allocator in the tuned profile",
        ),
        (api.iter_refresh.is_none(), "a new iterator per scan where anything writes"),
    ];
    let missing = missing.iter().filter(|(applies, _)| *applies);
    missing.map(|(_, what)| format!("this old RocksDB library: {what}")).collect()
}

/// The options of a database and of each of its families. They hold the block cache: families that
/// are made with the same object share it.
pub(super) fn options<'a>(
    api: &'a Api,
    options: &EngineOptions,
    profile: Profile,
) -> Result<Owned<'a>> {
    let base = Owned::new(api, api.options_create, api.options_destroy);
    resources(api, base.handle, options);
    tables(api, base.handle, options, profile);
    if let Some(size) = options.separation() {
        blobs(api, base.handle, size, options.compression);
    }
    if profile == Profile::Tuned {
        tuned(api, base.handle, options);
    }
    if options.extra.is_empty() {
        return Ok(base);
    }
    let pairs: Vec<String> =
        options.extra.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let text = CString::new(pairs.join(";"))
        .map_err(|error| EngineError::from_call("--engine-opt", error))?;
    let changed = Owned::new(api, api.options_create, api.options_destroy);
    checked(api, "rocksdb_get_options_from_string", |error| {
        // SAFETY: both objects are live and the text is a C string.
        unsafe { (api.get_options_from_string)(base.handle, text.as_ptr(), changed.handle, error) };
    })?;
    Ok(changed)
}

/// Database-wide settings of the parity profile.
fn resources(api: &Api, handle: Handle, options: &EngineOptions) {
    const LOG_WARNINGS: c_int = 2;
    const RECYCLED_LOGS: usize = 4;
    // All families share the budget, those that a test creates later as well.
    let memtable = options.memtable_bytes;
    let budget = memtable.saturating_mul(u64::from(options.memtable_count));
    let level_base = memtable.saturating_mul(4);
    let jobs = to_c_int(options.background_threads);
    let memtables = to_c_int(options.memtable_count);
    // SAFETY: for all calls of this function: `handle` is a live options object and every setter
    // only stores the given number in it.
    unsafe { (api.options_set_create_if_missing)(handle, 1) };
    // SAFETY: see above.
    unsafe { (api.options_set_write_buffer_size)(handle, to_size(memtable)) };
    // SAFETY: see above.
    unsafe { (api.options_set_max_write_buffer_number)(handle, memtables) };
    // SAFETY: see above.
    unsafe { (api.options_set_db_write_buffer_size)(handle, to_size(budget)) };
    // SAFETY: see above.
    unsafe { (api.options_set_compression)(handle, codec(options.compression)) };
    // SAFETY: see above.
    unsafe { (api.options_set_bottommost_compression)(handle, codec(options.compression)) };
    // SAFETY: see above.
    unsafe { (api.options_set_max_background_jobs)(handle, jobs) };
    // SAFETY: see above.
    unsafe { (api.options_set_max_open_files)(handle, -1) };
    // SAFETY: see above.
    unsafe { (api.options_set_target_file_size_base)(handle, memtable) };
    // SAFETY: see above.
    unsafe { (api.options_set_max_bytes_for_level_base)(handle, level_base) };
    // This engine recycles the segments of its log in every sync mode.
    // SAFETY: see above.
    unsafe { (api.options_set_recycle_log_file_num)(handle, RECYCLED_LOGS) };
    // SAFETY: see above.
    unsafe { (api.options_set_info_log_level)(handle, LOG_WARNINGS) };
}

/// Block size, cache, filter and checksum.
fn tables(api: &Api, handle: Handle, options: &EngineOptions, profile: Profile) {
    const CHECKSUM_XXH3: c_char = 4;
    const TUNED_BLOCK: u64 = 16 << 10;
    let is_tuned = profile == Profile::Tuned;
    let block = if is_tuned { options.block_bytes.max(TUNED_BLOCK) } else { options.block_bytes };
    let table = Owned::new(api, api.block_based_options_create, api.block_based_options_destroy);
    // SAFETY: `table` is a live table options object; the setter stores a number.
    unsafe { (api.block_based_options_set_block_size)(table.handle, to_size(block)) };
    // SAFETY: see above.
    unsafe { (api.block_based_options_set_checksum)(table.handle, CHECKSUM_XXH3) };
    if is_tuned && let Some(fit) = api.block_based_options_set_optimize_filters_for_memory {
        // SAFETY: see above.
        unsafe { fit(table.handle, 1) };
    }
    let cache_bytes = to_size(options.cache_bytes);
    let cache = match api.cache_create_hyper_clock {
        // An estimated entry charge of 0 selects the self-sizing hash table.
        // SAFETY: the constructor takes two sizes and returns an owned reference.
        Some(create) => unsafe { create(cache_bytes, 0) },
        // SAFETY: the constructor takes a size and returns an owned reference.
        None => unsafe { (api.cache_create_lru)(cache_bytes) },
    };
    // SAFETY: both objects are live; the table options take a reference of their own.
    unsafe { (api.block_based_options_set_block_cache)(table.handle, cache) };
    // SAFETY: gives back our reference, which is not used afterwards.
    unsafe { (api.cache_destroy)(cache) };
    if options.bloom_bits > 0 {
        // SAFETY: the constructor takes a number.
        let policy = unsafe { (api.filterpolicy_create_bloom_full)(f64::from(options.bloom_bits)) };
        // SAFETY: the table options take ownership of the policy.
        unsafe { (api.block_based_options_set_filter_policy)(table.handle, policy) };
    }
    // SAFETY: both objects are live; the factory copies the table options.
    unsafe { (api.options_set_block_based_table_factory)(handle, table.handle) };
}

/// Values of `size` bytes and more go to blob files.
fn blobs(api: &Api, handle: Handle, size: u64, compression: Compression) {
    const BLOB_FILE: u64 = 256 * MIB;
    // SAFETY: for all calls of this function: `handle` is a live options object; setters store
    // numbers.
    unsafe { (api.options_set_enable_blob_files)(handle, 1) };
    // SAFETY: see above.
    unsafe { (api.options_set_min_blob_size)(handle, size) };
    // SAFETY: see above.
    unsafe { (api.options_set_blob_file_size)(handle, BLOB_FILE) };
    // SAFETY: see above.
    unsafe { (api.options_set_blob_compression_type)(handle, codec(compression)) };
    // SAFETY: see above.
    unsafe { (api.options_set_enable_blob_gc)(handle, 1) };
}

/// What RocksDB's guides advise on top of parity.
fn tuned(api: &Api, handle: Handle, options: &EngineOptions) {
    const PIPELINE_THREADS: u32 = 4;
    if let Some(set) = api.options_set_max_write_batch_group_size_bytes {
        // SAFETY: for all calls of this function: `handle` is a live options object; setters store
        // numbers.
        unsafe { set(handle, 16 * MIB) };
    }
    // Optimistic transactions refuse pipelined writes.
    if options.threads >= PIPELINE_THREADS && !options.transactions {
        // SAFETY: see above.
        unsafe { (api.options_set_enable_pipelined_write)(handle, 1) };
    }
    // SAFETY: see above.
    unsafe { (api.options_set_bytes_per_sync)(handle, MIB) };
    // SAFETY: see above.
    unsafe { (api.options_set_max_subcompactions)(handle, options.background_threads) };
    // SAFETY: see above.
    unsafe { (api.options_set_level_compaction_dynamic_level_bytes)(handle, 1) };
}
