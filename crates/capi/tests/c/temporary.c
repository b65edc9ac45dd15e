/* Options of a family that are changed and not stored: in force until the database is closed or its
   process ends. The argument is an empty directory. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

/* What a family has now: its threshold of values, which is 512 when nothing was changed, and its
   sync mode, which is NONE then. */
static void check(tidesdb_t *db, const char *name, size_t threshold, int sync_mode)
{
    tidesdb_stats_t *stats = NULL;
    CHECK_OK(tidesdb_get_stats(tidesdb_get_column_family(db, name), &stats));
    CHECK(stats->config->klog_value_threshold == threshold);
    CHECK(stats->config->sync_mode == sync_mode);
    CHECK(stats->config->min_disk_space == 0 && stats->config->write_buffer_size == 64 << 10);
    tidesdb_free_stats(stats);
}

static void change(tidesdb_t *db, const char *name, size_t threshold, int sync_mode, int stored)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    config.write_buffer_size = 64 << 10;
    config.min_disk_space = 0;
    config.klog_value_threshold = threshold;
    config.sync_mode = sync_mode;
    CHECK_OK(
        tidesdb_cf_update_runtime_config(tidesdb_get_column_family(db, name), &config, stored));
    check(db, name, threshold, sync_mode);
}

/* Work that writes the manifest, of this family and of others. */
static void work(tidesdb_t *db, const char *name)
{
    tidesdb_column_family_t *cf = tidesdb_get_column_family(db, name);
    int n;
    for (n = 0; n < 8; n++)
    {
        put_alone(db, cf, "key", "a value of more than sixteen bytes");
        CHECK_OK(tidesdb_flush_memtable(cf));
        WAIT_FOR(!tidesdb_is_flushing(cf));
        small_family(db, "other");
        CHECK_OK(tidesdb_drop_column_family(db, "other"));
    }
    CHECK_OK(tidesdb_compact(cf));
}

/* Changes in a child that is killed. */
static void killed(char *path)
{
    int status;
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
    {
        tidesdb_t *db = open_in(path);
        change(db, "cf", 16, TDB_SYNC_FULL, 0);
        work(db, "cf");
        check(db, "cf", 16, TDB_SYNC_FULL);
        put_alone(db, tidesdb_get_column_family(db, "cf"), "last", "v");
        kill(getpid(), SIGKILL);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

static void copies(tidesdb_t *db, char *backup)
{
    tidesdb_t *copy;
    change(db, "cf", 32, TDB_SYNC_FULL, 0);
    CHECK_OK(tidesdb_clone_column_family(db, "cf", "clone"));
    check(db, "clone", 32, TDB_SYNC_FULL);
    CHECK_OK(tidesdb_rename_column_family(db, "clone", "renamed"));
    check(db, "renamed", 32, TDB_SYNC_FULL);
    CHECK_OK(tidesdb_backup(db, backup));
    copy = open_in(backup);
    check(copy, "cf", 512, TDB_SYNC_NONE);
    check(copy, "renamed", 512, TDB_SYNC_NONE);
    CHECK_OK(tidesdb_close(copy));
}

int main(int count, char **arguments)
{
    char path[4096], backup[4096];
    tidesdb_t *db;
    tidesdb_txn_t *txn;
    int stored;

    CHECK(count == 2);
    snprintf(path, sizeof path, "%s/db", arguments[1]);
    snprintf(backup, sizeof backup, "%s/backup", arguments[1]);
    db = open_in(path);
    small_family(db, "cf");
    check(db, "cf", 512, TDB_SYNC_NONE);
    CHECK_OK(tidesdb_close(db));

    killed(path);
    db = open_in(path);
    check(db, "cf", 512, TDB_SYNC_NONE);
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK(holds(txn, tidesdb_get_column_family(db, "cf"), "last", "v"));
    tidesdb_txn_free(txn);
    copies(db, backup);
    work(db, "cf");
    check(db, "cf", 32, TDB_SYNC_FULL);
    CHECK_OK(tidesdb_close(db));

    /* A clean close stores them no more than a kill does. */
    db = open_in(path);
    check(db, "cf", 512, TDB_SYNC_NONE);
    check(db, "renamed", 512, TDB_SYNC_NONE);
    /* What is stored is all of an update, whichever came before. */
    for (stored = -1; stored <= 1; stored += 2)
    {
        change(db, "cf", 64, TDB_SYNC_FULL, 0);
        change(db, "cf", 64, TDB_SYNC_NONE + (stored < 0), stored);
        change(db, "cf", 128, TDB_SYNC_FULL, 0);
        CHECK_OK(tidesdb_close(db));
        db = open_in(path);
        check(db, "cf", 64, TDB_SYNC_NONE + (stored < 0));
    }
    CHECK_OK(tidesdb_close(db));
    puts("all checks hold");
    return 0;
}
