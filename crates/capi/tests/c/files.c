/* What crashes, damage, modes and background work leave of a database. The argument is an empty
   directory. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

static tidesdb_t *open_with(char *path, int unified)
{
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_t *db = NULL;
    config.db_path = path;
    config.log_level = TDB_LOG_NONE;
    config.unified_memtable = unified;
    config.unified_memtable_sync_mode = TDB_SYNC_FULL;
    CHECK_OK(tidesdb_open(&config, &db));
    return db;
}

/* The path of the file with the highest name that begins and ends so; 0 if there is none. */
static int newest(const char *directory, const char *begin_with, const char *end_with, char *path)
{
    DIR *dir = opendir(directory);
    struct dirent *entry;
    char name[256] = "";
    CHECK(dir != NULL);
    while ((entry = readdir(dir)) != NULL)
    {
        const size_t length = strlen(entry->d_name), tail = strlen(end_with);
        if (strncmp(entry->d_name, begin_with, strlen(begin_with)) == 0 && length > tail &&
            strcmp(entry->d_name + length - tail, end_with) == 0 && strcmp(entry->d_name, name) > 0)
            snprintf(name, sizeof name, "%s", entry->d_name);
    }
    closedir(dir);
    snprintf(path, 4096, "%s/%s", directory, name);
    return name[0] != 0;
}

/* Cuts the log that has a key in the middle of that key; where. */
static long cut_behind(const char *directory, const char *key)
{
    static char bytes_of_log[16 << 20];
    DIR *dir = opendir(directory);
    struct dirent *entry;
    long at = 0;
    CHECK(dir != NULL);
    while ((entry = readdir(dir)) != NULL)
    {
        char path[4096], *found;
        size_t size;
        FILE *file;
        if (strncmp(entry->d_name, "wal", 3) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        file = fopen(path, "r");
        CHECK(file != NULL);
        size = fread(bytes_of_log, 1, sizeof bytes_of_log, file);
        CHECK(fclose(file) == 0);
        found = memmem(bytes_of_log, size, key, strlen(key));
        if (found == NULL) continue;
        at = found + strlen(key) / 2 - bytes_of_log;
        CHECK(truncate(path, at) == 0);
    }
    closedir(dir);
    return at;
}

#define FAMILIES 4

/* A process that is killed between its commits has lost none that was answered. */
static void kills(const char *directory, int unified, int families)
{
    char path[2048];
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    tidesdb_t *db;
    tidesdb_txn_t *txn;
    int ends[2], status, committed = -1, number, n;
    pid_t child;

    snprintf(path, sizeof path, "%s/killed %d %d", directory, unified, families);
    CHECK(pipe(ends) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
    {
        tidesdb_column_family_t *cfs[FAMILIES];
        db = open_with(path, unified);
        config.sync_mode = TDB_SYNC_FULL;
        config.write_buffer_size = 64 << 10;
        for (n = 0; n < families; n++)
        {
            char name[16];
            snprintf(name, sizeof name, "cf%d", n);
            CHECK_OK(tidesdb_create_column_family(db, name, &config));
            cfs[n] = tidesdb_get_column_family(db, name);
        }
        for (number = 0;; number++)
        {
            char key[16], value[3000];
            txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
            snprintf(key, sizeof key, "k%06d", number);
            memset(value, 'v', sizeof value);
            value[sizeof value - 1] = 0;
            for (n = 0; n < families; n++) CHECK_OK(put(txn, cfs[n], key, value));
            CHECK_OK(tidesdb_txn_commit(txn));
            tidesdb_txn_free(txn);
            if (number % 7 == 6) CHECK_OK(tidesdb_flush_memtable(cfs[number % families]));
            if (write(ends[1], &number, sizeof number) != sizeof number) _exit(1);
        }
    }
    close(ends[1]);
    while (read(ends[0], &number, sizeof number) == sizeof number)
    {
        committed = number;
        if (number == 60) CHECK(kill(child, SIGKILL) == 0);
    }
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    CHECK(committed >= 60);

    db = open_with(path, unified);
    txn = begin(db, TDB_ISOLATION_SNAPSHOT);
    for (number = 0; number < committed + 3; number++)
    {
        char key[16];
        int found = 0;
        snprintf(key, sizeof key, "k%06d", number);
        for (n = 0; n < families; n++)
        {
            char name[16];
            snprintf(name, sizeof name, "cf%d", n);
            found += tidesdb_txn_contains(txn, tidesdb_get_column_family(db, name), bytes(key),
                                          7) == TDB_SUCCESS;
        }
        /* All families or none, and all that were answered. */
        CHECK(found == families || (found == 0 && number > committed));
    }
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_close(db));
}

/* Damages in files: what was written before is there. `repaired` has more of manifests. */
static void damage(const char *directory)
{
    char path[2048], file[4096];
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn;
    tidesdb_t *db = NULL;
    uint8_t *value = NULL;
    size_t size = 0;
    FILE *out;
    pid_t child;
    int status;

    snprintf(path, sizeof path, "%s/damaged", directory);
    /* A log that ends in the middle of a record. */
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
    {
        db = open_with(path, 0);
        cf = small_family(db, "cf");
        put_alone(db, cf, "flushed", "v");
        CHECK_OK(tidesdb_compact(cf));
        put_alone(db, cf, "last", "v");
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(cut_behind(path, "last") > 0);
    db = open_with(path, 0);
    cf = tidesdb_get_column_family(db, "cf");
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK(holds(txn, cf, "flushed", "v") && holds(txn, cf, "last", NULL));
    tidesdb_txn_free(txn);
    put_alone(db, cf, "new", "v");
    CHECK_OK(tidesdb_close(db));
    /* A table that can't be read: reads of it fail, everything else works. */
    CHECK(newest(path, "", ".klog", file));
    out = fopen(file, "r+");
    CHECK(out != NULL && fputs("garbage garbage garbage garbage", out) >= 0 && fclose(out) == 0);
    db = open_with(path, 0);
    cf = tidesdb_get_column_family(db, "cf");
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK_CODE(tidesdb_txn_get(txn, cf, bytes("new"), 3, &value, &size), TDB_ERR_CORRUPTION);
    CHECK(value == NULL && size == 0 && holds(txn, cf, "flushed", "v"));
    put_alone(db, cf, "more", "v");
    CHECK(holds(txn, cf, "more", "v"));
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_close(db));
    /* And a manifest that is none: what can be read is there, and new writes are taken. */
    CHECK(newest(path, "MANIFEST", "", file));
    out = fopen(file, "r+");
    CHECK(out != NULL && fputs("garbage garbage garbage garbage", out) >= 0 && fclose(out) == 0);
    db = open_with(path, 0);
    cf = tidesdb_get_column_family(db, "cf");
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK(holds(txn, cf, "flushed", "v") && holds(txn, cf, "more", "v"));
    tidesdb_txn_free(txn);
    put_alone(db, cf, "newest", "v");
    CHECK_OK(tidesdb_close(db));
}

/* Families keep what is theirs over modes, renamings, drops and reopenings. */
static void modes(const char *directory)
{
    char path[2048];
    tidesdb_t *db;
    int round;

    snprintf(path, sizeof path, "%s/modes", directory);
    db = open_with(path, 1);
    put_alone(db, small_family(db, "a"), "k", "a");
    put_alone(db, small_family(db, "b"), "k", "b");
    put_alone(db, small_family(db, "c"), "k", "c");
    CHECK_OK(tidesdb_drop_column_family(db, "a"));
    CHECK_OK(tidesdb_rename_column_family(db, "b", "a"));
    CHECK_OK(tidesdb_rename_column_family(db, "c", "b"));
    CHECK_CODE(tidesdb_rename_column_family(db, "a", "b"), TDB_ERR_EXISTS);
    for (round = 0; round < 4; round++)
    {
        tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
        CHECK(tidesdb_get_column_family(db, "c") == NULL);
        CHECK(holds(txn, tidesdb_get_column_family(db, "a"), "k", "b"));
        CHECK(holds(txn, tidesdb_get_column_family(db, "b"), "k", "c"));
        tidesdb_txn_free(txn);
        CHECK_OK(tidesdb_close(db));
        db = open_with(path, round % 2);
    }
    CHECK_OK(tidesdb_close(db));
}

static void put_many(tidesdb_t *db, tidesdb_column_family_t *cf, int from, int count)
{
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    int n;
    for (n = from; n < from + count; n++)
    {
        char key[16];
        snprintf(key, sizeof key, "k%06d", n);
        CHECK_OK(put(txn, cf, key, key));
    }
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_flush_memtable(cf));
    WAIT_FOR(!tidesdb_is_flushing(cf));
}

static void check_many(tidesdb_t *db, tidesdb_column_family_t *cf, int count)
{
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    int n;
    for (n = 0; n < count; n++)
    {
        char key[16];
        snprintf(key, sizeof key, "k%06d", n);
        CHECK(holds(txn, cf, key, key));
    }
    tidesdb_txn_free(txn);
}

static uint64_t tombstones_of(tidesdb_column_family_t *cf)
{
    tidesdb_stats_t *stats = NULL;
    uint64_t tombstones;
    CHECK_OK(tidesdb_get_stats(cf, &stats));
    tombstones = stats->total_tombstones;
    tidesdb_free_stats(stats);
    return tombstones;
}

static uint64_t compacted_bytes(tidesdb_column_family_t *cf)
{
    tidesdb_stats_t *stats = NULL;
    uint64_t written;
    CHECK_OK(tidesdb_get_stats(cf, &stats));
    written = stats->compaction_bytes_written;
    tidesdb_free_stats(stats);
    return written;
}

/* Tables of one setting are read with others in force; few tables may be open; a full first level
   and many tombstones are compacted without being asked. */
static void tables(const char *directory)
{
    char path[2048];
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_column_family_config_t family = tidesdb_default_column_family_config();
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn;
    tidesdb_t *db = NULL;
    uint64_t written;
    int n, count;

    snprintf(path, sizeof path, "%s/tables", directory);
    config.db_path = path;
    config.log_level = TDB_LOG_NONE;
    config.max_open_sstables = 1;
    /* Raised to a twentieth of the memory. */
    config.max_memory_usage = 1;
    CHECK_OK(tidesdb_open(&config, &db));
    family.write_buffer_size = 64 << 10;
    family.min_disk_space = 0;
    family.l1_file_count_trigger = 1000;
    CHECK_OK(tidesdb_create_column_family(db, "cf", &family));
    cf = tidesdb_get_column_family(db, "cf");
    for (n = 0; n < 6; n++)
    {
        family.compression_algorithm = (compression_algorithm)(n % 5);
        family.enable_bloom_filter = n % 2;
        family.enable_block_indexes = n % 3 != 0;
        family.index_sample_ratio = 1 + n;
        family.klog_value_threshold = n == 4 ? 4 : 512;
        CHECK_OK(tidesdb_cf_update_runtime_config(cf, &family, 1));
        put_many(db, cf, n * 100, 100);
    }
    check_many(db, cf, 600);
    /* Outside of everything: nothing is rewritten. */
    written = compacted_bytes(cf);
    count = tables_of(cf);
    CHECK_OK(tidesdb_compact_range(cf, bytes("x"), 1, bytes("y"), 1));
    CHECK(compacted_bytes(cf) == written && tables_of(cf) == count && count == 6);
    CHECK_CODE(tidesdb_compact_range(cf, bytes("x"), 0, bytes("y"), 1), TDB_ERR_INVALID_ARGS);
    CHECK_OK(tidesdb_compact_range(cf, bytes("k000100"), 7, bytes("k000300"), 7));
    check_many(db, cf, 600);
    /* One value too large for the memory there is. */
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    {
        tidesdb_db_stats_t all;
        size_t most;
        CHECK_OK(tidesdb_get_db_stats(db, &all));
        most = all.resolved_memory_limit / 4 * 3;
        CHECK(all.resolved_memory_limit >= all.total_memory / 20);
        if (most < UINT32_MAX)
            CHECK_CODE(tidesdb_txn_put(txn, cf, bytes("k"), 1, bytes("v"), most, 0),
                       TDB_ERR_MEMORY_LIMIT);
    }
    tidesdb_txn_free(txn);
    family.l1_file_count_trigger = 2;
    CHECK_OK(tidesdb_cf_update_runtime_config(cf, &family, 0));
    for (n = 0; n < 4; n++) put_many(db, cf, n * 100, 100);
    WAIT_FOR(tables_of(cf) <= 3);
    check_many(db, cf, 600);
    CHECK_OK(tidesdb_compact(cf));
    family.l1_file_count_trigger = 1000;
    family.tombstone_density_trigger = 0.5;
    family.tombstone_density_min_entries = 8;
    CHECK_OK(tidesdb_cf_update_runtime_config(cf, &family, 0));
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    for (n = 600; n < 700; n++)
    {
        char key[16];
        snprintf(key, sizeof key, "k%06d", n);
        CHECK_OK(tidesdb_txn_delete(txn, cf, bytes(key), strlen(key)));
    }
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_flush_memtable(cf));
    WAIT_FOR(!tidesdb_is_flushing(cf) && tombstones_of(cf) == 0);
    check_many(db, cf, 600);
    CHECK_OK(tidesdb_close(db));
}

static tidesdb_t *shared;
static volatile int running;

static void *write_on(void *argument)
{
    tidesdb_column_family_t *cf = argument;
    int n;
    for (n = 0; running || n < 100; n++)
    {
        tidesdb_txn_t *txn = begin(shared, TDB_ISOLATION_READ_COMMITTED);
        char key[16];
        int code;
        snprintf(key, sizeof key, "w%06d", n % 5000);
        CHECK_OK(put(txn, cf, key, "v"));
        code = tidesdb_txn_commit(txn);
        CHECK(code == TDB_SUCCESS || code == TDB_ERR_NOT_FOUND);
        tidesdb_txn_free(txn);
    }
    return NULL;
}

/* Families are renamed, copied and dropped beside writers, with work of theirs under way. */
static void beside_writers(const char *directory)
{
    char path[2048];
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn;
    pthread_t writer;
    int round;

    snprintf(path, sizeof path, "%s/writers", directory);
    shared = open_with(path, 0);
    cf = small_family(shared, "name 0");
    put_alone(shared, cf, "first", "v");
    running = 1;
    CHECK(pthread_create(&writer, NULL, write_on, cf) == 0);
    for (round = 0; round < 8; round++)
    {
        char old_name[16], new_name[16];
        snprintf(old_name, sizeof old_name, "name %d", round);
        snprintf(new_name, sizeof new_name, "name %d", round + 1);
        CHECK_OK(tidesdb_rename_column_family(shared, old_name, new_name));
        CHECK_OK(tidesdb_clone_column_family(shared, new_name, "copy"));
        txn = begin(shared, TDB_ISOLATION_READ_COMMITTED);
        CHECK(holds(txn, tidesdb_get_column_family(shared, "copy"), "first", "v"));
        tidesdb_txn_free(txn);
        CHECK_OK(tidesdb_flush_memtable(tidesdb_get_column_family(shared, "copy")));
        CHECK_OK(tidesdb_flush_memtable(cf));
        CHECK_OK(tidesdb_drop_column_family(shared, "copy"));
        CHECK(tidesdb_get_column_family(shared, "copy") == NULL);
    }
    running = 0;
    CHECK(pthread_join(writer, NULL) == 0);
    txn = begin(shared, TDB_ISOLATION_READ_COMMITTED);
    CHECK(holds(txn, tidesdb_get_column_family(shared, "name 8"), "w000099", "v"));
    /* A new family of an old name is empty. */
    CHECK(holds(txn, small_family(shared, "copy"), "first", NULL));
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_close(shared));
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    kills(arguments[1], 0, 1);
    kills(arguments[1], 0, FAMILIES);
    kills(arguments[1], 1, FAMILIES);
    damage(arguments[1]);
    modes(arguments[1]);
    tables(arguments[1]);
    beside_writers(arguments[1]);
    puts("all checks hold");
    return 0;
}
