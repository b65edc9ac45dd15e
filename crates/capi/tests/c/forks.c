/* What a forked child and a second process do to a database: nothing. The argument is an empty
   directory. */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

/* The exit code of a child; a signal or twenty seconds are a failure. */
static int wait_for(pid_t child)
{
    struct timespec pause = {0, 5000000};
    int status = 0, n;
    for (n = 0; n < 4000; n++)
    {
        if (waitpid(child, &status, WNOHANG) == child)
        {
            CHECK(WIFEXITED(status));
            return WEXITSTATUS(status);
        }
        nanosleep(&pause, NULL);
    }
    kill(child, SIGKILL);
    CHECK(!"a child does not end");
    return -1;
}

/* What is given back is addresses that are none. */
static void spoiling_free(void *pointer)
{
    if (pointer != NULL) memset(pointer, 0xdd, malloc_usable_size(pointer));
    free(pointer);
}

/* A child that calls the handles it has inherited is refused, and does no harm. */
static int use_in_child(tidesdb_t *db, tidesdb_column_family_t *cf, tidesdb_txn_t *txn,
                        tidesdb_iter_t *iter)
{
    tidesdb_txn_t *own = NULL;
    tidesdb_stats_t *stats = NULL;
    uint8_t *value = NULL;
    size_t size = 0;
    if (tidesdb_txn_get(txn, cf, bytes("k"), 1, &value, &size) != TDB_ERR_INVALID_DB) return 1;
    if (tidesdb_txn_commit(txn) != TDB_ERR_INVALID_DB) return 2;
    if (tidesdb_txn_begin(db, &own) != TDB_ERR_INVALID_DB) return 3;
    if (tidesdb_flush_memtable(cf) != TDB_ERR_INVALID_DB) return 4;
    if (tidesdb_compact(cf) != TDB_ERR_INVALID_DB) return 5;
    if (tidesdb_sync_wal(cf) != TDB_ERR_INVALID_DB) return 6;
    if (tidesdb_drop_column_family(db, "default") != TDB_ERR_INVALID_DB) return 7;
    if (tidesdb_iter_seek_to_first(iter) != TDB_ERR_INVALID_DB) return 8;
    if (tidesdb_iter_seek_to_last(iter) != TDB_ERR_INVALID_DB) return 9;
    if (tidesdb_iter_seek(iter, bytes("k"), 1) != TDB_ERR_INVALID_DB) return 10;
    if (tidesdb_iter_seek_for_prev(iter, bytes("k"), 1) != TDB_ERR_INVALID_DB) return 11;
    if (tidesdb_iter_next(iter) != TDB_ERR_INVALID_DB) return 12;
    if (tidesdb_iter_prev(iter) != TDB_ERR_INVALID_DB) return 13;
    if (tidesdb_iter_key(iter, &value, &size) != TDB_ERR_INVALID_DB) return 14;
    if (tidesdb_iter_value(iter, &value, &size) != TDB_ERR_INVALID_DB) return 15;
    if (tidesdb_iter_valid(iter)) return 16;
    if (tidesdb_txn_savepoint(txn, "s") != TDB_ERR_INVALID_DB) return 17;
    if (tidesdb_txn_rollback_to_savepoint(txn, "s") != TDB_ERR_INVALID_DB) return 18;
    if (tidesdb_txn_release_savepoint(txn, "s") != TDB_ERR_INVALID_DB) return 19;
    if (tidesdb_txn_rollback(txn) != TDB_ERR_INVALID_DB) return 20;
    if (tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT) != TDB_ERR_INVALID_DB) return 21;
    tidesdb_iter_free(iter);
    tidesdb_txn_free(txn);
    tidesdb_close(db);
    /* What a call reads of a family is not the database's. */
    if (tidesdb_compact(cf) != TDB_ERR_INVALID_DB) return 22;
    if (tidesdb_get_stats(cf, &stats) != TDB_ERR_INVALID_DB) return 23;
    return 0;
}

static tidesdb_t *used;
static tidesdb_column_family_t *plain, *ordered;
static volatile int running;

static int as_bytes(const uint8_t *key1, size_t size1, const uint8_t *key2, size_t size2, void *ctx)
{
    return tidesdb_comparator_memcmp(key1, size1, key2, size2, ctx);
}

/* Holds what can be locked in a handle, most of the time. */
static void *use_on(void *argument)
{
    const int number = *(int *)argument;
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    int n;
    for (n = 0; running; n++)
    {
        char name[32];
        snprintf(name, sizeof name, "%d %d", number, n);
        if (number == 0) CHECK_OK(tidesdb_cf_update_runtime_config(plain, &config, 1));
        if (number == 1)
        {
            CHECK_OK(tidesdb_create_column_family(used, name, &config));
            CHECK(tidesdb_get_column_family(used, name) != NULL);
            CHECK_OK(tidesdb_drop_column_family(used, name));
        }
        if (number == 2) put_alone(used, ordered, name, "v");
        if (number == 3) tidesdb_log_write(TDB_LOG_INFO, NULL, 0, "a line of %s", "the parent");
    }
    return NULL;
}

/* Children of a process whose other threads are in the middle of calls get answers all the same. */
static void forks_beside_threads(const char *directory)
{
    char path[4096];
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    pthread_t threads[4];
    int numbers[4] = {0, 1, 2, 3}, n, round;

    snprintf(path, sizeof path, "%s/used", directory);
    used = open_with_log(path, TDB_LOG_INFO);
    plain = small_family(used, "plain");
    CHECK_OK(tidesdb_register_comparator(used, "as bytes", as_bytes, NULL, NULL));
    strcpy(config.comparator_name, "as bytes");
    CHECK_OK(tidesdb_create_column_family(used, "ordered", &config));
    ordered = tidesdb_get_column_family(used, "ordered");
    running = 1;
    for (n = 0; n < 4; n++) CHECK(pthread_create(&threads[n], NULL, use_on, &numbers[n]) == 0);
    for (round = 0; round < 60; round++)
    {
        tidesdb_txn_t *txn = begin(used, TDB_ISOLATION_SNAPSHOT);
        pid_t child;
        CHECK_OK(put(txn, ordered, "of the parent", "v"));
        child = fork();
        CHECK(child >= 0);
        if (child == 0)
        {
            tidesdb_stats_t *stats = NULL;
            tidesdb_db_stats_t all;
            if (put(txn, ordered, "k", "v") != TDB_ERR_INVALID_DB) _exit(1);
            if (tidesdb_get_stats(plain, &stats) != TDB_ERR_INVALID_DB) _exit(2);
            if (tidesdb_get_db_stats(used, &all) != TDB_ERR_INVALID_DB) _exit(3);
            if (tidesdb_get_column_family(used, "plain") != NULL) _exit(4);
            if (tidesdb_cf_set_commit_hook(plain, NULL, NULL) != TDB_ERR_INVALID_DB) _exit(5);
            if (tidesdb_txn_commit(txn) != TDB_ERR_INVALID_DB) _exit(6);
            tidesdb_txn_free(txn);
            if (tidesdb_close(used) != TDB_SUCCESS) _exit(7);
            /* A line that no log takes, and a database of the child's own. */
            tidesdb_log_write(TDB_LOG_INFO, NULL, 0, "a line of the child");
            if (round % 6 == 0)
            {
                snprintf(path, sizeof path, "%s/of child %d", directory, round);
                used = open_with_log(path, TDB_LOG_INFO);
                plain = small_family(used, "plain");
                put_alone(used, plain, "k", "v");
                tidesdb_log_write(TDB_LOG_INFO, NULL, 0, "a line of the child");
                if (tidesdb_close(used) != TDB_SUCCESS) _exit(8);
            }
            _exit(0);
        }
        CHECK_CODE(wait_for(child), 0);
        CHECK_OK(tidesdb_txn_rollback(txn));
        tidesdb_txn_free(txn);
    }
    running = 0;
    for (n = 0; n < 4; n++) CHECK(pthread_join(threads[n], NULL) == 0);
    CHECK_OK(tidesdb_close(used));
    snprintf(path, sizeof path, "%s/used/LOG", directory);
    CHECK(lines_with(path, "of the parent") > 0 && lines_with(path, "of the child") == 0);
    snprintf(path, sizeof path, "%s/of child 0/LOG", directory);
    CHECK(lines_with(path, "of the parent") == 0 && lines_with(path, "of the child") == 1);
}

int main(int count, char **arguments)
{
    char path[4096];
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_t *db, *second = NULL;
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn;
    tidesdb_iter_t *iter = NULL;
    pid_t child;
    int n;

    CHECK(count == 2);
    CHECK_OK(tidesdb_init(NULL, NULL, NULL, spoiling_free));
    snprintf(path, sizeof path, "%s/db", arguments[1]);
    db = open_in(path);
    cf = small_family(db, "default");
    put_alone(db, cf, "k", "v");
    txn = begin(db, TDB_ISOLATION_SNAPSHOT);
    CHECK_OK(put(txn, cf, "pending", "v"));
    CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
    CHECK_OK(tidesdb_iter_seek_to_first(iter));

    for (n = 0; n < 10; n++)
    {
        /* Ends as programs do, with what is registered for exit, or at once. */
        child = fork();
        CHECK(child >= 0);
        if (child == 0 && n % 2 == 0) exit(0);
        if (child == 0) _exit(0);
        put_alone(db, cf, "during the child", "v");
        CHECK(wait_for(child) == 0);
    }
    child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(use_in_child(db, cf, txn, iter));
    put_alone(db, cf, "beside it", "v");
    CHECK_CODE(wait_for(child), 0);

    /* A second process gets LOCKED; this one is not disturbed. */
    config.db_path = path;
    config.log_level = TDB_LOG_NONE;
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
    {
        const int code = tidesdb_open(&config, &second);
        _exit(code == TDB_ERR_LOCKED && second == NULL ? 0 : 1);
    }
    CHECK(wait_for(child) == 0);
    CHECK_CODE(tidesdb_open(&config, &second), TDB_ERR_LOCKED);

    CHECK_OK(tidesdb_iter_seek_to_first(iter));
    tidesdb_iter_free(iter);
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_purge(db));
    CHECK_OK(tidesdb_close(db));

    /* Closed: another process may have it at once, and when that dies, this one again. */
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
    {
        db = open_in(path);
        put_alone(db, tidesdb_get_column_family(db, "default"), "of the child", "v");
        _exit(0);
    }
    CHECK(wait_for(child) == 0);
    db = open_in(path);
    cf = tidesdb_get_column_family(db, "default");
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK(holds(txn, cf, "k", "v") && holds(txn, cf, "pending", "v"));
    CHECK(holds(txn, cf, "beside it", "v") && holds(txn, cf, "of the child", "v"));
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_close(db));
    forks_beside_threads(arguments[1]);
    puts("all checks hold");
    return 0;
}
