/* Which commits are synced: by the sync mode in force, and with a shared memtable by that of the
   database. The argument is an empty directory. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

static volatile int syncs;

/* The library calls these two for every sync of a file. */
int fsync(int file)
{
    __atomic_add_fetch(&syncs, 1, __ATOMIC_SEQ_CST);
    return (int)syscall(SYS_fsync, file);
}

int fdatasync(int file)
{
    __atomic_add_fetch(&syncs, 1, __ATOMIC_SEQ_CST);
    return (int)syscall(SYS_fdatasync, file);
}

#define COMMITS 40

/* Syncs of so many commits, each in a transaction of its own. */
static int syncs_of_commits(tidesdb_t *db, tidesdb_column_family_t *cf)
{
    const int before = syncs;
    int n;
    for (n = 0; n < COMMITS; n++) put_alone(db, cf, "k", "v");
    return syncs - before;
}

static void change(tidesdb_column_family_t *cf, tidesdb_sync_mode_t mode, uint64_t interval_us,
                   int stored)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    config.sync_mode = mode;
    config.sync_interval_us = interval_us;
    CHECK_OK(tidesdb_cf_update_runtime_config(cf, &config, stored));
}

static tidesdb_t *open_with(char *path, int unified, tidesdb_sync_mode_t mode)
{
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_t *db = NULL;
    config.db_path = path;
    config.log_level = TDB_LOG_NONE;
    config.unified_memtable = unified;
    config.unified_memtable_sync_mode = mode;
    config.unified_memtable_sync_interval_us = 1000;
    CHECK_OK(tidesdb_open(&config, &db));
    return db;
}

/* A sync in the background follows each commit. */
static void in_intervals(tidesdb_t *db, tidesdb_column_family_t *cf)
{
    int round;
    for (round = 0; round < 5; round++)
    {
        const int before = syncs;
        put_alone(db, cf, "k", "v");
        WAIT_FOR(syncs > before);
    }
}

/* Another mode counts for the log that is there. */
static void modes_of_a_family(char *path)
{
    tidesdb_t *db = open_with(path, 0, TDB_SYNC_NONE);
    tidesdb_column_family_t *cf = small_family(db, "cf");
    int round;
    for (round = 0; round < 2; round++)
    {
        change(cf, TDB_SYNC_NONE, 0, 0);
        CHECK(syncs_of_commits(db, cf) < COMMITS / 2);
        change(cf, TDB_SYNC_FULL, 0, 0);
        CHECK(syncs_of_commits(db, cf) >= COMMITS);
        change(cf, TDB_SYNC_INTERVAL, 1000, 0);
        in_intervals(db, cf);
    }
    CHECK_OK(tidesdb_close(db));
}

static int sync_mode_of(tidesdb_column_family_t *cf)
{
    tidesdb_stats_t *stats = NULL;
    int mode;
    CHECK_OK(tidesdb_get_stats(cf, &stats));
    mode = stats->config->sync_mode;
    tidesdb_free_stats(stats);
    return mode;
}

/* With a shared memtable the mode of the database counts, and those of families are kept for when
   there is none. */
static void modes_of_a_shared_memtable(char *path)
{
    tidesdb_t *db = open_with(path, 1, TDB_SYNC_NONE);
    tidesdb_column_family_t *cf = small_family(db, "cf");

    change(cf, TDB_SYNC_FULL, 0, 1);
    CHECK(syncs_of_commits(db, cf) < COMMITS / 2);
    CHECK(sync_mode_of(cf) == TDB_SYNC_FULL);
    CHECK_OK(tidesdb_close(db));

    db = open_with(path, 0, TDB_SYNC_NONE);
    cf = tidesdb_get_column_family(db, "cf");
    CHECK(sync_mode_of(cf) == TDB_SYNC_FULL && syncs_of_commits(db, cf) >= COMMITS);
    change(cf, TDB_SYNC_NONE, 0, 1);
    CHECK_OK(tidesdb_close(db));

    db = open_with(path, 1, TDB_SYNC_FULL);
    cf = tidesdb_get_column_family(db, "cf");
    CHECK(sync_mode_of(cf) == TDB_SYNC_NONE && syncs_of_commits(db, cf) >= COMMITS);
    CHECK_OK(tidesdb_close(db));

    db = open_with(path, 1, TDB_SYNC_INTERVAL);
    in_intervals(db, tidesdb_get_column_family(db, "cf"));
    CHECK_OK(tidesdb_close(db));
}

int main(int count, char **arguments)
{
    char path[4096];

    CHECK(count == 2);
    snprintf(path, sizeof path, "%s/own", arguments[1]);
    modes_of_a_family(path);
    snprintf(path, sizeof path, "%s/shared", arguments[1]);
    modes_of_a_shared_memtable(path);
    puts("all checks hold");
    return 0;
}
