//! The size of each structure and the place of each of its fields on every 64-bit system, in bytes,
//! as compile-time assertions. `tests/c/layout.h` has the same numbers for the headers.

use std::mem::{offset_of, size_of};

use crate::types::{CacheStats, CommitOp, Config, DbStats, FamilyConfig, ObjectStore};
use crate::types::{ObjectStoreConfig, Stats};

macro_rules! layout {
    ($type:ty, $size:literal; $($($field:ident).+ => $place:literal,)*) => {
        const _: () = {
            assert!(size_of::<$type>() == $size);
            $(assert!(offset_of!($type, $($field).+) == $place);)*
        };
    };
}

layout!(
    Config, 128;
    db_path => 0, num_flush_threads => 8, num_compaction_threads => 12, log_level => 16,
    block_cache_size => 24, max_open_sstables => 32, log_to_file => 40, log_truncation_at => 48,
    max_memory_usage => 56, unified_memtable => 64, unified_memtable_write_buffer_size => 72,
    unified_memtable_skip_list_max_level => 80, unified_memtable_skip_list_probability => 84,
    unified_memtable_sync_mode => 88, unified_memtable_sync_interval_us => 96, object_store => 104,
    object_store_config => 112, max_concurrent_flushes => 120, finish_compactions_on_close => 124,
);
layout!(
    FamilyConfig, 624;
    name => 0, write_buffer_size => 128, level_size_ratio => 136, min_levels => 144,
    dividing_level_offset => 148, klog_value_threshold => 152, compression_algorithm => 160,
    enable_bloom_filter => 164, bloom_fpr => 168, enable_block_indexes => 176,
    index_sample_ratio => 180, block_index_prefix_len => 184, sync_mode => 188,
    sync_interval_us => 192, comparator_name => 200, comparator_ctx_str => 264,
    comparator_fn_cached => 520, comparator_ctx_cached => 528, skip_list_max_level => 536,
    skip_list_probability => 540, default_isolation_level => 544, min_disk_space => 552,
    l1_file_count_trigger => 560, l0_queue_stall_threshold => 564, tombstone_density_trigger => 568,
    tombstone_density_min_entries => 576, use_btree => 584, commit_hook_fn => 592,
    commit_hook_ctx => 600, object_target_file_size => 608, object_lazy_compaction => 616,
    object_prefetch_compaction => 620,
);
layout!(
    CommitOp, 48;
    key => 0, key_size => 8, value => 16, value_size => 24, ttl => 32, is_delete => 40,
);
layout!(
    Stats, 224;
    num_levels => 0, memtable_size => 8, level_sizes => 16, level_num_sstables => 24, config => 32,
    total_keys => 40, total_data_size => 48, avg_key_size => 56, avg_value_size => 64,
    level_key_counts => 72, read_amp => 80, hit_rate => 88, use_btree => 96,
    btree_total_nodes => 104, btree_max_height => 112, btree_avg_height => 120,
    total_tombstones => 128, tombstone_ratio => 136, level_tombstone_counts => 144,
    max_sst_density => 152, max_sst_density_level => 160, written.wal_bytes_written => 168,
    written.flush_bytes_written => 176, written.compaction_bytes_written => 184,
    written.compaction_bytes_read => 192, written.user_bytes_written => 200,
    written.flush_count => 208, written.compaction_count => 216,
);
layout!(
    CacheStats, 56;
    enabled => 0, total_entries => 8, total_bytes => 16, hits => 24, misses => 32, hit_rate => 40,
    num_partitions => 48,
);
layout!(
    DbStats, 304;
    num_column_families => 0, total_memory => 8, available_memory => 16,
    resolved_memory_limit => 24, memory_pressure_level => 32, flush_pending_count => 36,
    total_memtable_bytes => 40, total_immutable_count => 48, total_sstable_count => 52,
    total_data_size_bytes => 56, num_open_sstables => 64, global_seq => 72, txn_memory_bytes => 80,
    compaction_queue_size => 88, flush_queue_size => 96, unified_memtable_enabled => 104,
    unified_memtable_bytes => 112, unified_immutable_count => 120, unified_is_flushing => 124,
    unified_next_cf_index => 128, unified_wal_generation => 136, object_store_enabled => 144,
    object_store_connector => 152, local_cache_bytes_used => 160, local_cache_bytes_max => 168,
    local_cache_num_files => 176, last_uploaded_generation => 184, upload_queue_depth => 192,
    total_uploads => 200, total_upload_failures => 208, replica_mode => 216, primary_epoch => 224,
    seen_epoch => 232, uwal_bytes_written => 240, written.wal_bytes_written => 248,
    written.flush_bytes_written => 256, written.compaction_bytes_written => 264,
    written.compaction_bytes_read => 272, written.user_bytes_written => 280,
    written.flush_count => 288, written.compaction_count => 296,
);
layout!(
    ObjectStoreConfig, 96;
    local_cache_path => 0, local_cache_max_bytes => 8, cache_on_read => 16, cache_on_write => 20,
    max_concurrent_uploads => 24, max_concurrent_downloads => 28, multipart_threshold => 32,
    multipart_part_size => 40, sync_manifest_to_object => 48, replicate_wal => 52,
    wal_upload_sync => 56, wal_sync_threshold_bytes => 64, wal_sync_on_commit => 72,
    replica_mode => 76, replica_sync_interval_us => 80, replica_replay_wal => 88,
);
layout!(
    ObjectStore, 88;
    backend => 0, put => 8, get => 16, range_get => 24, delete_object => 32, exists => 40,
    list => 48, put_if => 56, head => 64, destroy => 72, ctx => 80,
);
