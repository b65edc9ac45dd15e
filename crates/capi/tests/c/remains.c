/* What remains of deletions, of times to live and in copies, over a crash and a reopening. The
   argument is an empty directory. */
#define _GNU_SOURCE
#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

static void put_until(tidesdb_t *db, tidesdb_column_family_t *cf, const char *key, time_t ttl)
{
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK_OK(tidesdb_txn_put(txn, cf, bytes(key), strlen(key), bytes("v"), 1, ttl));
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
}

static void delete_once(tidesdb_t *db, tidesdb_column_family_t *cf, const char *key)
{
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK_OK(tidesdb_txn_single_delete(txn, cf, bytes(key), strlen(key)));
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
}

/* Single deletions of a process that dies are deletions after it: of what is in a table, of what is
   in the log, and of what the same log has twice. */
static void single_deletions(char *path)
{
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn;
    tidesdb_t *db;
    int status, round;
    const pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0)
    {
        db = open_in(path);
        cf = small_family(db, "cf");
        put_alone(db, cf, "in a table", "v");
        put_alone(db, cf, "kept", "v");
        CHECK_OK(tidesdb_compact(cf));
        put_alone(db, cf, "in the log", "v");
        put_alone(db, cf, "again", "old");
        delete_once(db, cf, "in a table");
        delete_once(db, cf, "in the log");
        delete_once(db, cf, "again");
        delete_once(db, cf, "never there");
        put_alone(db, cf, "again", "new");
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    db = open_in(path);
    cf = tidesdb_get_column_family(db, "cf");
    for (round = 0; round < 2; round++)
    {
        txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
        CHECK(holds(txn, cf, "in a table", NULL) && holds(txn, cf, "in the log", NULL));
        CHECK(holds(txn, cf, "never there", NULL));
        CHECK(holds(txn, cf, "kept", "v") && holds(txn, cf, "again", "new"));
        tidesdb_txn_free(txn);
        CHECK_OK(tidesdb_compact(cf));
    }
    CHECK_OK(tidesdb_close(db));
}

/* Times to live hold after a reopening: in a table, and in the log of a process that died. */
static void expiry(char *path)
{
    /* Not so soon that it is over before the process has died. */
    const time_t soon = time(NULL) + 3, late = soon + 1000;
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn;
    tidesdb_t *db;
    int status, round, before;
    const pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0)
    {
        db = open_in(path);
        cf = small_family(db, "cf");
        put_until(db, cf, "table, soon", soon);
        put_until(db, cf, "table, late", late);
        CHECK_OK(tidesdb_flush_memtable(cf));
        WAIT_FOR(!tidesdb_is_flushing(cf));
        put_until(db, cf, "log, soon", soon);
        put_until(db, cf, "log, late", late);
        put_until(db, cf, "log, past", 1);
        put_until(db, cf, "log, never", 0);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    for (round = 0; round < 2; round++)
    {
        db = open_in(path);
        cf = tidesdb_get_column_family(db, "cf");
        txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
        before = time(NULL) < soon;
        /* Both are there or both are gone; gone when it was late before they were asked for. */
        CHECK(before || holds(txn, cf, "table, soon", NULL));
        CHECK(before || holds(txn, cf, "log, soon", NULL));
        CHECK(holds(txn, cf, "table, soon", "v") || time(NULL) >= soon);
        CHECK(holds(txn, cf, "log, soon", "v") || time(NULL) >= soon);
        WAIT_FOR(time(NULL) >= soon);
        CHECK(holds(txn, cf, "table, soon", NULL) && holds(txn, cf, "log, soon", NULL));
        CHECK(holds(txn, cf, "table, late", "v") && holds(txn, cf, "log, late", "v"));
        CHECK(holds(txn, cf, "log, past", NULL) && holds(txn, cf, "log, never", "v"));
        tidesdb_txn_free(txn);
        CHECK_OK(tidesdb_close(db));
    }
}

/* A copy has the lock of the database that it is of neither as a file nor as a link: a lock that is
   there is its own, and is free. */
static void copies(const char *directory)
{
    char path[1024], target[1024], lock[2048];
    tidesdb_t *db, *copy;
    struct stat own, found;
    int hard;

    snprintf(path, sizeof path, "%s/copied", directory);
    db = open_in(path);
    put_alone(db, small_family(db, "cf"), "k", "v");
    snprintf(lock, sizeof lock, "%s/LOCK", path);
    CHECK(stat(lock, &own) == 0);
    for (hard = 0; hard < 2; hard++)
    {
        tidesdb_txn_t *txn;
        snprintf(target, sizeof target, "%s/copy %d", directory, hard);
        CHECK_OK(hard ? tidesdb_checkpoint(db, target) : tidesdb_backup(db, target));
        snprintf(lock, sizeof lock, "%s/LOCK", target);
        CHECK(stat(lock, &found) != 0 || (found.st_ino != own.st_ino && found.st_size == 0));
        copy = open_in(target);
        txn = begin(copy, TDB_ISOLATION_READ_COMMITTED);
        CHECK(holds(txn, tidesdb_get_column_family(copy, "cf"), "k", "v"));
        tidesdb_txn_free(txn);
        CHECK_OK(tidesdb_close(copy));
    }
    CHECK_OK(tidesdb_close(db));
}

int main(int count, char **arguments)
{
    char path[4096];

    CHECK(count == 2);
    snprintf(path, sizeof path, "%s/single", arguments[1]);
    single_deletions(path);
    snprintf(path, sizeof path, "%s/expiry", arguments[1]);
    expiry(path);
    copies(arguments[1]);
    puts("all checks hold");
    return 0;
}
