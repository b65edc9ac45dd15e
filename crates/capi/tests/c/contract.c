/* The numbers, defaults and corrections that the contract states. The argument is an empty
   directory. */
#define _GNU_SOURCE
#include <tidesdb/objstore_s3.h>

#include <limits.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "helpers.h"

/* As the storage engine of a server declares it for itself. */
extern tidesdb_objstore_t *tidesdb_objstore_s3_create(const char *endpoint, const char *bucket,
                                                      const char *prefix, const char *access_key,
                                                      const char *secret_key, const char *region,
                                                      int use_ssl, int use_path_style);

#define IS(name, number) _Static_assert((name) == (number), #name)

IS(TDB_SUCCESS, 0);
IS(TDB_ERR_MEMORY, -1);
IS(TDB_ERR_INVALID_ARGS, -2);
IS(TDB_ERR_NOT_FOUND, -3);
IS(TDB_ERR_IO, -4);
IS(TDB_ERR_CORRUPTION, -5);
IS(TDB_ERR_EXISTS, -6);
IS(TDB_ERR_CONFLICT, -7);
IS(TDB_ERR_TOO_LARGE, -8);
IS(TDB_ERR_MEMORY_LIMIT, -9);
IS(TDB_ERR_INVALID_DB, -10);
IS(TDB_ERR_UNKNOWN, -11);
IS(TDB_ERR_LOCKED, -12);
IS(TDB_ERR_READONLY, -13);
IS(TDB_ERR_BUSY, -14);
IS(TDB_ERR_PRECONDITION, -15);
IS(TDB_MAX_COMPARATOR_NAME, 64);
IS(TDB_MAX_COMPARATOR_CTX, 256);
IS(TDB_MAX_CF_NAME_LEN, 128);
IS(TDB_OBJSTORE_ETAG_MAX, 128);
IS(TDB_BACKEND_FS, 0);
IS(TDB_BACKEND_S3, 1);
IS(TDB_BACKEND_UNKNOWN, 99);
IS(TDB_LOG_DEBUG, 0);
IS(TDB_LOG_INFO, 1);
IS(TDB_LOG_WARN, 2);
IS(TDB_LOG_ERROR, 3);
IS(TDB_LOG_FATAL, 4);
IS(TDB_LOG_NONE, 99);
IS(TDB_ISOLATION_READ_UNCOMMITTED, 0);
IS(TDB_ISOLATION_READ_COMMITTED, 1);
IS(TDB_ISOLATION_REPEATABLE_READ, 2);
IS(TDB_ISOLATION_SNAPSHOT, 3);
IS(TDB_ISOLATION_SERIALIZABLE, 4);
IS(TDB_COMPRESS_NONE, 0);
IS(TDB_COMPRESS_SNAPPY, 1);
IS(TDB_COMPRESS_LZ4, 2);
IS(TDB_COMPRESS_ZSTD, 3);
IS(TDB_COMPRESS_LZ4_FAST, 4);
IS(TDB_SYNC_NONE, 0);
IS(TDB_SYNC_FULL, 1);
IS(TDB_SYNC_INTERVAL, 2);
IS(TDB_PUT_OVERWRITE, 0);
IS(TDB_PUT_IF_NONE_MATCH, 1);
IS(TDB_PUT_IF_MATCH, 2);
IS(TDB_DEFAULT_WRITE_BUFFER_SIZE, 67108864);
IS(TDB_DEFAULT_BLOCK_CACHE_SIZE, 67108864);
IS(TDB_DEFAULT_LEVEL_SIZE_RATIO, 10);
IS(TDB_DEFAULT_MIN_LEVELS, 1);
IS(TDB_DEFAULT_DIVIDING_LEVEL_OFFSET, 1);
IS(TDB_DEFAULT_COMPACTION_THREAD_POOL_SIZE, 2);
IS(TDB_DEFAULT_FLUSH_THREAD_POOL_SIZE, 2);
IS(TDB_DEFAULT_MAX_CONCURRENT_FLUSHES, 2);
IS(TDB_DEFAULT_KLOG_VALUE_THRESHOLD, 512);
IS(TDB_DEFAULT_INDEX_SAMPLE_RATIO, 1);
IS(TDB_DEFAULT_BLOCK_INDEX_PREFIX_LEN, 16);
IS(TDB_DEFAULT_MIN_DISK_SPACE, 104857600);
IS(TDB_DEFAULT_MAX_OPEN_SSTABLES, 256);
IS(TDB_DEFAULT_SYNC_INTERVAL_US, 128000);
IS(TDB_DEFAULT_LOG_FILE_TRUNCATION, 25165824);
IS(TDB_FLUSH_THREADS_AUTO_CAP, 4);
IS(TDB_SKIP_LIST_MAX_LEVEL, 12);
IS(TDB_MAX_LEVELS, 32);
IS(TDB_DIR_PERMISSIONS, 0755);
IS(TDB_NODE_ID_MAX, 64);
IS(TDB_DISTINCT_KEYS_UNKNOWN, UINT64_MAX);

#include "layout.h"

#ifdef TIDESDB_HAS_S3
#error "the library has no S3 connector"
#endif
#if !defined(TIDESDB_HAVE_SNAPPY) || !defined(TIDESDB_HAVE_LZ4) || !defined(TIDESDB_HAVE_ZSTD)
#error "the library has all codecs"
#endif

static void defaults_of_a_database(void)
{
    const tidesdb_config_t config = tidesdb_default_config();
    const tidesdb_objstore_config_t store = tidesdb_objstore_default_config();
    CHECK(strcmp(TIDESDB_VERSION, "9.3.14") == 0);
    CHECK(strlen(TIDESDB_RUST_VERSION) > 0);
    CHECK(strcmp(config.db_path, "./tidesdb") == 0);
    CHECK(config.num_flush_threads == 0 && config.num_compaction_threads == 2);
    CHECK(config.log_level == TDB_LOG_INFO && config.log_to_file == 0);
    CHECK(config.block_cache_size == 67108864 && config.max_open_sstables == 256);
    CHECK(config.log_truncation_at == 25165824 && config.max_memory_usage == 0);
    CHECK(config.unified_memtable == 0 && config.unified_memtable_write_buffer_size == 0);
    CHECK(config.unified_memtable_skip_list_max_level == 0);
    CHECK(config.unified_memtable_skip_list_probability == 0.0f);
    CHECK(config.unified_memtable_sync_mode == TDB_SYNC_NONE);
    CHECK(config.unified_memtable_sync_interval_us == 0);
    CHECK(config.object_store == NULL && config.object_store_config == NULL);
    CHECK(config.max_concurrent_flushes == 0 && config.finish_compactions_on_close == 0);

    CHECK(store.local_cache_path == NULL && store.local_cache_max_bytes == 0);
    CHECK(store.cache_on_read == 1 && store.cache_on_write == 1);
    CHECK(store.max_concurrent_uploads == 4 && store.max_concurrent_downloads == 8);
    CHECK(store.multipart_threshold == 67108864 && store.multipart_part_size == 8388608);
    CHECK(store.sync_manifest_to_object == 1 && store.replicate_wal == 1);
    CHECK(store.wal_upload_sync == 0 && store.wal_sync_threshold_bytes == 1048576);
    CHECK(store.wal_sync_on_commit == 0 && store.replica_mode == 0);
    CHECK(store.replica_sync_interval_us == 5000000 && store.replica_replay_wal == 1);
    CHECK(strcmp(tidesdb_objstore_backend_name(TDB_BACKEND_FS), "fs") == 0);
    CHECK(strcmp(tidesdb_objstore_backend_name(TDB_BACKEND_S3), "s3") == 0);
    CHECK(strcmp(tidesdb_objstore_backend_name((tidesdb_objstore_backend_t)7), "unknown") == 0);
}

static void defaults_of_a_family(void)
{
    const tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    CHECK(config.name[0] == 0 && config.comparator_name[0] == 0);
    CHECK(config.comparator_ctx_str[0] == 0);
    CHECK(config.write_buffer_size == 67108864 && config.level_size_ratio == 10);
    CHECK(config.min_levels == 1 && config.dividing_level_offset == 1);
    CHECK(config.klog_value_threshold == 512);
    CHECK(config.compression_algorithm == TDB_COMPRESS_LZ4);
    CHECK(config.enable_bloom_filter == 1 && config.bloom_fpr == TDB_DEFAULT_BLOOM_FPR);
    CHECK(config.enable_block_indexes == 1 && config.index_sample_ratio == 1);
    CHECK(config.block_index_prefix_len == 16 && config.sync_mode == TDB_SYNC_NONE);
    CHECK(config.sync_interval_us == 128000);
    CHECK(config.comparator_fn_cached == NULL && config.comparator_ctx_cached == NULL);
    CHECK(config.skip_list_max_level == 12);
    CHECK(config.skip_list_probability == TDB_SKIP_LIST_PROBABILITY);
    CHECK(config.default_isolation_level == TDB_ISOLATION_READ_COMMITTED);
    CHECK(config.min_disk_space == 104857600 && config.l1_file_count_trigger == 4);
    CHECK(config.l0_queue_stall_threshold == 10 && config.tombstone_density_trigger == 0.0);
    CHECK(config.tombstone_density_min_entries == 1024 && config.use_btree == 0);
    CHECK(config.commit_hook_fn == NULL && config.commit_hook_ctx == NULL);
    CHECK(config.object_target_file_size == 0 && config.object_lazy_compaction == 0);
    CHECK(config.object_prefetch_compaction == 1);
}

static void codecs(void)
{
    int codec;
    for (codec = TDB_COMPRESS_NONE; codec <= TDB_COMPRESS_LZ4_FAST; codec++)
        CHECK(tidesdb_compression_available((compression_algorithm)codec) == 1);
    CHECK(tidesdb_compression_available((compression_algorithm)-1) == 0);
    CHECK(tidesdb_compression_available((compression_algorithm)5) == 0);
}

/* Raised to the hard limit at most, and never lowered. */
static void open_file_limit(void)
{
    struct rlimit limit;
    long soft;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    soft = (long)limit.rlim_cur;
    CHECK(tidesdb_raise_open_file_limit(0) == soft && tidesdb_raise_open_file_limit(-5) == soft);
    CHECK(tidesdb_raise_open_file_limit(10) == soft);
    limit.rlim_cur = 64;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(tidesdb_raise_open_file_limit(100) == 100);
    CHECK(tidesdb_raise_open_file_limit(LONG_MAX) == (long)limit.rlim_max);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == limit.rlim_max);
}

static tidesdb_column_family_config_t config_of(tidesdb_column_family_t *cf)
{
    tidesdb_column_family_config_t config;
    tidesdb_stats_t *stats = NULL;
    CHECK_OK(tidesdb_get_stats(cf, &stats));
    config = *stats->config;
    tidesdb_free_stats(stats);
    return config;
}

/* What a family is created with is put in order; what an update may change is changed, and nothing
   else; all of it is there after a reopening. */
static void configs(char *path)
{
    tidesdb_t *db = open_in(path);
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config(), found;
    tidesdb_column_family_t *cf;
    struct stat directory;
    int round;

    CHECK(stat(path, &directory) == 0 && (directory.st_mode & 0777 & ~0755) == 0);
    config.min_levels = 0;
    config.index_sample_ratio = -3;
    config.block_index_prefix_len = 3;
    config.l0_queue_stall_threshold = 0;
    config.tombstone_density_min_entries = 0;
    strcpy(config.comparator_ctx_str, "context");
    strcpy(config.name, "ignored");
    CHECK_OK(tidesdb_create_column_family(db, "cf", &config));
    /* The structure is copied. */
    memset(&config, 0, sizeof config);
    cf = tidesdb_get_column_family(db, "cf");
    found = config_of(cf);
    CHECK(strcmp(found.name, "cf") == 0 && strcmp(found.comparator_ctx_str, "context") == 0);
    CHECK(found.min_levels == 1 && found.index_sample_ratio == 1);
    CHECK(found.block_index_prefix_len == 16 && found.l0_queue_stall_threshold == 1);
    CHECK(found.tombstone_density_min_entries == 1024);

    config = found;
    config.write_buffer_size = 1 << 20;
    config.level_size_ratio = 7;
    config.min_levels = 3;
    config.dividing_level_offset = 2;
    config.klog_value_threshold = 99;
    config.compression_algorithm = TDB_COMPRESS_ZSTD;
    config.enable_bloom_filter = 0;
    config.bloom_fpr = 0.125;
    config.enable_block_indexes = 0;
    config.index_sample_ratio = 5;
    config.block_index_prefix_len = 8;
    config.sync_mode = TDB_SYNC_INTERVAL;
    config.sync_interval_us = 777;
    config.default_isolation_level = TDB_ISOLATION_SERIALIZABLE;
    config.skip_list_max_level = 9;
    config.skip_list_probability = 0.5f;
    config.l1_file_count_trigger = 6;
    config.l0_queue_stall_threshold = 4;
    config.tombstone_density_trigger = 0.75;
    config.tombstone_density_min_entries = 55;
    config.min_disk_space = 12345;
    /* These may not change. */
    strcpy(config.name, "other");
    strcpy(config.comparator_name, "reverse");
    strcpy(config.comparator_ctx_str, "other");
    config.use_btree = 1;
    config.object_lazy_compaction = 1;
    config.object_prefetch_compaction = 0;
    config.object_target_file_size = 5;
    CHECK_OK(tidesdb_cf_update_runtime_config(cf, &config, 1));
    for (round = 0; round < 2; round++)
    {
        found = config_of(cf);
        CHECK(found.write_buffer_size == 1 << 20 && found.level_size_ratio == 7);
        CHECK(found.min_levels == 3 && found.dividing_level_offset == 2);
        CHECK(found.klog_value_threshold == 99 && found.enable_bloom_filter == 0);
        CHECK(found.compression_algorithm == TDB_COMPRESS_ZSTD && found.bloom_fpr == 0.125);
        CHECK(found.enable_block_indexes == 0 && found.index_sample_ratio == 5);
        CHECK(found.block_index_prefix_len == 8 && found.sync_mode == TDB_SYNC_INTERVAL);
        CHECK(found.sync_interval_us == 777 && found.skip_list_max_level == 9);
        CHECK(found.default_isolation_level == TDB_ISOLATION_SERIALIZABLE);
        CHECK(found.skip_list_probability == 0.5f && found.l1_file_count_trigger == 6);
        CHECK(found.l0_queue_stall_threshold == 4 && found.tombstone_density_trigger == 0.75);
        CHECK(found.tombstone_density_min_entries == 55 && found.min_disk_space == 12345);
        CHECK(strcmp(found.name, "cf") == 0 && found.use_btree == 0);
        CHECK(found.comparator_name[0] == 0 && strcmp(found.comparator_ctx_str, "context") == 0);
        CHECK(found.object_lazy_compaction == 0 && found.object_prefetch_compaction == 1);
        CHECK(found.object_target_file_size == 0);
        CHECK_OK(tidesdb_close(db));
        db = open_in(path);
        cf = tidesdb_get_column_family(db, "cf");
    }
    CHECK_OK(tidesdb_close(db));
}

/* Every key of the file, as text and as what is read; what is unknown or of the wrong form is
   passed over. */
static void ini(const char *directory)
{
    static const char text[] =
        "[other]\nmin_levels = 9\n[cf]\nwrite_buffer_size = 8001\nlevel_size_ratio = 12\n"
        "min_levels = 2\ndividing_level_offset = 3\nvalue_threshold = 77\n"
        "compression_algorithm = LZ4_FAST\nenable_bloom_filter = 0\nbloom_fpr = 0.500000\n"
        "enable_block_indexes = 0\nindex_sample_ratio = 4\nblock_index_prefix_len = 32\n"
        "sync_mode = 2\nsync_interval_us = 5555\nskip_list_max_level = 10\n"
        "skip_list_probability = 0.125000\ndefault_isolation_level = 3\n"
        "l1_file_count_trigger = 8\nl0_queue_stall_threshold = 20\n"
        "tombstone_density_trigger = 0.250000\ntombstone_density_min_entries = 99\n"
        "min_disk_space = 4242\nuse_btree = 1\nobject_lazy_compaction = 1\n"
        "object_prefetch_compaction = 0\ncomparator_name = reverse\ncomparator_ctx_str = a ; b\n"
        "unheard_of = 1\nmin_levels = two\ncompression_algorithm = BROTLI\n"
        "default_isolation_level = 5\n";
    tidesdb_column_family_config_t first, second;
    char path[4096], written[sizeof text + 1000];
    FILE *file;
    size_t size;
    int round;

    snprintf(path, sizeof path, "%s/all.ini", directory);
    file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    CHECK_OK(tidesdb_cf_config_load_from_ini(path, "cf", &first));
    for (round = 0; round < 2; round++)
    {
        CHECK(first.write_buffer_size == 8001 && first.level_size_ratio == 12);
        CHECK(first.min_levels == 2 && first.dividing_level_offset == 3);
        CHECK(first.klog_value_threshold == 77 && first.enable_bloom_filter == 0);
        CHECK(first.compression_algorithm == TDB_COMPRESS_LZ4_FAST && first.bloom_fpr == 0.5);
        CHECK(first.enable_block_indexes == 0 && first.index_sample_ratio == 4);
        CHECK(first.block_index_prefix_len == 32 && first.sync_mode == TDB_SYNC_INTERVAL);
        CHECK(first.sync_interval_us == 5555 && first.skip_list_max_level == 10);
        CHECK(first.skip_list_probability == 0.125f);
        CHECK(first.default_isolation_level == TDB_ISOLATION_SNAPSHOT);
        CHECK(first.l1_file_count_trigger == 8 && first.l0_queue_stall_threshold == 20);
        CHECK(first.tombstone_density_trigger == 0.25);
        CHECK(first.tombstone_density_min_entries == 99 && first.min_disk_space == 4242);
        CHECK(first.use_btree == 1 && first.object_lazy_compaction == 1);
        CHECK(first.object_prefetch_compaction == 0);
        CHECK(strcmp(first.comparator_name, "reverse") == 0);
        CHECK(strcmp(first.comparator_ctx_str, "a ; b") == 0);
        CHECK_OK(tidesdb_cf_config_save_to_ini(path, "cf", &first));
        CHECK_OK(tidesdb_cf_config_load_from_ini(path, "cf", &second));
        first = second;
    }
    /* The file has one section, and its lines are those that were read. */
    file = fopen(path, "r");
    CHECK(file != NULL);
    size = fread(written, 1, sizeof written - 1, file);
    CHECK(fclose(file) == 0);
    written[size] = 0;
    CHECK(strncmp(written, strstr(text, "[cf]"), size) == 0 && strchr(written + 1, '[') == NULL);
    /* Written even when it is empty; the context is not. */
    first = tidesdb_default_column_family_config();
    CHECK_OK(tidesdb_cf_config_save_to_ini(path, "cf", &first));
    file = fopen(path, "r");
    CHECK(file != NULL);
    size = fread(written, 1, sizeof written - 1, file);
    CHECK(fclose(file) == 0);
    written[size] = 0;
    CHECK(strstr(written, "comparator_name =") != NULL && strstr(written, "ctx") == NULL);
}

int main(int count, char **arguments)
{
    char path[4096];

    CHECK(count == 2);
    snprintf(path, sizeof path, "%s/db", arguments[1]);
    defaults_of_a_database();
    defaults_of_a_family();
    codecs();
    configs(path);
    ini(arguments[1]);
    open_file_limit();
    puts("all checks hold");
    return 0;
}
