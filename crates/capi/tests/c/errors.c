/* Errors, bounds and outputs that basics.c does not come to. The argument is an empty directory. */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

/* Every function that takes a handle refuses NULL. */
static void null_handles(void)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    tidesdb_db_stats_t stats;
    tidesdb_cache_stats_t cache;
    tidesdb_stats_t *family_stats = NULL;
    tidesdb_txn_t *txn = NULL;
    tidesdb_iter_t *iter = (tidesdb_iter_t *)&iter;
    uint8_t *out = NULL;
    uint64_t number = 0;
    size_t size = 0;
    double cost = 0;
    char **names = NULL;
    char path[] = "x";
    int count = 0;
    const uint8_t *key = bytes("k");
    const int invalid = TDB_ERR_INVALID_ARGS;

    CHECK_CODE(tidesdb_close(NULL), invalid);
    CHECK_CODE(tidesdb_backup(NULL, path), invalid);
    CHECK_CODE(tidesdb_checkpoint(NULL, path), invalid);
    CHECK_CODE(tidesdb_purge(NULL), invalid);
    CHECK_CODE(tidesdb_cancel_background_work(NULL), invalid);
    CHECK_CODE(tidesdb_get_db_stats(NULL, &stats), invalid);
    CHECK_CODE(tidesdb_get_cache_stats(NULL, &cache), invalid);
    CHECK_CODE(tidesdb_promote_to_primary(NULL), invalid);
    CHECK_CODE(tidesdb_create_column_family(NULL, "x", &config), invalid);
    CHECK_CODE(tidesdb_drop_column_family(NULL, "x"), invalid);
    CHECK_CODE(tidesdb_delete_column_family(NULL, NULL), invalid);
    CHECK_CODE(tidesdb_rename_column_family(NULL, "x", "y"), invalid);
    CHECK_CODE(tidesdb_clone_column_family(NULL, "x", "y"), invalid);
    CHECK(tidesdb_get_column_family(NULL, "x") == NULL);
    CHECK_CODE(tidesdb_list_column_families(NULL, &names, &count), invalid);
    CHECK_CODE(tidesdb_cf_update_runtime_config(NULL, &config, 0), invalid);
    CHECK_CODE(tidesdb_cf_set_commit_hook(NULL, NULL, NULL), invalid);
    CHECK_CODE(tidesdb_cf_config_load_from_ini(NULL, "s", &config), invalid);
    CHECK_CODE(tidesdb_cf_config_save_to_ini(NULL, "s", &config), invalid);
    CHECK_CODE(tidesdb_get_stats(NULL, &family_stats), invalid);
    CHECK_CODE(tidesdb_cf_estimate_cardinality(NULL, &number), invalid);
    CHECK_CODE(tidesdb_range_cost(NULL, key, 1, key, 1, &cost), invalid);
    CHECK_CODE(tidesdb_flush_memtable(NULL), invalid);
    CHECK_CODE(tidesdb_compact(NULL), invalid);
    CHECK_CODE(tidesdb_compact_range(NULL, key, 1, key, 1), invalid);
    CHECK_CODE(tidesdb_purge_cf(NULL), invalid);
    CHECK_CODE(tidesdb_sync_wal(NULL), invalid);
    CHECK(tidesdb_is_flushing(NULL) == 0 && tidesdb_is_compacting(NULL) == 0);
    CHECK_CODE(tidesdb_txn_begin_with_isolation(NULL, TDB_ISOLATION_SNAPSHOT, &txn), invalid);
    CHECK_CODE(tidesdb_txn_put(NULL, NULL, key, 1, key, 1, 0), invalid);
    CHECK_CODE(tidesdb_txn_get(NULL, NULL, key, 1, &out, &size), invalid);
    CHECK_CODE(tidesdb_txn_get_notrack(NULL, NULL, key, 1, &out, &size), invalid);
    CHECK_CODE(tidesdb_txn_contains(NULL, NULL, key, 1), invalid);
    CHECK_CODE(tidesdb_txn_delete(NULL, NULL, key, 1), invalid);
    CHECK_CODE(tidesdb_txn_single_delete(NULL, NULL, key, 1), invalid);
    CHECK_CODE(tidesdb_txn_commit(NULL), invalid);
    CHECK_CODE(tidesdb_txn_rollback(NULL), invalid);
    CHECK_CODE(tidesdb_txn_reset(NULL, TDB_ISOLATION_SNAPSHOT), invalid);
    CHECK_CODE(tidesdb_txn_savepoint(NULL, "s"), invalid);
    CHECK_CODE(tidesdb_txn_rollback_to_savepoint(NULL, "s"), invalid);
    CHECK_CODE(tidesdb_txn_release_savepoint(NULL, "s"), invalid);
    CHECK_CODE(tidesdb_iter_new(NULL, NULL, &iter), invalid);
    CHECK(iter == NULL);
    CHECK_CODE(tidesdb_iter_new(NULL, NULL, NULL), invalid);
    CHECK_CODE(tidesdb_iter_seek(NULL, key, 1), invalid);
    CHECK_CODE(tidesdb_iter_seek_for_prev(NULL, key, 1), invalid);
    CHECK_CODE(tidesdb_iter_seek_to_first(NULL), invalid);
    CHECK_CODE(tidesdb_iter_seek_to_last(NULL), invalid);
    CHECK_CODE(tidesdb_iter_next(NULL), invalid);
    CHECK_CODE(tidesdb_iter_prev(NULL), invalid);
    CHECK_CODE(tidesdb_iter_key(NULL, &out, &size), invalid);
    CHECK_CODE(tidesdb_iter_value(NULL, &out, &size), invalid);
    CHECK_CODE(tidesdb_iter_key_value(NULL, &out, &size, &out, &size), invalid);
    CHECK(txn == NULL && out == NULL && size == 0 && names == NULL && family_stats == NULL);
    CHECK(tidesdb_objstore_fs_create(NULL) == NULL);
    tidesdb_free(NULL);
}

/* Sizes at and beyond their bounds. Keys have at most 65,535 bytes here. */
static void sizes(tidesdb_t *db, tidesdb_column_family_t *cf)
{
    const size_t longest = 65535, huge = (size_t)UINT32_MAX + 1;
    uint8_t *key = calloc(1, longest + 1), *value = NULL, *out = NULL;
    size_t size = 0;
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_SNAPSHOT);
    tidesdb_iter_t *iter = NULL;
    tidesdb_db_stats_t stats;

    CHECK(key != NULL);
    memset(key, 'k', longest + 1);
    CHECK_OK(tidesdb_txn_put(txn, cf, key, longest, key, longest, 0));
    CHECK_CODE(tidesdb_txn_put(txn, cf, key, longest + 1, key, 1, 0), TDB_ERR_TOO_LARGE);
    CHECK_CODE(tidesdb_txn_put(txn, cf, key, 1, key, huge, 0), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_txn_put(txn, cf, key, huge, key, 1, 0), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_txn_delete(txn, cf, key, huge), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_txn_single_delete(txn, cf, key, huge), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_txn_delete(txn, cf, key, longest + 1), TDB_ERR_TOO_LARGE);
    CHECK_OK(tidesdb_get_db_stats(db, &stats));
    /* More than three quarters of the memory that the database may take. */
    CHECK_CODE(tidesdb_txn_put(txn, cf, key, 1, key, stats.resolved_memory_limit / 4 * 3 + 1, 0),
               stats.resolved_memory_limit / 4 * 3 > UINT32_MAX ? TDB_ERR_INVALID_ARGS
                                                                : TDB_ERR_MEMORY_LIMIT);
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SERIALIZABLE));
    CHECK_OK(tidesdb_txn_get(txn, cf, key, longest, &value, &size));
    CHECK(size == longest && memcmp(value, key, size) == 0);
    tidesdb_free(value);
    /* A key that can't be there is not there. */
    value = NULL;
    CHECK_CODE(tidesdb_txn_get(txn, cf, key, longest + 1, &value, &size), TDB_ERR_NOT_FOUND);
    CHECK_CODE(tidesdb_txn_get_notrack(txn, cf, key, longest + 1, &value, &size),
               TDB_ERR_NOT_FOUND);
    CHECK_CODE(tidesdb_txn_contains(txn, cf, key, longest + 1), TDB_ERR_NOT_FOUND);
    CHECK(value == NULL);
    CHECK_CODE(tidesdb_txn_get(txn, cf, key, 0, &value, &size), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_txn_get(txn, cf, key, 1, NULL, &size), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_txn_get(txn, cf, key, 1, &value, NULL), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_txn_contains(txn, cf, NULL, 1), TDB_ERR_INVALID_ARGS);
    CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
    CHECK_OK(tidesdb_iter_seek_for_prev(iter, key, longest + 1));
    CHECK_OK(tidesdb_iter_key(iter, &out, &size));
    CHECK(size == longest);
    CHECK_CODE(tidesdb_iter_seek(iter, key, longest + 1), TDB_ERR_NOT_FOUND);
    CHECK_CODE(tidesdb_iter_key(iter, &out, &size), TDB_ERR_INVALID_ARGS);
    CHECK_OK(tidesdb_iter_seek_to_first(iter));
    CHECK_CODE(tidesdb_iter_key(iter, NULL, &size), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_iter_value(iter, &out, NULL), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_iter_key_value(iter, &out, &size, NULL, &size), TDB_ERR_INVALID_ARGS);
    tidesdb_iter_free(iter);
    tidesdb_txn_free(txn);
    free(key);
}

/* A transaction that is over takes nothing but reset and free. */
static void finished_transactions(tidesdb_t *db, tidesdb_column_family_t *cf)
{
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_SNAPSHOT);
    tidesdb_iter_t *iter = NULL;
    uint8_t *value = NULL;
    size_t size = 0;
    int round;

    for (round = 0; round < 2; round++)
    {
        if (round == 0)
            CHECK_OK(tidesdb_txn_commit(txn));
        else
            CHECK_OK(tidesdb_txn_rollback(txn));
        CHECK_CODE(put(txn, cf, "k", "v"), TDB_ERR_INVALID_ARGS);
        CHECK_CODE(tidesdb_txn_delete(txn, cf, bytes("k"), 1), TDB_ERR_INVALID_ARGS);
        CHECK_CODE(tidesdb_txn_single_delete(txn, cf, bytes("k"), 1), TDB_ERR_INVALID_ARGS);
        CHECK_CODE(tidesdb_txn_get(txn, cf, bytes("k"), 1, &value, &size), TDB_ERR_INVALID_ARGS);
        CHECK_CODE(tidesdb_iter_new(txn, cf, &iter), TDB_ERR_INVALID_ARGS);
        CHECK(iter == NULL);
        CHECK_CODE(tidesdb_txn_commit(txn), TDB_ERR_INVALID_ARGS);
        CHECK_CODE(tidesdb_txn_savepoint(txn, "s"), TDB_ERR_INVALID_ARGS);
        CHECK_CODE(tidesdb_txn_rollback_to_savepoint(txn, "s"), TDB_ERR_INVALID_ARGS);
        CHECK_CODE(tidesdb_txn_release_savepoint(txn, "s"), TDB_ERR_INVALID_ARGS);
        CHECK_CODE(tidesdb_txn_reset(txn, (tidesdb_isolation_level_t)5), TDB_ERR_INVALID_ARGS);
        CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    }
    CHECK_CODE(tidesdb_txn_savepoint(txn, NULL), TDB_ERR_INVALID_ARGS);
    CHECK_OK(tidesdb_txn_savepoint(txn, "only"));
    CHECK_OK(tidesdb_txn_rollback_to_savepoint(txn, "only"));
    CHECK_CODE(tidesdb_txn_rollback_to_savepoint(txn, "only"), TDB_ERR_INVALID_ARGS);
    tidesdb_txn_free(txn);
}

/* A refused commit leaves the transaction as it was. */
static void refused_commits(tidesdb_t *db, tidesdb_column_family_t *cf)
{
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_SNAPSHOT);
    tidesdb_column_family_t *gone = small_family(db, "gone");

    CHECK_OK(put(txn, cf, "contested", "mine"));
    put_alone(db, cf, "contested", "theirs");
    CHECK_CODE(tidesdb_txn_commit(txn), TDB_ERR_CONFLICT);
    CHECK_CODE(tidesdb_txn_commit(txn), TDB_ERR_CONFLICT);
    CHECK(holds(txn, cf, "contested", "mine"));
    CHECK_CODE(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT), TDB_ERR_INVALID_ARGS);
    CHECK_OK(tidesdb_txn_rollback(txn));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    CHECK(holds(txn, cf, "contested", "theirs"));
    /* A family that goes before the commit. */
    CHECK_OK(put(txn, gone, "k", "v"));
    CHECK_OK(put(txn, cf, "with it", "v"));
    CHECK_OK(tidesdb_drop_column_family(db, "gone"));
    CHECK_CODE(tidesdb_txn_commit(txn), TDB_ERR_NOT_FOUND);
    tidesdb_txn_free(txn);
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK(holds(txn, cf, "with it", NULL));
    tidesdb_txn_free(txn);
}

static int refuse_all(const tidesdb_commit_op_t *ops, int num_ops, uint64_t commit_seq, void *ctx)
{
    (void)ops;
    (void)commit_seq;
    *(int *)ctx += num_ops;
    return -1;
}

/* Statistics are each family's own, also of commits to several. */
static void statistics(tidesdb_t *db)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    tidesdb_column_family_t *one, *two;
    tidesdb_stats_t *stats = NULL;
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    int seen = 0;

    config.commit_hook_fn = refuse_all;
    config.commit_hook_ctx = &seen;
    CHECK_OK(tidesdb_create_column_family(db, "one", &config));
    one = tidesdb_get_column_family(db, "one");
    two = small_family(db, "two");
    CHECK_OK(put(txn, one, "k", "vvvv"));
    CHECK_OK(put(txn, two, "key", "v"));
    CHECK_OK(tidesdb_txn_delete(txn, two, bytes("other"), 5));
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK(seen == 1);
    CHECK_OK(tidesdb_get_stats(one, &stats));
    CHECK(stats->user_bytes_written == 5 && stats->wal_bytes_written > 5);
    CHECK(stats->config->commit_hook_fn == refuse_all && stats->config->commit_hook_ctx == &seen);
    tidesdb_free_stats(stats);
    CHECK_OK(tidesdb_get_stats(two, &stats));
    CHECK(stats->user_bytes_written == 9 && stats->wal_bytes_written > 9);
    CHECK(stats->total_keys >= 2 && stats->total_data_size == 0);
    tidesdb_free_stats(stats);
    tidesdb_txn_free(txn);
}

/* Names and paths are bytes for the system, and text where they are names of families. */
static void names_and_paths(const char *directory)
{
    char path[4096], file[4096 + 16], copy[4096];
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_t *db = (tidesdb_t *)&config;
    tidesdb_column_family_config_t family = tidesdb_default_column_family_config();
    struct stat found;

    snprintf(path, sizeof path, "%s/\xff\xfe not text", directory);
    db = open_in(path);
    CHECK(stat(path, &found) == 0 && S_ISDIR(found.st_mode));
    CHECK_CODE(tidesdb_create_column_family(db, "\xff", &family), TDB_ERR_INVALID_ARGS);
    family.compression_algorithm = (compression_algorithm)9;
    CHECK_CODE(tidesdb_create_column_family(db, "x", &family), TDB_ERR_INVALID_ARGS);
    family = tidesdb_default_column_family_config();
    family.write_buffer_size = (size_t)1 << 60;
    CHECK_CODE(tidesdb_create_column_family(db, "x", &family), TDB_ERR_INVALID_ARGS);
    CHECK(tidesdb_get_column_family(db, "x") == NULL);
    snprintf(copy, sizeof copy, "%s/\xfe copy", directory);
    CHECK_OK(tidesdb_backup(db, copy));
    CHECK_CODE(tidesdb_checkpoint(db, copy), TDB_ERR_EXISTS);
    CHECK_OK(tidesdb_close(db));

    db = (tidesdb_t *)&config;
    config.log_level = TDB_LOG_NONE;
    config.db_path = NULL;
    CHECK_CODE(tidesdb_open(&config, &db), TDB_ERR_MEMORY);
    CHECK(db == NULL);
    snprintf(path, sizeof path, "%s/no/parent", directory);
    config.db_path = path;
    CHECK_CODE(tidesdb_open(&config, &db), TDB_ERR_IO);
    snprintf(file, sizeof file, "%s/a file", directory);
    CHECK(close(open(file, O_CREAT | O_WRONLY, 0600)) == 0);
    config.db_path = file;
    CHECK_CODE(tidesdb_open(&config, &db), TDB_ERR_IO);
    /* Nothing is made for a database that can't be. */
    snprintf(path, sizeof path, "%s/remote", directory);
    config.db_path = path;
    config.object_store = tidesdb_objstore_fs_create(copy);
    CHECK(config.object_store != NULL);
    CHECK_CODE(tidesdb_open(&config, &db), TDB_ERR_INVALID_ARGS);
    CHECK(stat(path, &found) != 0);
    config.object_store->destroy(config.object_store->ctx);
    tidesdb_free(config.object_store);
}

/* All fields zero but the path. */
static void zeroed_config(const char *directory)
{
    char path[4096];
    tidesdb_config_t config;
    tidesdb_t *db = NULL;
    tidesdb_cache_stats_t cache;
    tidesdb_column_family_t *cf;

    snprintf(path, sizeof path, "%s/zeroed", directory);
    memset(&config, 0, sizeof config);
    config.db_path = path;
    config.log_level = TDB_LOG_NONE;
    config.unified_memtable = 1;
    CHECK_OK(tidesdb_open(&config, &db));
    cf = small_family(db, "cf");
    put_alone(db, cf, "k", "v");
    CHECK_OK(tidesdb_compact(cf));
    memset(&cache, 0xff, sizeof cache);
    CHECK_OK(tidesdb_get_cache_stats(db, &cache));
    CHECK(cache.enabled == 0 && cache.hits == 0 && cache.num_partitions == 0);
    CHECK_OK(tidesdb_close(db));
}

/* A process that has all the files open that it may: reads are to be repeated, and an opening fails
   as for any file. */
static void without_descriptors(char *path)
{
    enum { MOST = 80 };
    int taken[MOST], number = 0, lowest = 3;
    struct rlimit usual, few;
    char other[4096 + 16];
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_t *db = open_in(path), *second;
    tidesdb_column_family_t *cf = small_family(db, "tables");
    tidesdb_txn_t *txn;
    tidesdb_iter_t *iter = NULL;
    uint8_t *value = NULL;
    size_t size = 7;

    put_alone(db, cf, "k", "v");
    CHECK_OK(tidesdb_compact(cf));
    /* No table is open after this. */
    CHECK_OK(tidesdb_close(db));
    db = open_in(path);
    cf = tidesdb_get_column_family(db, "tables");
    txn = begin(db, TDB_ISOLATION_SNAPSHOT);
    CHECK(getrlimit(RLIMIT_NOFILE, &usual) == 0);
    few = usual;
    few.rlim_cur = MOST;
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    while (number < MOST && (taken[number] = fcntl(0, F_DUPFD, lowest)) >= 0) number++;
    CHECK(number > 0 && number < MOST);

    CHECK_CODE(tidesdb_txn_get(txn, cf, bytes("k"), 1, &value, &size), TDB_ERR_BUSY);
    CHECK_CODE(tidesdb_txn_contains(txn, cf, bytes("k"), 1), TDB_ERR_BUSY);
    CHECK(value == NULL && size == 7);
    CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
    CHECK_CODE(tidesdb_iter_seek_to_first(iter), TDB_ERR_BUSY);
    CHECK(tidesdb_iter_valid(iter) == 0);
    snprintf(other, sizeof other, "%s, second", path);
    config.db_path = other;
    config.log_level = TDB_LOG_NONE;
    CHECK_CODE(tidesdb_open(&config, &second), TDB_ERR_IO);

    while (number > 0) CHECK(close(taken[--number]) == 0);
    CHECK(setrlimit(RLIMIT_NOFILE, &usual) == 0);
    CHECK(holds(txn, cf, "k", "v"));
    CHECK_OK(tidesdb_iter_seek_to_first(iter));
    tidesdb_iter_free(iter);
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_close(db));
    CHECK_OK(tidesdb_open(&config, &db));
    CHECK_OK(tidesdb_close(db));
}

int main(int count, char **arguments)
{
    char path[4096];
    tidesdb_t *db;
    tidesdb_column_family_t *cf;

    CHECK(count == 2);
    null_handles();
    snprintf(path, sizeof path, "%s/db", arguments[1]);
    db = open_in(path);
    cf = small_family(db, "default");
    sizes(db, cf);
    finished_transactions(db, cf);
    refused_commits(db, cf);
    statistics(db);
    CHECK_OK(tidesdb_close(db));
    without_descriptors(path);
    names_and_paths(arguments[1]);
    zeroed_config(arguments[1]);
    puts("all checks hold");
    return 0;
}
