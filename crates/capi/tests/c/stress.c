/* 32 threads on one database, while SIGALRM arrives every millisecond at whichever thread the
   kernel picks and interrupts its calls. The argument is an empty directory. */
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

#define THREADS 32
#define ROUNDS 60
#define KEYS 64

static tidesdb_t *db;
static tidesdb_column_family_t *cf, *other;
static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
    (void)signal;
    alarms = alarms + 1;
}

/* Without SA_RESTART: whoever sleeps in the kernel comes back with EINTR. */
static void start_alarms(void)
{
    struct sigaction action;
    struct itimerval every = {{0, 1000}, {0, 1000}};
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
}

static void stop_alarms(void)
{
    struct itimerval never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Adds one to a counter in each family, again until it is not refused. */
static void count_up(uint32_t *state)
{
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_SNAPSHOT);
    char key[16];
    int code = TDB_ERR_CONFLICT, n;
    snprintf(key, sizeof key, "count%02u", next(state) % 4);
    while (code != TDB_SUCCESS)
    {
        for (n = 0; n < 2; n++)
        {
            tidesdb_column_family_t *family = n == 0 ? cf : other;
            uint8_t *value = NULL;
            size_t size = 0;
            uint64_t counted = 0;
            code = tidesdb_txn_get(txn, family, bytes(key), strlen(key), &value, &size);
            CHECK(code == TDB_SUCCESS || code == TDB_ERR_NOT_FOUND);
            if (code == TDB_SUCCESS)
            {
                CHECK(size == sizeof counted);
                memcpy(&counted, value, sizeof counted);
                tidesdb_free(value);
            }
            counted++;
            CHECK_OK(tidesdb_txn_put(txn, family, bytes(key), strlen(key),
                                     (const uint8_t *)&counted, sizeof counted, -1));
        }
        code = tidesdb_txn_commit(txn);
        CHECK(code == TDB_SUCCESS || code == TDB_ERR_CONFLICT);
        if (code == TDB_ERR_CONFLICT) CHECK_OK(tidesdb_txn_rollback(txn));
        CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT));
    }
    tidesdb_txn_free(txn);
}

/* Reads everything in both directions: the same keys, in order. */
static void scan(void)
{
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_REPEATABLE_READ);
    tidesdb_iter_t *iter = NULL;
    uint8_t *key = NULL;
    size_t size = 0;
    int forwards = 0, backwards = 0, code;
    CHECK_OK(tidesdb_iter_new(txn, other, &iter));
    for (code = tidesdb_iter_seek_to_first(iter); code == TDB_SUCCESS;
         code = tidesdb_iter_next(iter))
    {
        CHECK_OK(tidesdb_iter_key(iter, &key, &size));
        forwards++;
    }
    CHECK_CODE(code, TDB_ERR_NOT_FOUND);
    for (code = tidesdb_iter_seek_to_last(iter); code == TDB_SUCCESS;
         code = tidesdb_iter_prev(iter))
        backwards++;
    CHECK(forwards == backwards);
    tidesdb_iter_free(iter);
    tidesdb_txn_free(txn);
}

static void statistics(void)
{
    tidesdb_stats_t *stats = NULL;
    tidesdb_db_stats_t all;
    CHECK_OK(tidesdb_get_stats(cf, &stats));
    CHECK(stats->num_levels >= 1);
    tidesdb_free_stats(stats);
    CHECK_OK(tidesdb_get_db_stats(db, &all));
    CHECK(all.num_column_families >= 2);
}

/* A family of this thread alone comes and goes. */
static void come_and_go(int number)
{
    char name[32];
    tidesdb_column_family_t *own;
    snprintf(name, sizeof name, "thread %d", number);
    own = small_family(db, name);
    put_alone(db, own, "k", "v");
    CHECK_OK(tidesdb_drop_column_family(db, name));
}

static void *work(void *argument)
{
    const int number = *(int *)argument;
    uint32_t state = 77u + (uint32_t)number;
    int round;
    for (round = 0; round < ROUNDS; round++)
    {
        char key[64], value[600];
        count_up(&state);
        snprintf(key, sizeof key, "key%03u", next(&state) % KEYS);
        memset(value, 'v', sizeof value);
        value[10 + next(&state) % 580] = 0;
        put_alone(db, next(&state) % 2 == 0 ? cf : other, key, value);
        switch (next(&state) % 24)
        {
            case 0:
                CHECK_OK(tidesdb_flush_memtable(cf));
                break;
            case 1:
                CHECK_OK(tidesdb_compact(other));
                break;
            case 2:
                CHECK_OK(tidesdb_sync_wal(cf));
                break;
            case 3:
                come_and_go(number);
                break;
            case 4:
            case 5:
                statistics();
                break;
            default:
                scan();
        }
    }
    return NULL;
}

static uint64_t total(tidesdb_column_family_t *family)
{
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    uint64_t sum = 0;
    int n;
    for (n = 0; n < 4; n++)
    {
        char key[16];
        uint8_t *value = NULL;
        size_t size = 0;
        uint64_t counted = 0;
        snprintf(key, sizeof key, "count%02d", n);
        CHECK_OK(tidesdb_txn_get(txn, family, bytes(key), strlen(key), &value, &size));
        memcpy(&counted, value, sizeof counted);
        tidesdb_free(value);
        sum += counted;
    }
    tidesdb_txn_free(txn);
    return sum;
}

int main(int count, char **arguments)
{
    pthread_t threads[THREADS];
    int numbers[THREADS], n;
    char path[4096];

    CHECK(count == 2);
    snprintf(path, sizeof path, "%s/db", arguments[1]);
    start_alarms();
    db = open_in(path);
    cf = small_family(db, "default");
    other = small_family(db, "other");
    for (n = 0; n < THREADS; n++)
    {
        numbers[n] = n;
        CHECK(pthread_create(&threads[n], NULL, work, &numbers[n]) == 0);
    }
    for (n = 0; n < THREADS; n++) CHECK(pthread_join(threads[n], NULL) == 0);
    CHECK(total(cf) == THREADS * ROUNDS && total(other) == THREADS * ROUNDS);
    CHECK_OK(tidesdb_purge(db));
    CHECK_OK(tidesdb_close(db));
    db = open_in(path);
    cf = tidesdb_get_column_family(db, "default");
    other = tidesdb_get_column_family(db, "other");
    CHECK(total(cf) == THREADS * ROUNDS && total(other) == THREADS * ROUNDS);
    CHECK_OK(tidesdb_close(db));
    stop_alarms();
    CHECK(alarms > 0);
    puts("all checks hold");
    return 0;
}
