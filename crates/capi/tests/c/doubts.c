/* Commits whose sync fails: they are visible, and nothing says that they were taken back. The
   argument is an empty directory. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

/* The library calls these two for every sync. */
static volatile int failing;

int fsync(int file)
{
    errno = EIO;
    return failing ? -1 : (int)syscall(SYS_fsync, file);
}

int fdatasync(int file)
{
    errno = EIO;
    return failing ? -1 : (int)syscall(SYS_fdatasync, file);
}

int main(int count, char **arguments)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn, *reader;
    tidesdb_t *db;
    char path[4096];
    int code;

    CHECK(count == 2);
    snprintf(path, sizeof path, "%s/db", arguments[1]);
    db = open_in(path);
    config.sync_mode = TDB_SYNC_FULL;
    CHECK_OK(tidesdb_create_column_family(db, "default", &config));
    cf = tidesdb_get_column_family(db, "default");
    put_alone(db, cf, "k", "1");
    reader = begin(db, TDB_ISOLATION_READ_COMMITTED);

    /* Given up: the answer is not that nothing happened. */
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK_OK(put(txn, cf, "k", "2"));
    failing = 1;
    CHECK_CODE(tidesdb_txn_commit(txn), TDB_ERR_IO);
    CHECK(holds(reader, cf, "k", "2"));
    CHECK_CODE(tidesdb_txn_rollback(txn), TDB_ERR_IO);
    CHECK_CODE(tidesdb_txn_rollback(txn), TDB_ERR_IO);
    CHECK_CODE(tidesdb_txn_commit(txn), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(put(txn, cf, "k", "x"), TDB_ERR_INVALID_ARGS);
    CHECK(holds(reader, cf, "k", "2"));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));

    /* One that fails is as it was, and can be committed once the disk works. */
    CHECK_OK(put(txn, cf, "k", "3"));
    code = tidesdb_txn_commit(txn);
    CHECK_CODE(code, TDB_ERR_IO);
    failing = 0;
    WAIT_FOR(code == TDB_SUCCESS || (code = tidesdb_txn_commit(txn)) == TDB_SUCCESS);
    CHECK_CODE(tidesdb_txn_rollback(txn), TDB_ERR_INVALID_ARGS);
    CHECK(holds(reader, cf, "k", "3"));

    /* A plain rollback is what it was. */
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    CHECK_OK(put(txn, cf, "k", "4"));
    CHECK_OK(tidesdb_txn_rollback(txn));
    CHECK_OK(tidesdb_txn_rollback(txn));

    /* One that failed and was given up does not keep others from its keys. */
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT));
    CHECK_OK(put(txn, cf, "held", "1"));
    failing = 1;
    CHECK_CODE(tidesdb_txn_commit(txn), TDB_ERR_IO);
    tidesdb_txn_rollback(txn);
    failing = 0;
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT));
    CHECK_OK(put(txn, cf, "held", "2"));
    do
    {
        const struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
        code = tidesdb_txn_commit(txn);
        CHECK(code == TDB_SUCCESS || code == TDB_ERR_IO);
    } while (code != TDB_SUCCESS);
    CHECK(holds(reader, cf, "held", "2"));
    tidesdb_txn_free(txn);
    tidesdb_txn_free(reader);
    CHECK_OK(tidesdb_close(db));

    db = open_in(path);
    cf = tidesdb_get_column_family(db, "default");
    reader = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK(holds(reader, cf, "k", "3"));
    tidesdb_txn_free(reader);
    CHECK_OK(tidesdb_close(db));
    puts("all checks hold");
    return 0;
}
