/* Uses the functions of the interface, their errors and their rules of ownership. The argument is
   an empty directory. */
#include <pthread.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

static void transactions(tidesdb_t *db, tidesdb_column_family_t *cf)
{
    tidesdb_txn_t *txn = NULL, *other;
    uint8_t *value = NULL;
    size_t size = 0;

    CHECK_CODE(tidesdb_txn_begin(NULL, &txn), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_txn_begin(db, NULL), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_txn_begin_with_isolation(db, (tidesdb_isolation_level_t)9, &txn),
               TDB_ERR_INVALID_ARGS);
    CHECK_OK(tidesdb_txn_begin(db, &txn));
    CHECK_CODE(tidesdb_txn_put(txn, cf, NULL, 1, bytes("v"), 1, 0), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_txn_put(txn, cf, bytes("k"), 0, bytes("v"), 1, 0), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_txn_put(txn, cf, bytes("k"), 1, NULL, 0, 0), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_txn_put(txn, NULL, bytes("k"), 1, bytes("v"), 1, 0), TDB_ERR_INVALID_ARGS);
    CHECK_OK(put(txn, cf, "a", "1"));
    CHECK_OK(put(txn, cf, "b", "2"));
    CHECK(holds(txn, cf, "a", "1"));
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK_CODE(tidesdb_txn_commit(txn), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(put(txn, cf, "c", "3"), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_txn_rollback(txn), TDB_ERR_INVALID_ARGS);
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT));
    CHECK_CODE(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT), TDB_ERR_INVALID_ARGS);

    /* First committer wins. */
    other = begin(db, TDB_ISOLATION_SNAPSHOT);
    CHECK_OK(put(txn, cf, "a", "10"));
    CHECK_OK(put(other, cf, "a", "11"));
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK_CODE(tidesdb_txn_commit(other), TDB_ERR_CONFLICT);
    CHECK_OK(tidesdb_txn_rollback(other));
    CHECK_OK(tidesdb_txn_rollback(other));
    tidesdb_txn_free(other);

    /* Savepoints. */
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    CHECK_CODE(tidesdb_txn_rollback_to_savepoint(txn, "none"), TDB_ERR_INVALID_ARGS);
    CHECK_OK(put(txn, cf, "a", "20"));
    CHECK_OK(tidesdb_txn_savepoint(txn, "one"));
    CHECK_CODE(tidesdb_txn_rollback_to_savepoint(txn, "none"), TDB_ERR_NOT_FOUND);
    CHECK_OK(tidesdb_txn_delete(txn, cf, bytes("a"), 1));
    CHECK(holds(txn, cf, "a", NULL));
    CHECK_OK(tidesdb_txn_savepoint(txn, "two"));
    CHECK_OK(tidesdb_txn_release_savepoint(txn, "two"));
    CHECK_OK(tidesdb_txn_rollback_to_savepoint(txn, "one"));
    CHECK(holds(txn, cf, "a", "20"));
    CHECK_OK(tidesdb_txn_rollback(txn));
    tidesdb_txn_free(txn);
    tidesdb_txn_free(NULL);

    /* Empty values, expiry, and the reads that leave no trace. */
    txn = begin(db, TDB_ISOLATION_REPEATABLE_READ);
    CHECK_OK(tidesdb_txn_put(txn, cf, bytes("empty"), 5, bytes(""), 0, -1));
    CHECK_OK(tidesdb_txn_put(txn, cf, bytes("past"), 4, bytes("v"), 1, 1));
    CHECK(holds(txn, cf, "past", NULL));
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_REPEATABLE_READ));
    CHECK_OK(tidesdb_txn_get_notrack(txn, cf, bytes("empty"), 5, &value, &size));
    CHECK(value != NULL && size == 0);
    tidesdb_free(value);
    CHECK_CODE(tidesdb_txn_contains(txn, cf, bytes("past"), 4), TDB_ERR_NOT_FOUND);
    CHECK_OK(tidesdb_txn_contains(txn, cf, bytes("b"), 1));
    other = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK_OK(put(other, cf, "b", "changed"));
    CHECK_OK(tidesdb_txn_commit(other));
    tidesdb_txn_free(other);
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_REPEATABLE_READ));
    CHECK(holds(txn, cf, "b", "changed"));
    other = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK_OK(put(other, cf, "b", "again"));
    CHECK_OK(tidesdb_txn_single_delete(other, cf, bytes("empty"), 5));
    CHECK_OK(tidesdb_txn_commit(other));
    tidesdb_txn_free(other);
    CHECK_CODE(tidesdb_txn_commit(txn), TDB_ERR_CONFLICT);
    tidesdb_txn_free(txn);
}

static int stands_on(tidesdb_iter_t *iter, const char *key, const char *value)
{
    uint8_t *found_key = NULL, *found = NULL;
    size_t key_size = 0, size = 0;
    if (!tidesdb_iter_valid(iter)) return 0;
    CHECK_OK(tidesdb_iter_key_value(iter, &found_key, &key_size, &found, &size));
    return key_size == strlen(key) && memcmp(found_key, key, key_size) == 0 &&
           size == strlen(value) && memcmp(found, value, size) == 0;
}

static void iterators(tidesdb_t *db, tidesdb_column_family_t *cf)
{
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    tidesdb_iter_t *iter = NULL;
    uint8_t *key = NULL;
    size_t size = 0;
    int n;

    for (n = 0; n < 600; n++)
    {
        char name[16];
        snprintf(name, sizeof name, "it%04d", n * 2);
        CHECK_OK(put(txn, cf, name, name));
    }
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    CHECK_OK(tidesdb_txn_delete(txn, cf, bytes("it0004"), 6));
    CHECK_OK(put(txn, cf, "it0005", "own"));
    CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
    CHECK(tidesdb_iter_valid(iter) == 0 && tidesdb_iter_valid(NULL) == 0);
    CHECK_CODE(tidesdb_iter_next(iter), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_iter_key(iter, &key, &size), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_iter_seek(iter, NULL, 1), TDB_ERR_INVALID_ARGS);
    CHECK_OK(tidesdb_iter_seek(iter, bytes("it0003"), 6));
    CHECK(stands_on(iter, "it0005", "own"));
    CHECK_OK(tidesdb_iter_next(iter));
    CHECK(stands_on(iter, "it0006", "it0006"));
    CHECK_OK(tidesdb_iter_prev(iter));
    CHECK_OK(tidesdb_iter_prev(iter));
    CHECK(stands_on(iter, "it0002", "it0002"));
    CHECK_OK(tidesdb_iter_seek_for_prev(iter, bytes("it0501"), 6));
    CHECK(stands_on(iter, "it0500", "it0500"));
    CHECK_OK(tidesdb_iter_seek_to_last(iter));
    CHECK(stands_on(iter, "it1198", "it1198"));
    CHECK_CODE(tidesdb_iter_next(iter), TDB_ERR_NOT_FOUND);
    CHECK(tidesdb_iter_valid(iter) == 0);
    CHECK_CODE(tidesdb_iter_next(iter), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_iter_seek(iter, bytes("z"), 1), TDB_ERR_NOT_FOUND);
    CHECK_OK(tidesdb_iter_seek_to_first(iter));
    CHECK(stands_on(iter, "a", "10"));
    CHECK_CODE(tidesdb_iter_prev(iter), TDB_ERR_NOT_FOUND);
    tidesdb_iter_free(iter);
    tidesdb_iter_free(NULL);
    tidesdb_txn_free(txn);
}

struct seen
{
    int calls;
    int operations;
    int deletes;
    uint64_t sequence;
};

static int hook(const tidesdb_commit_op_t *ops, int num_ops, uint64_t commit_seq, void *ctx)
{
    struct seen *seen = ctx;
    int n;
    for (n = 0; n < num_ops; n++)
    {
        CHECK(ops[n].key != NULL && ops[n].key_size > 0);
        CHECK((ops[n].value == NULL) == (ops[n].is_delete == 1));
        seen->deletes += ops[n].is_delete;
    }
    CHECK(commit_seq > seen->sequence);
    seen->sequence = commit_seq;
    seen->calls++;
    seen->operations += num_ops;
    return 7;
}

static void hooks(tidesdb_t *db, tidesdb_column_family_t *cf)
{
    struct seen seen = {0, 0, 0, 0};
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK_OK(tidesdb_cf_set_commit_hook(cf, hook, &seen));
    CHECK_OK(put(txn, cf, "hooked", "1"));
    CHECK_OK(put(txn, cf, "hooked", "2"));
    CHECK_OK(tidesdb_txn_delete(txn, cf, bytes("hooked"), 6));
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK(seen.calls == 1 && seen.operations == 3 && seen.deletes == 1);
    CHECK_OK(tidesdb_cf_set_commit_hook(cf, NULL, NULL));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    CHECK_OK(put(txn, cf, "hooked", "3"));
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK(seen.calls == 1);
    tidesdb_txn_free(txn);
}

static void wait_until_idle(tidesdb_column_family_t *cf)
{
    WAIT_FOR(!tidesdb_is_flushing(cf) && !tidesdb_is_compacting(cf));
}

static void statistics(tidesdb_t *db, tidesdb_column_family_t *cf)
{
    tidesdb_stats_t *stats = NULL;
    tidesdb_db_stats_t db_stats;
    tidesdb_cache_stats_t cache;
    uint64_t keys = 0;
    double wide = 0, narrow = 0, outside = 0;

    CHECK_CODE(tidesdb_get_stats(cf, NULL), TDB_ERR_INVALID_ARGS);
    CHECK_OK(tidesdb_flush_memtable(cf));
    wait_until_idle(cf);
    CHECK_OK(tidesdb_get_stats(cf, &stats));
    CHECK(stats->num_levels >= 1 && stats->total_keys >= 600 && stats->total_data_size > 0);
    CHECK(stats->level_num_sstables[0] == 1 && stats->level_sizes[0] > 0);
    CHECK(stats->avg_key_size > 0 && stats->read_amp >= 1.0 && stats->flush_count == 1);
    CHECK(stats->wal_bytes_written > stats->user_bytes_written);
    CHECK(strcmp(stats->config->name, "default") == 0 && stats->config->min_levels == 3);
    CHECK(stats->num_levels >= 3);
    tidesdb_free_stats(stats);
    tidesdb_free_stats(NULL);
    CHECK_OK(tidesdb_cf_estimate_cardinality(cf, &keys));
    CHECK(keys >= 600 && keys < 700);
    CHECK_OK(tidesdb_range_cost(cf, bytes("a"), 1, bytes("z"), 1, &wide));
    CHECK_OK(tidesdb_range_cost(cf, bytes("it0010"), 6, bytes("it0008"), 6, &narrow));
    CHECK_OK(tidesdb_range_cost(cf, bytes("zz"), 2, bytes("zzz"), 3, &outside));
    CHECK(wide >= narrow && narrow > 0 && outside < wide);
    CHECK_CODE(tidesdb_range_cost(cf, bytes("a"), 0, bytes("z"), 1, &wide), TDB_ERR_INVALID_ARGS);
    memset(&db_stats, 0xff, sizeof db_stats);
    CHECK_OK(tidesdb_get_db_stats(db, &db_stats));
    CHECK(db_stats.num_column_families == 1 && db_stats.global_seq > 0);
    CHECK(db_stats.memory_pressure_level == 0 && db_stats.object_store_connector == NULL);
    CHECK(db_stats.total_sstable_count == 1 && db_stats.total_memory > 0);
    CHECK_OK(tidesdb_get_cache_stats(db, &cache));
    CHECK(cache.enabled == 1 && cache.num_partitions > 0);
}

static void families(tidesdb_t *db)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config(), before;
    tidesdb_column_family_t *cf;
    tidesdb_stats_t *stats = NULL;
    char **names = NULL;
    int count = -1;
    char long_name[129];

    CHECK_OK(tidesdb_list_column_families(db, &names, &count));
    CHECK(count == 0 && names == NULL);
    CHECK(tidesdb_get_column_family(db, "default") == NULL);
    memset(long_name, 'x', 128);
    long_name[128] = 0;
    CHECK_CODE(tidesdb_create_column_family(db, long_name, &config), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_create_column_family(db, "", &config), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_create_column_family(db, "x", NULL), TDB_ERR_INVALID_ARGS);
    config.min_levels = 33;
    CHECK_CODE(tidesdb_create_column_family(db, "x", &config), TDB_ERR_INVALID_ARGS);
    config.min_levels = 3;
    config.sync_mode = TDB_SYNC_INTERVAL;
    config.sync_interval_us = 0;
    CHECK_CODE(tidesdb_create_column_family(db, "x", &config), TDB_ERR_INVALID_ARGS);
    config.sync_mode = TDB_SYNC_NONE;
    CHECK_OK(tidesdb_create_column_family(db, "default", &config));
    CHECK_CODE(tidesdb_create_column_family(db, "default", &config), TDB_ERR_EXISTS);
    cf = tidesdb_get_column_family(db, "default");
    CHECK(cf != NULL && cf == tidesdb_get_column_family(db, "default"));
    CHECK_OK(tidesdb_create_column_family(db, "gone", &config));
    CHECK_OK(tidesdb_create_column_family(db, "gone too", &config));
    CHECK_OK(tidesdb_list_column_families(db, &names, &count));
    CHECK(count == 3);
    while (count > 0) tidesdb_free(names[--count]);
    tidesdb_free(names);
    CHECK_OK(tidesdb_drop_column_family(db, "gone"));
    CHECK_CODE(tidesdb_drop_column_family(db, "gone"), TDB_ERR_NOT_FOUND);
    CHECK_OK(tidesdb_delete_column_family(db, tidesdb_get_column_family(db, "gone too")));
    CHECK_CODE(tidesdb_delete_column_family(db, NULL), TDB_ERR_INVALID_ARGS);
    config.sync_mode = TDB_SYNC_FULL;
    config.compression_algorithm = TDB_COMPRESS_ZSTD;
    CHECK_OK(tidesdb_cf_update_runtime_config(cf, &config, 1));
    CHECK_OK(tidesdb_sync_wal(cf));
    config.sync_mode = TDB_SYNC_NONE;
    CHECK_OK(tidesdb_cf_update_runtime_config(cf, &config, 1));

    /* Values that a creation refuses are no reason not to take the others over. */
    before = config;
    config.sync_mode = TDB_SYNC_INTERVAL;
    config.sync_interval_us = 0;
    config.min_levels = 64;
    config.bloom_fpr = 0.25;
    CHECK_OK(tidesdb_cf_update_runtime_config(cf, &config, 1));
    CHECK_OK(tidesdb_get_stats(cf, &stats));
    CHECK(stats->config->sync_mode == TDB_SYNC_INTERVAL && stats->config->sync_interval_us > 0);
    CHECK(stats->config->min_levels == 32 && stats->config->bloom_fpr == 0.25);
    tidesdb_free_stats(stats);
    config.sync_mode = 7;
    CHECK_CODE(tidesdb_cf_update_runtime_config(cf, &config, 1), TDB_ERR_INVALID_ARGS);
    config = before;
    CHECK_OK(tidesdb_cf_update_runtime_config(cf, &config, 1));
}

static void copies(tidesdb_t *db, const char *directory)
{
    tidesdb_column_family_t *cf = tidesdb_get_column_family(db, "default"), *copy;
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    tidesdb_stats_t *stats = NULL;
    char path[4096];
    tidesdb_t *other;

    CHECK_CODE(tidesdb_rename_column_family(db, "none", "other"), TDB_ERR_NOT_FOUND);
    CHECK_CODE(tidesdb_rename_column_family(db, "default", ""), TDB_ERR_INVALID_ARGS);
    CHECK_OK(tidesdb_rename_column_family(db, "default", "default"));
    CHECK_OK(tidesdb_rename_column_family(db, "default", "renamed"));
    CHECK(tidesdb_get_column_family(db, "default") == NULL);
    CHECK(tidesdb_get_column_family(db, "renamed") == cf);
    CHECK_OK(tidesdb_get_stats(cf, &stats));
    CHECK(strcmp(stats->config->name, "renamed") == 0);
    tidesdb_free_stats(stats);
    CHECK_CODE(tidesdb_clone_column_family(db, "renamed", "renamed"), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_clone_column_family(db, "none", "renamed"), TDB_ERR_EXISTS);
    CHECK_CODE(tidesdb_clone_column_family(db, "none", "clone"), TDB_ERR_NOT_FOUND);
    CHECK_OK(tidesdb_clone_column_family(db, "renamed", "clone"));
    CHECK_OK(put(txn, cf, "behind the clone", "1"));
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    copy = tidesdb_get_column_family(db, "clone");
    CHECK(copy != NULL && holds(txn, copy, "it0100", "it0100"));
    CHECK(holds(txn, copy, "behind the clone", NULL) && holds(txn, cf, "behind the clone", "1"));
    CHECK_OK(tidesdb_rename_column_family(db, "renamed", "default"));
    tidesdb_txn_free(txn);

    snprintf(path, sizeof path, "%s/db", directory);
    CHECK_CODE(tidesdb_backup(db, path), TDB_ERR_INVALID_ARGS);
    snprintf(path, sizeof path, "%s/not/there", directory);
    CHECK_CODE(tidesdb_backup(db, path), TDB_ERR_IO);
    CHECK_CODE(tidesdb_checkpoint(db, NULL), TDB_ERR_INVALID_ARGS);
    snprintf(path, sizeof path, "%s/backup", directory);
    CHECK_OK(tidesdb_backup(db, path));
    CHECK_CODE(tidesdb_backup(db, path), TDB_ERR_EXISTS);
    snprintf(path, sizeof path, "%s/checkpoint", directory);
    CHECK_OK(tidesdb_checkpoint(db, path));
    other = open_in(path);
    cf = tidesdb_get_column_family(other, "default");
    txn = begin(other, TDB_ISOLATION_READ_COMMITTED);
    CHECK(holds(txn, cf, "behind the clone", "1"));
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_close(other));
}

static void ini_files(const char *directory)
{
    tidesdb_column_family_config_t saved = tidesdb_default_column_family_config(), loaded;
    char path[4096];
    FILE *file;
    int n;
    snprintf(path, sizeof path, "%s/family.ini", directory);
    saved.min_levels = 7;
    saved.bloom_fpr = 0.25;
    saved.compression_algorithm = TDB_COMPRESS_LZ4_FAST;
    memset(saved.comparator_ctx_str, ';', 255);
    CHECK_OK(tidesdb_cf_config_save_to_ini(path, "section", &saved));
    CHECK_OK(tidesdb_cf_config_load_from_ini(path, "section", &loaded));
    CHECK(loaded.min_levels == 7 && loaded.bloom_fpr == saved.bloom_fpr);
    CHECK(loaded.compression_algorithm == saved.compression_algorithm);
    CHECK(loaded.sync_interval_us == saved.sync_interval_us && loaded.use_btree == 0);
    CHECK(loaded.write_buffer_size == saved.write_buffer_size);
    CHECK(strcmp(loaded.comparator_ctx_str, saved.comparator_ctx_str) == 0);
    CHECK_OK(tidesdb_cf_config_load_from_ini(path, "other", &loaded));
    CHECK(loaded.min_levels == 1);
    CHECK_CODE(tidesdb_cf_config_load_from_ini("/nowhere/at/all", "s", &loaded), TDB_ERR_IO);
    /* Texts that a line can't hold as they are. */
    for (n = 0; n < 4; n++)
    {
        const char *texts[] = {"two\nlines = 1\n[section]", " blanks ", "\"quoted\\\"",
                               "\xff\x01\r"};
        memset(saved.comparator_ctx_str, 0, sizeof saved.comparator_ctx_str);
        memcpy(saved.comparator_ctx_str, texts[n], strlen(texts[n]));
        CHECK_OK(tidesdb_cf_config_save_to_ini(path, "section", &saved));
        CHECK_OK(tidesdb_cf_config_load_from_ini(path, "section", &loaded));
        CHECK(strcmp(loaded.comparator_ctx_str, texts[n]) == 0 && loaded.min_levels == 7);
    }
    CHECK_CODE(tidesdb_cf_config_save_to_ini(path, "a\nb", &saved), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_cf_config_save_to_ini(path, NULL, &saved), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_cf_config_save_to_ini("/nowhere/at/all", "s", &saved), TDB_ERR_IO);
    /* Names of sections are any bytes, but for what would be read as a remark. */
    CHECK_OK(tidesdb_cf_config_save_to_ini(path, "caf\xe9\xa0", &saved));
    CHECK_OK(tidesdb_cf_config_load_from_ini(path, "caf\xe9\xa0", &loaded));
    CHECK(loaded.min_levels == 7);
    CHECK_CODE(tidesdb_cf_config_save_to_ini(path, "a] ;b", &saved), TDB_ERR_INVALID_ARGS);
    /* Remarks take nothing of a setting, whatever bytes they are. */
    file = fopen(path, "w");
    CHECK(file != NULL);
    CHECK(fputs("\xef\xbb\xbf[s] ; main\n; caf\xe9\nsync_mode = 1 ; full \xe9\nmin_levels=3\t;\n"
                "compression_algorithm = ZSTD # small\ncomparator_ctx_str = a ; b\n", file) >= 0);
    CHECK(fclose(file) == 0);
    CHECK_OK(tidesdb_cf_config_load_from_ini(path, "s", &loaded));
    CHECK(loaded.sync_mode == TDB_SYNC_FULL && loaded.min_levels == 3);
    CHECK(loaded.compression_algorithm == TDB_COMPRESS_ZSTD);
    CHECK(strcmp(loaded.comparator_ctx_str, "a ; b") == 0);
    /* What says what survives a power cut is not passed over. */
    for (n = 0; n < 3; n++)
    {
        const char *modes[] = {"sync_mode = full", "sync_mode = ; 1", "sync_interval_us = 1s"};
        file = fopen(path, "w");
        CHECK(file != NULL && fprintf(file, "[s]\n%s\n", modes[n]) > 0 && fclose(file) == 0);
        CHECK_CODE(tidesdb_cf_config_load_from_ini(path, "s", &loaded), TDB_ERR_CORRUPTION);
    }
    file = fopen(path, "w");
    CHECK(file != NULL && fputs("[broken\n", file) >= 0 && fclose(file) == 0);
    CHECK_CODE(tidesdb_cf_config_load_from_ini(path, "s", &loaded), TDB_ERR_CORRUPTION);
    /* A file without end. */
    CHECK_CODE(tidesdb_cf_config_load_from_ini("/dev/zero", "s", &loaded), TDB_ERR_CORRUPTION);
}

#define THREADS 8
#define PUTS 500

static tidesdb_t *shared;

static void *write_much(void *argument)
{
    tidesdb_column_family_t *cf = tidesdb_get_column_family(shared, "default");
    const int number = *(int *)argument;
    int n;
    for (n = 0; n < PUTS; n++)
    {
        char name[32];
        tidesdb_txn_t *txn = begin(shared, TDB_ISOLATION_READ_COMMITTED);
        snprintf(name, sizeof name, "thread %d %d", number, n);
        CHECK_OK(put(txn, cf, name, name));
        CHECK_OK(tidesdb_txn_commit(txn));
        CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
        CHECK(holds(txn, cf, name, name));
        tidesdb_txn_free(txn);
    }
    return NULL;
}

static void threads(tidesdb_t *db)
{
    pthread_t workers[THREADS];
    int numbers[THREADS], n;
    shared = db;
    for (n = 0; n < THREADS; n++)
    {
        numbers[n] = n;
        CHECK(pthread_create(&workers[n], NULL, write_much, &numbers[n]) == 0);
    }
    for (n = 0; n < THREADS; n++) CHECK(pthread_join(workers[n], NULL) == 0);
}

static long allocations, releases;

static void *counted_malloc(size_t size)
{
    allocations++;
    return malloc(size);
}

static void *counted_calloc(size_t count, size_t size)
{
    allocations++;
    return calloc(count, size);
}

static void counted_free(void *pointer)
{
    releases++;
    free(pointer);
}

static void *no_malloc(size_t size)
{
    (void)size;
    return NULL;
}

static void allocators(char *path)
{
    tidesdb_t *db = NULL;
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_txn_t *txn = NULL;
    tidesdb_column_family_t *cf;
    uint8_t *value = NULL;
    size_t size = 0;

    CHECK_CODE(tidesdb_init(NULL, NULL, NULL, NULL), -1);
    tidesdb_finalize();
    CHECK_OK(tidesdb_init(counted_malloc, counted_calloc, NULL, counted_free));
    db = open_in(path);
    cf = tidesdb_get_column_family(db, "default");
    CHECK(cf != NULL);
    CHECK_OK(tidesdb_txn_begin(db, &txn));
    CHECK_OK(tidesdb_txn_get(txn, cf, bytes("a"), 1, &value, &size));
    CHECK(size == 2 && memcmp(value, "10", 2) == 0);
    tidesdb_free(value);
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_close(db));
    CHECK(allocations > 0 && allocations == releases);
    tidesdb_finalize();

    CHECK_OK(tidesdb_init(no_malloc, NULL, NULL, NULL));
    config.db_path = path;
    config.log_level = TDB_LOG_NONE;
    CHECK_CODE(tidesdb_open(&config, &db), TDB_ERR_MEMORY);
    CHECK(db == NULL);
    tidesdb_finalize();
}

int main(int count, char **arguments)
{
    char path[2048];
    tidesdb_t *db, *second = NULL;
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn;
    int n;

    CHECK(count == 2);
    snprintf(path, sizeof path, "%s/db", arguments[1]);
    CHECK_CODE(tidesdb_open(NULL, &db), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_open(&config, NULL), TDB_ERR_INVALID_ARGS);
    CHECK(tidesdb_raise_open_file_limit(0) > 0);
    CHECK(tidesdb_compression_available(TDB_COMPRESS_ZSTD) == 1);
    CHECK(tidesdb_compression_available((compression_algorithm)77) == 0);
    CHECK(tidesdb_comparator_uint64(bytes("a"), 1, bytes("b"), 1, NULL) < 0);
    CHECK(tidesdb_comparator_case_insensitive(bytes("aB"), 2, bytes("Ab"), 2, NULL) == 0);
    CHECK(tidesdb_comparator_reverse_memcmp(bytes("a"), 1, bytes("b"), 1, NULL) > 0);

    db = open_in(path);
    config.db_path = path;
    config.log_level = TDB_LOG_NONE;
    CHECK_CODE(tidesdb_open(&config, &second), TDB_ERR_LOCKED);
    CHECK(second == NULL);
    tidesdb_log_write(TDB_LOG_ERROR, "file.c", 1, "%s %d", "not written", 1);
    families(db);
    cf = tidesdb_get_column_family(db, "default");
    transactions(db, cf);
    iterators(db, cf);
    hooks(db, cf);
    statistics(db, cf);
    threads(db);
    copies(db, arguments[1]);
    cf = tidesdb_get_column_family(db, "default");
    CHECK_OK(tidesdb_compact(cf));
    CHECK_OK(tidesdb_compact_range(cf, bytes("a"), 1, NULL, 0));
    CHECK_CODE(tidesdb_compact_range(cf, NULL, 0, NULL, 0), TDB_ERR_INVALID_ARGS);
    CHECK_OK(tidesdb_purge_cf(cf));
    CHECK_OK(tidesdb_purge(db));
    CHECK_OK(tidesdb_cancel_background_work(db));
    CHECK_OK(tidesdb_compact(cf));
    CHECK_OK(tidesdb_compact_range(cf, NULL, 0, bytes("z"), 1));
    CHECK_OK(tidesdb_purge_cf(cf));
    CHECK_OK(tidesdb_purge(db));
    CHECK_CODE(tidesdb_promote_to_primary(db), TDB_ERR_INVALID_ARGS);

    /* A transaction that outlives its database is freed all the same. */
    txn = begin(db, TDB_ISOLATION_SERIALIZABLE);
    CHECK_OK(tidesdb_close(db));
    tidesdb_txn_free(txn);
    CHECK_CODE(tidesdb_close(NULL), TDB_ERR_INVALID_ARGS);

    ini_files(arguments[1]);
    allocators(path);
    for (n = 0; n < 50; n++)
    {
        db = open_in(path);
        cf = tidesdb_get_column_family(db, "default");
        txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
        CHECK(holds(txn, cf, "thread 7 499", "thread 7 499"));
        tidesdb_txn_free(txn);
        CHECK_OK(tidesdb_close(db));
    }
    puts("all checks hold");
    return 0;
}
