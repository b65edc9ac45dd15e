/* Arguments that make no sense, and calls at moments when no program should make them. The argument
   is an empty directory. */
#include <fcntl.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

static tidesdb_t *open_below(const char *directory, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return open_in(path);
}

/* Options of a database that no machine can follow: an answer, and what works is kept. */
static void options(const char *directory)
{
    static const size_t huge[] = {SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 50};
    char path[4096];
    tidesdb_t *db;
    size_t n;

    snprintf(path, sizeof path, "%s/options", directory);
    for (n = 0; n < sizeof huge / sizeof huge[0]; n++)
    {
        tidesdb_config_t config = tidesdb_default_config();
        int code;
        config.db_path = path;
        config.log_level = TDB_LOG_NONE;
        config.block_cache_size = huge[n];
        config.max_open_sstables = huge[n];
        config.max_memory_usage = huge[n];
        config.log_truncation_at = huge[n];
        config.num_flush_threads = INT_MIN;
        config.num_compaction_threads = -7;
        config.unified_memtable_write_buffer_size = huge[n];
        config.unified_memtable_sync_interval_us = UINT64_MAX;
        config.unified_memtable_skip_list_probability = NAN;
        code = tidesdb_open(&config, &db);
        printf("open with %zx: %d\n", huge[n], code);
        CHECK((code == TDB_SUCCESS) == (db != NULL));
        if (code != TDB_SUCCESS) continue;
        put_alone(db, small_family(db, n == 0 ? "a" : n == 1 ? "b" : "c"), "k", "v");
        CHECK_OK(tidesdb_close(db));
    }
    {
        tidesdb_config_t config = tidesdb_default_config();
        config.db_path = path;
        config.log_level = (tidesdb_log_level_t)-5;
        config.log_to_file = 1;
        config.unified_memtable = 1;
        config.unified_memtable_sync_mode = 9;
        CHECK_CODE(tidesdb_open(&config, &db), TDB_ERR_INVALID_ARGS);
    }
}

/* Options of families likewise. */
static void family_options(tidesdb_t *db)
{
    static const double numbers[] = {-1.0, 0.0, 1.0, 2.0, DBL_MAX, -DBL_MAX, NAN, INFINITY};
    size_t n;
    for (n = 0; n < sizeof numbers / sizeof numbers[0]; n++)
    {
        tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
        tidesdb_column_family_t *cf;
        char name[16];
        int code;
        snprintf(name, sizeof name, "odd %d", (int)n);
        config.bloom_fpr = numbers[n];
        config.tombstone_density_trigger = numbers[n];
        config.skip_list_probability = (float)numbers[n];
        config.skip_list_max_level = INT_MIN;
        config.default_isolation_level = (tidesdb_isolation_level_t)77;
        config.l1_file_count_trigger = INT_MIN;
        config.l0_queue_stall_threshold = INT_MAX;
        config.level_size_ratio = n % 2 ? 0 : SIZE_MAX;
        config.klog_value_threshold = n % 2 ? 0 : SIZE_MAX;
        config.min_levels = INT_MIN;
        config.index_sample_ratio = INT_MAX;
        config.min_disk_space = 0;
        config.tombstone_density_min_entries = UINT64_MAX;
        memset(config.comparator_ctx_str, 0xff, sizeof config.comparator_ctx_str);
        code = tidesdb_create_column_family(db, name, &config);
        printf("create with %g: %d\n", numbers[n], code);
        cf = tidesdb_get_column_family(db, name);
        CHECK((code == TDB_SUCCESS) == (cf != NULL));
        CHECK(code == TDB_SUCCESS || code == TDB_ERR_INVALID_ARGS);
        if (cf == NULL) continue;
        put_alone(db, cf, "k", "v");
        CHECK_OK(tidesdb_compact(cf));
        config.min_levels = 33;
        CHECK_OK(tidesdb_cf_update_runtime_config(cf, &config, 1));
        config.min_levels = 32;
        CHECK_OK(tidesdb_cf_update_runtime_config(cf, &config, 1));
    }
    {
        /* A name that no NUL ends. */
        tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
        memset(config.name, 'x', sizeof config.name);
        memset(config.comparator_name, 'x', sizeof config.comparator_name);
        CHECK_CODE(tidesdb_create_column_family(db, "y", &config), TDB_ERR_NOT_FOUND);
    }
}

/* Names that are too long, empty or no text, wherever a name is taken. */
static void odd_names(tidesdb_t *db)
{
    char longest[4096];
    const char *names[3];
    size_t n;

    memset(longest, 'n', sizeof longest);
    longest[sizeof longest - 1] = 0;
    names[0] = longest;
    names[1] = "\xff\xfe";
    names[2] = "";
    for (n = 0; n < 3; n++)
    {
        const int drop = tidesdb_drop_column_family(db, names[n]);
        const int rename = tidesdb_rename_column_family(db, names[n], "z");
        const int clone = tidesdb_clone_column_family(db, names[n], "z");
        CHECK(drop == TDB_ERR_NOT_FOUND || drop == TDB_ERR_INVALID_ARGS);
        CHECK(rename == TDB_ERR_NOT_FOUND || rename == TDB_ERR_INVALID_ARGS);
        CHECK(clone == TDB_ERR_NOT_FOUND || clone == TDB_ERR_INVALID_ARGS);
        CHECK(tidesdb_get_column_family(db, names[n]) == NULL);
        CHECK_CODE(tidesdb_rename_column_family(db, "default", names[n]), TDB_ERR_INVALID_ARGS);
        CHECK_CODE(tidesdb_clone_column_family(db, "default", names[n]), TDB_ERR_INVALID_ARGS);
    }
    CHECK_CODE(tidesdb_get_comparator(db, longest, NULL, NULL), TDB_ERR_NOT_FOUND);
    CHECK_CODE(tidesdb_rename_column_family(db, NULL, "z"), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_clone_column_family(db, "default", NULL), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_drop_column_family(db, NULL), TDB_ERR_INVALID_ARGS);
    CHECK(tidesdb_get_column_family(db, NULL) == NULL);
    CHECK_CODE(tidesdb_list_column_families(db, NULL, NULL), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_get_db_stats(db, NULL), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_get_cache_stats(db, NULL), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_promote_to_primary(db), TDB_ERR_INVALID_ARGS);
    CHECK(tidesdb_comparator_lexicographic(bytes("a"), 2, bytes("b"), 2, NULL) < 0);
    CHECK(tidesdb_comparator_int64(bytes("\377\377\377\377\377\377\377\377"), 8,
                                   bytes("\1\0\0\0\0\0\0\0"), 8, NULL) < 0);
}

/* Handles of one database in calls of another. */
static void strangers(tidesdb_t *db, tidesdb_column_family_t *cf, tidesdb_t *other)
{
    tidesdb_column_family_t *theirs = small_family(other, "default");
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_SERIALIZABLE);
    tidesdb_iter_t *iter = NULL;
    uint8_t *value = NULL;
    size_t size = 0;

    CHECK_OK(put(txn, cf, "k", "v"));
    CHECK_CODE(put(txn, theirs, "k", "v"), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_txn_get(txn, theirs, bytes("k"), 1, &value, &size), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_txn_contains(txn, theirs, bytes("k"), 1), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_txn_delete(txn, theirs, bytes("k"), 1), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_iter_new(txn, theirs, &iter), TDB_ERR_INVALID_ARGS);
    CHECK(iter == NULL && value == NULL);
    CHECK_CODE(tidesdb_delete_column_family(db, theirs), TDB_ERR_NOT_FOUND);
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK_CODE(tidesdb_txn_reset(txn, (tidesdb_isolation_level_t)-1), TDB_ERR_INVALID_ARGS);
    tidesdb_txn_free(txn);
}

static int calls;

/* Takes itself away, and asks for what the interface has. */
static int removes_itself(const tidesdb_commit_op_t *ops, int num_ops, uint64_t commit_seq,
                          void *ctx)
{
    tidesdb_column_family_t *cf = ctx;
    tidesdb_stats_t *stats = NULL;
    (void)ops;
    (void)num_ops;
    (void)commit_seq;
    calls++;
    CHECK_OK(tidesdb_get_stats(cf, &stats));
    CHECK(stats->config->commit_hook_fn == removes_itself);
    tidesdb_free_stats(stats);
    CHECK_OK(tidesdb_cf_set_commit_hook(cf, NULL, NULL));
    CHECK_OK(tidesdb_flush_memtable(cf));
    return 0;
}

static tidesdb_db_stats_t of(tidesdb_t *db)
{
    tidesdb_db_stats_t stats;
    CHECK_OK(tidesdb_get_db_stats(db, &stats));
    return stats;
}

static void fill(tidesdb_t *db, tidesdb_column_family_t *cf, int tables)
{
    int table, n;
    for (table = 0; table < tables; table++)
    {
        tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
        for (n = 0; n < 500; n++)
        {
            char key[16];
            snprintf(key, sizeof key, "k%06d", n);
            CHECK_OK(put(txn, cf, key, key));
        }
        CHECK_OK(tidesdb_txn_commit(txn));
        tidesdb_txn_free(txn);
        CHECK_OK(tidesdb_flush_memtable(cf));
    }
}

/* After a purge nothing is queued. After background work was cancelled nothing is merged until the
   next opening, and all else goes on. */
static void background(const char *directory)
{
    tidesdb_t *db = open_below(directory, "background");
    tidesdb_column_family_t *cf = small_family(db, "one"), *two = small_family(db, "two");
    tidesdb_txn_t *txn;
    tidesdb_stats_t *stats = NULL;

    fill(db, cf, 6);
    fill(db, two, 6);
    CHECK_OK(tidesdb_purge(db));
    CHECK(of(db).flush_pending_count == 0 && of(db).flush_queue_size == 0);
    CHECK(of(db).compaction_queue_size == 0);
    fill(db, cf, 3);
    CHECK_OK(tidesdb_purge_cf(cf));
    CHECK(tidesdb_is_flushing(cf) == 0 && tidesdb_is_compacting(cf) == 0);
    fill(db, two, 20);
    CHECK_OK(tidesdb_cancel_background_work(db));
    CHECK(tidesdb_is_compacting(cf) == 0 && tidesdb_is_compacting(two) == 0);
    CHECK(of(db).compaction_queue_size == 0);
    fill(db, two, 6);
    CHECK_OK(tidesdb_wait_idle(db));
    CHECK_OK(tidesdb_compact(two));
    CHECK_OK(tidesdb_compact_range(two, bytes("k"), 1, NULL, 0));
    CHECK_OK(tidesdb_get_stats(two, &stats));
    CHECK(stats->level_num_sstables[0] >= 6);
    tidesdb_free_stats(stats);
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK(holds(txn, two, "k000499", "k000499") && holds(txn, cf, "k000000", "k000000"));
    CHECK_OK(tidesdb_txn_rollback(txn));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SERIALIZABLE));
    CHECK_OK(put(txn, two, "k", "too late"));
    CHECK_OK(tidesdb_close(db));
    /* It outlives its database. */
    CHECK_CODE(tidesdb_txn_commit(txn), TDB_ERR_INVALID_DB);
    CHECK_OK(tidesdb_txn_rollback(txn));
    CHECK_CODE(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT), TDB_ERR_INVALID_DB);
    tidesdb_txn_free(txn);

    db = open_below(directory, "background");
    two = tidesdb_get_column_family(db, "two");
    CHECK_OK(tidesdb_compact(two));
    CHECK_OK(tidesdb_get_stats(two, &stats));
    CHECK(stats->level_num_sstables[0] == 0 || stats->num_levels == 1);
    CHECK(stats->total_keys == 500);
    tidesdb_free_stats(stats);
    CHECK_OK(tidesdb_close(db));
}

static void ini_files(const char *directory)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    static char section[70000];
    char path[4096];

    CHECK_CODE(tidesdb_cf_config_load_from_ini(directory, "s", &config), TDB_ERR_IO);
    CHECK_CODE(tidesdb_cf_config_save_to_ini(directory, "s", &config), TDB_ERR_IO);
    snprintf(path, sizeof path, "%s/odd.ini", directory);
    memset(section, 's', sizeof section - 1);
    CHECK_OK(tidesdb_cf_config_save_to_ini(path, section, &config));
    config.level_size_ratio = 3;
    CHECK_OK(tidesdb_cf_config_load_from_ini(path, section, &config));
    CHECK(config.level_size_ratio == 10);
    config.level_size_ratio = 4;
    CHECK_OK(tidesdb_cf_config_save_to_ini(path, "]", &config));
    config.level_size_ratio = 3;
    CHECK_OK(tidesdb_cf_config_load_from_ini(path, "]", &config));
    CHECK(config.level_size_ratio == 4);
    CHECK_CODE(tidesdb_cf_config_save_to_ini(path, NULL, &config), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_cf_config_save_to_ini(path, "s", NULL), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_cf_config_load_from_ini(path, "s", NULL), TDB_ERR_INVALID_ARGS);
}

/* A link stays a link, a file is for those for whom it was, and a device stays a device. */
static void ini_places(const char *directory)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config(), found;
    char path[4096], linked[4096], pipe_name[64];
    struct stat state;
    int ends[2];
    char text[8];

    snprintf(path, sizeof path, "%s/place.ini", directory);
    snprintf(linked, sizeof linked, "%s/link.ini", directory);
    config.level_size_ratio = 6;
    CHECK_OK(tidesdb_cf_config_save_to_ini(path, "s", &config));
    CHECK(chmod(path, 0600) == 0 && symlink("place.ini", linked) == 0);
    config.level_size_ratio = 7;
    CHECK_OK(tidesdb_cf_config_save_to_ini(linked, "s", &config));
    CHECK(lstat(linked, &state) == 0 && S_ISLNK(state.st_mode));
    CHECK(stat(path, &state) == 0 && (state.st_mode & 0777) == 0600);
    CHECK_OK(tidesdb_cf_config_load_from_ini(path, "s", &found));
    CHECK(found.level_size_ratio == 7);
    /* As in /dev/stdout: nothing that root could replace, and so it is written to. */
    CHECK(pipe(ends) == 0);
    snprintf(pipe_name, sizeof pipe_name, "/dev/fd/%d", ends[1]);
    CHECK_OK(tidesdb_cf_config_save_to_ini(pipe_name, "s", &config));
    CHECK(read(ends[0], text, 4) == 4 && memcmp(text, "[s]\n", 4) == 0);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    snprintf(path, sizeof path, "%s/fifo", directory);
    CHECK(mkfifo(path, 0600) == 0);
    ends[0] = open(path, O_RDONLY | O_NONBLOCK);
    CHECK(ends[0] >= 0);
    CHECK_OK(tidesdb_cf_config_save_to_ini(path, "s", &config));
    CHECK(read(ends[0], text, 4) == 4 && memcmp(text, "[s]\n", 4) == 0);
    CHECK(lstat(path, &state) == 0 && S_ISFIFO(state.st_mode) && close(ends[0]) == 0);
}

int main(int count, char **arguments)
{
    tidesdb_t *db, *other;
    tidesdb_column_family_t *cf;

    CHECK(count == 2);
    db = open_below(arguments[1], "db");
    other = open_below(arguments[1], "other");
    cf = small_family(db, "default");
    family_options(db);
    odd_names(db);
    strangers(db, cf, other);
    CHECK_OK(tidesdb_cf_set_commit_hook(cf, removes_itself, cf));
    put_alone(db, cf, "hooked", "v");
    put_alone(db, cf, "hooked", "w");
    CHECK(calls == 1);
    CHECK_OK(tidesdb_close(other));
    CHECK_OK(tidesdb_close(db));
    background(arguments[1]);
    ini_files(arguments[1]);
    ini_places(arguments[1]);
    options(arguments[1]);
    puts("all checks hold");
    return 0;
}
