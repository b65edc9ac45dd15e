/* What a close does with compactions, by finish_compactions_on_close. The argument is an empty
   directory. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

/* The first read of a background thread while this is 1 makes it 2 and waits until it is 3. */
static volatile int hold;
static __thread int is_ours;

static void wait_if_held(void)
{
    int expected = 1;
    if (is_ours ||
        !__atomic_compare_exchange_n(&hold, &expected, 2, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return;
    while (hold != 3)
    {
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
    }
}

/* The library calls this one for reads of tables. */
ssize_t pread64(int file, void *bytes_of, size_t size, off_t at)
{
    wait_if_held();
    return (ssize_t)syscall(SYS_pread64, file, bytes_of, size, at);
}

static tidesdb_t *closed;
static volatile int freed;

static void watching_free(void *pointer)
{
    if (pointer != NULL && pointer == closed) freed = 1;
    free(pointer);
}

static tidesdb_t *open_with(char *path, int finish)
{
    tidesdb_config_t config = quiet_config(path);
    config.num_compaction_threads = 1;
    config.finish_compactions_on_close = finish;
    return open_by(config);
}

#define KEYS 100

static void set_trigger(tidesdb_column_family_t *cf, int trigger)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    config.min_disk_space = 0;
    config.l1_file_count_trigger = trigger;
    CHECK_OK(tidesdb_cf_update_runtime_config(cf, &config, 1));
}

/* Tables whose keys lie between each other's. Nothing compacts them yet. */
static tidesdb_column_family_t *with_tables(tidesdb_t *db, int tables)
{
    tidesdb_column_family_t *cf = small_family(db, "cf");
    int table, n;
    set_trigger(cf, 1000);
    for (table = 0; table < tables; table++)
    {
        for (n = 0; n < KEYS; n++)
        {
            char key[32];
            snprintf(key, sizeof key, "k%03d of %d", n, table);
            put_alone(db, cf, key, "v");
        }
        CHECK_OK(tidesdb_flush_memtable(cf));
        WAIT_FOR(!tidesdb_is_flushing(cf));
    }
    CHECK(tables_of(cf) == tables);
    return cf;
}

/* After a reopening that compacts nothing by itself. */
static void check_left(char *path, int tables, int keys_of)
{
    tidesdb_t *db = open_with(path, 0);
    tidesdb_column_family_t *cf = tidesdb_get_column_family(db, "cf");
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    int n;
    CHECK(tables_of(cf) == tables);
    for (n = 0; n < KEYS * keys_of; n++)
    {
        char key[32];
        snprintf(key, sizeof key, "k%03d of %d", n / keys_of, n % keys_of);
        CHECK(holds(txn, cf, key, "v"));
    }
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_close(db));
}

/* 1: what would begin at rest does not begin. */
static void not_begun(char *path)
{
    tidesdb_t *db = open_with(path, 1);
    /* Twice the trigger are compacted at once, fewer at rest. */
    tidesdb_column_family_t *cf = with_tables(db, 3);
    set_trigger(cf, 2);
    CHECK_OK(tidesdb_close(db));
    check_left(path, 3, 3);
}

static void *close_it(void *unused)
{
    is_ours = 1;
    CHECK_OK(tidesdb_close(closed));
    return unused;
}

static void *let_go_later(void *unused)
{
    struct timespec pause = {0, 200000000};
    is_ours = 1;
    nanosleep(&pause, NULL);
    CHECK(hold == 2);
    hold = 3;
    return unused;
}

/* 1: a compaction that runs is waited for. */
static void finished(char *path)
{
    tidesdb_column_family_t *cf;
    pthread_t helper;

    closed = open_with(path, 1);
    cf = with_tables(closed, 8);
    hold = 1;
    set_trigger(cf, 2);
    WAIT_FOR(hold == 2);
    CHECK(tidesdb_is_compacting(cf) == 1);
    CHECK(pthread_create(&helper, NULL, let_go_later, NULL) == 0);
    CHECK_OK(tidesdb_close(closed));
    CHECK(hold == 3 && pthread_join(helper, NULL) == 0);
    hold = 0;
    check_left(path, 1, 8);
}

/* 1: what would follow a compaction that runs does not begin. */
static void backlog_left(char *path)
{
    tidesdb_column_family_t *cf;
    pthread_t helper;
    int table, n;

    closed = open_with(path, 1);
    cf = with_tables(closed, 8);
    hold = 1;
    set_trigger(cf, 2);
    WAIT_FOR(hold == 2);
    for (table = 8; table < 16; table++)
    {
        for (n = 0; n < KEYS; n++)
        {
            char key[32];
            snprintf(key, sizeof key, "k%03d of %d", n, table);
            put_alone(closed, cf, key, "v");
        }
        CHECK_OK(tidesdb_flush_memtable(cf));
        WAIT_FOR(!tidesdb_is_flushing(cf));
    }
    CHECK(pthread_create(&helper, NULL, let_go_later, NULL) == 0);
    CHECK_OK(tidesdb_close(closed));
    CHECK(hold == 3 && pthread_join(helper, NULL) == 0);
    hold = 0;
    check_left(path, 9, 16);
}

/* All of these find a handle that is there, and are refused. */
static void refused_while_closing(tidesdb_column_family_t *cf)
{
    tidesdb_txn_t *txn = NULL;
    char **names = NULL;
    int names_of = 0;
    CHECK(hold == 2);
    CHECK_CODE(tidesdb_txn_begin(closed, &txn), TDB_ERR_INVALID_DB);
    CHECK(txn == NULL);
    CHECK(tidesdb_get_column_family(closed, "cf") == NULL);
    CHECK_CODE(tidesdb_list_column_families(closed, &names, &names_of), TDB_ERR_INVALID_DB);
    CHECK_CODE(tidesdb_drop_column_family(closed, "cf"), TDB_ERR_INVALID_DB);
    CHECK_CODE(tidesdb_sync_wal(cf), TDB_ERR_INVALID_DB);
    CHECK_CODE(tidesdb_flush_memtable(cf), TDB_ERR_INVALID_DB);
    CHECK_CODE(tidesdb_close(closed), TDB_ERR_INVALID_DB);
    CHECK(!freed);
}

/* 0: a compaction that runs is given up, and its input is what is left. */
static void given_up(char *path)
{
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn;
    pthread_t closer;
    uint8_t *value = NULL;
    size_t size;
    int code = TDB_SUCCESS;

    closed = open_with(path, 0);
    freed = 0;
    cf = with_tables(closed, 8);
    txn = begin(closed, TDB_ISOLATION_READ_COMMITTED);
    hold = 1;
    set_trigger(cf, 2);
    WAIT_FOR(hold == 2);
    CHECK(tidesdb_is_compacting(cf) == 1);
    CHECK(pthread_create(&closer, NULL, close_it, NULL) == 0);
    /* Refused from when the compaction is told to end. */
    while (code == TDB_SUCCESS)
    {
        code = tidesdb_txn_get(txn, cf, bytes("k000 of 0"), 9, &value, &size);
        if (code == TDB_SUCCESS) tidesdb_free(value);
    }
    CHECK(code == TDB_ERR_INVALID_DB);
    refused_while_closing(cf);
    hold = 3;
    CHECK(pthread_join(closer, NULL) == 0);
    CHECK(freed);
    tidesdb_txn_free(txn);
    check_left(path, 8, 8);
}

int main(int count, char **arguments)
{
    char path[4096];

    CHECK(count == 2);
    CHECK_OK(tidesdb_init(NULL, NULL, NULL, watching_free));
    is_ours = 1;
    snprintf(path, sizeof path, "%s/finished", arguments[1]);
    finished(path);
    snprintf(path, sizeof path, "%s/backlog", arguments[1]);
    backlog_left(path);
    snprintf(path, sizeof path, "%s/not begun", arguments[1]);
    not_begun(path);
    snprintf(path, sizeof path, "%s/given up", arguments[1]);
    given_up(path);
    puts("all checks hold");
    return 0;
}
