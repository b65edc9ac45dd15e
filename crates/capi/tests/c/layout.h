/* The size of each structure and the place of each of its fields on every 64-bit system, in bytes.
   crates/capi/src/layout.rs has the same numbers for the library. */
#include <stddef.h>

#define AT(field, place) IS(offsetof(tidesdb_config_t, field), place)
IS(sizeof(tidesdb_config_t), 128);
AT(db_path, 0); AT(num_flush_threads, 8); AT(num_compaction_threads, 12); AT(log_level, 16);
AT(block_cache_size, 24); AT(max_open_sstables, 32); AT(log_to_file, 40); AT(log_truncation_at, 48);
AT(max_memory_usage, 56); AT(unified_memtable, 64); AT(unified_memtable_write_buffer_size, 72);
AT(unified_memtable_skip_list_max_level, 80); AT(unified_memtable_skip_list_probability, 84);
AT(unified_memtable_sync_mode, 88); AT(unified_memtable_sync_interval_us, 96);
AT(object_store, 104); AT(object_store_config, 112); AT(max_concurrent_flushes, 120);
AT(finish_compactions_on_close, 124);
#undef AT

#define AT(field, place) IS(offsetof(tidesdb_column_family_config_t, field), place)
IS(sizeof(tidesdb_column_family_config_t), 624);
AT(name, 0); AT(write_buffer_size, 128); AT(level_size_ratio, 136); AT(min_levels, 144);
AT(dividing_level_offset, 148); AT(klog_value_threshold, 152); AT(compression_algorithm, 160);
AT(enable_bloom_filter, 164); AT(bloom_fpr, 168); AT(enable_block_indexes, 176);
AT(index_sample_ratio, 180); AT(block_index_prefix_len, 184); AT(sync_mode, 188);
AT(sync_interval_us, 192); AT(comparator_name, 200); AT(comparator_ctx_str, 264);
AT(comparator_fn_cached, 520); AT(comparator_ctx_cached, 528); AT(skip_list_max_level, 536);
AT(skip_list_probability, 540); AT(default_isolation_level, 544); AT(min_disk_space, 552);
AT(l1_file_count_trigger, 560); AT(l0_queue_stall_threshold, 564);
AT(tombstone_density_trigger, 568); AT(tombstone_density_min_entries, 576); AT(use_btree, 584);
AT(commit_hook_fn, 592); AT(commit_hook_ctx, 600); AT(object_target_file_size, 608);
AT(object_lazy_compaction, 616); AT(object_prefetch_compaction, 620);
#undef AT

#define AT(field, place) IS(offsetof(tidesdb_commit_op_t, field), place)
IS(sizeof(tidesdb_commit_op_t), 48);
AT(key, 0); AT(key_size, 8); AT(value, 16); AT(value_size, 24); AT(ttl, 32); AT(is_delete, 40);
#undef AT

#define AT(field, place) IS(offsetof(tidesdb_stats_t, field), place)
IS(sizeof(tidesdb_stats_t), 224);
AT(num_levels, 0); AT(memtable_size, 8); AT(level_sizes, 16); AT(level_num_sstables, 24);
AT(config, 32); AT(total_keys, 40); AT(total_data_size, 48); AT(avg_key_size, 56);
AT(avg_value_size, 64); AT(level_key_counts, 72); AT(read_amp, 80); AT(hit_rate, 88);
AT(use_btree, 96); AT(btree_total_nodes, 104); AT(btree_max_height, 112); AT(btree_avg_height, 120);
AT(total_tombstones, 128); AT(tombstone_ratio, 136); AT(level_tombstone_counts, 144);
AT(max_sst_density, 152); AT(max_sst_density_level, 160); AT(wal_bytes_written, 168);
AT(flush_bytes_written, 176); AT(compaction_bytes_written, 184); AT(compaction_bytes_read, 192);
AT(user_bytes_written, 200); AT(flush_count, 208); AT(compaction_count, 216);
#undef AT

#define AT(field, place) IS(offsetof(tidesdb_cache_stats_t, field), place)
IS(sizeof(tidesdb_cache_stats_t), 56);
AT(enabled, 0); AT(total_entries, 8); AT(total_bytes, 16); AT(hits, 24); AT(misses, 32);
AT(hit_rate, 40); AT(num_partitions, 48);
#undef AT

#define AT(field, place) IS(offsetof(tidesdb_db_stats_t, field), place)
IS(sizeof(tidesdb_db_stats_t), 304);
AT(num_column_families, 0); AT(total_memory, 8); AT(available_memory, 16);
AT(resolved_memory_limit, 24); AT(memory_pressure_level, 32); AT(flush_pending_count, 36);
AT(total_memtable_bytes, 40); AT(total_immutable_count, 48); AT(total_sstable_count, 52);
AT(total_data_size_bytes, 56); AT(num_open_sstables, 64); AT(global_seq, 72);
AT(txn_memory_bytes, 80); AT(compaction_queue_size, 88); AT(flush_queue_size, 96);
AT(unified_memtable_enabled, 104); AT(unified_memtable_bytes, 112);
AT(unified_immutable_count, 120); AT(unified_is_flushing, 124); AT(unified_next_cf_index, 128);
AT(unified_wal_generation, 136); AT(object_store_enabled, 144); AT(object_store_connector, 152);
AT(local_cache_bytes_used, 160); AT(local_cache_bytes_max, 168); AT(local_cache_num_files, 176);
AT(last_uploaded_generation, 184); AT(upload_queue_depth, 192); AT(total_uploads, 200);
AT(total_upload_failures, 208); AT(replica_mode, 216); AT(primary_epoch, 224); AT(seen_epoch, 232);
AT(uwal_bytes_written, 240); AT(wal_bytes_written, 248); AT(flush_bytes_written, 256);
AT(compaction_bytes_written, 264); AT(compaction_bytes_read, 272); AT(user_bytes_written, 280);
AT(flush_count, 288); AT(compaction_count, 296);
#undef AT

#define AT(field, place) IS(offsetof(tidesdb_objstore_config_t, field), place)
IS(sizeof(tidesdb_objstore_config_t), 96);
AT(local_cache_path, 0); AT(local_cache_max_bytes, 8); AT(cache_on_read, 16);
AT(cache_on_write, 20); AT(max_concurrent_uploads, 24); AT(max_concurrent_downloads, 28);
AT(multipart_threshold, 32); AT(multipart_part_size, 40); AT(sync_manifest_to_object, 48);
AT(replicate_wal, 52); AT(wal_upload_sync, 56); AT(wal_sync_threshold_bytes, 64);
AT(wal_sync_on_commit, 72); AT(replica_mode, 76); AT(replica_sync_interval_us, 80);
AT(replica_replay_wal, 88);
#undef AT

#define AT(field, place) IS(offsetof(struct tidesdb_objstore_t, field), place)
IS(sizeof(struct tidesdb_objstore_t), 88);
AT(backend, 0); AT(put, 8); AT(get, 16); AT(range_get, 24); AT(delete_object, 32); AT(exists, 40);
AT(list, 48); AT(put_if, 56); AT(head, 64); AT(destroy, 72); AT(ctx, 80);
#undef AT

#define AT(field, place) IS(offsetof(tidesdb_objstore_s3_config_t, field), place)
IS(sizeof(tidesdb_objstore_s3_config_t), 88);
AT(endpoint, 0); AT(bucket, 8); AT(prefix, 16); AT(access_key, 24); AT(secret_key, 32);
AT(region, 40); AT(use_ssl, 48); AT(use_path_style, 52); AT(tls_ca_path, 56);
AT(tls_insecure_skip_verify, 64); AT(multipart_threshold, 72); AT(multipart_part_size, 80);
#undef AT
