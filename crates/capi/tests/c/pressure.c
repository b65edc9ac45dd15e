/* Calls that meet other work, a disk that does not answer or one that is full: which codes they
   answer, and that all goes on by itself. The argument is an empty directory. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

/* The library syncs tables with this. It waits for files in directories of these names, while they
   are held. */
#define LOCKED 0
#define BUSY 1
static const char *const names[] = {"/locked/", "/busy/"};
static volatile int held[2], waiting[2];

int fdatasync(int file)
{
    char link[64], path[4096];
    ssize_t length;
    int n;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    for (n = 0; n < 2; n++)
        while (held[n] && strstr(path, names[n]) != NULL)
        {
            const struct timespec pause = {0, 1000000};
            waiting[n] = 1;
            nanosleep(&pause, NULL);
        }
    return (int)syscall(SYS_fdatasync, file);
}

static double seconds(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static tidesdb_t *open_below(const char *directory, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return open_in(path);
}

static void *compact(void *argument)
{
    CHECK_OK(tidesdb_compact(argument));
    return NULL;
}

/* While a family is compacted another compaction of it waits, and that of a range only for a
   second. */
static void locked(const char *directory)
{
    tidesdb_t *db = open_below(directory, "locked");
    tidesdb_column_family_t *cf = small_family(db, "default");
    tidesdb_txn_t *txn;
    pthread_t compacting;
    double began, took;
    int round;

    for (round = 0; round < 2; round++)
    {
        put_alone(db, cf, round == 0 ? "a" : "b", "v");
        CHECK_OK(tidesdb_flush_memtable(cf));
        WAIT_FOR(!tidesdb_is_flushing(cf));
    }
    held[LOCKED] = 1;
    CHECK(pthread_create(&compacting, NULL, compact, cf) == 0);
    WAIT_FOR(waiting[LOCKED]);
    CHECK(tidesdb_is_compacting(cf) == 1);
    began = seconds();
    CHECK_CODE(tidesdb_compact_range(cf, bytes("a"), 1, bytes("z"), 1), TDB_ERR_LOCKED);
    took = seconds() - began;
    CHECK(took > 0.7 && took < 60.0);
    /* Reads and writes go on. */
    put_alone(db, cf, "c", "v");
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK(holds(txn, cf, "a", "v") && holds(txn, cf, "c", "v"));
    tidesdb_txn_free(txn);
    held[LOCKED] = 0;
    CHECK(pthread_join(compacting, NULL) == 0);
    CHECK_OK(tidesdb_compact_range(cf, bytes("a"), 1, NULL, 0));
    CHECK_OK(tidesdb_close(db));
}

/* Writers that nothing makes room for for ten seconds are told so. The same commit succeeds later:
   it had no effect, and its keys were nobody's meanwhile. */
static void *busy(void *argument)
{
    tidesdb_t *db = open_below(argument, "busy");
    tidesdb_column_family_t *cf = small_family(db, "default");
    static char value[20000];
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_SNAPSHOT), *reader;
    tidesdb_db_stats_t stats;
    double began = seconds();
    int code = TDB_SUCCESS, n;
    char key[16];

    memset(value, 'v', sizeof value - 1);
    held[BUSY] = 1;
    for (n = 0; n < 1000 && code == TDB_SUCCESS; n++)
    {
        snprintf(key, sizeof key, "k%03d", n);
        CHECK_OK(put(txn, cf, key, value));
        began = seconds();
        code = tidesdb_txn_commit(txn);
        if (code == TDB_SUCCESS) CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT));
    }
    CHECK_CODE(code, TDB_ERR_BUSY);
    CHECK(seconds() - began > 5.0 && waiting[BUSY]);
    CHECK_OK(tidesdb_get_db_stats(db, &stats));
    CHECK(stats.total_immutable_count > 0 && stats.flush_queue_size > 0);
    CHECK(stats.flush_pending_count > 0 && tidesdb_is_flushing(cf) == 1);
    reader = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK(holds(reader, cf, key, NULL) && holds(reader, cf, "k000", value));
    CHECK(holds(txn, cf, key, value));
    held[BUSY] = 0;
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK(holds(reader, cf, key, value));
    /* As though it had never been refused. */
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT));
    CHECK_OK(put(txn, cf, key, "another"));
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK(holds(reader, cf, key, "another"));
    tidesdb_txn_free(txn);
    tidesdb_txn_free(reader);
    CHECK_OK(tidesdb_close(db));
    return NULL;
}

#define BALLAST ((off_t)256 << 20)

static uint64_t flushes_of(tidesdb_column_family_t *cf)
{
    tidesdb_stats_t *stats = NULL;
    uint64_t flushes;
    CHECK_OK(tidesdb_get_stats(cf, &stats));
    flushes = stats->flush_count;
    tidesdb_free_stats(stats);
    return flushes;
}

/* Opens a database whose family flushes nothing with less free than this. */
static tidesdb_t *open_sparing(char *place, tidesdb_log_level_t level, uint64_t min_disk_space)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    tidesdb_t *db = open_with_log(place, level);
    config.write_buffer_size = 64 << 10;
    config.min_disk_space = min_disk_space;
    CHECK_OK(tidesdb_create_column_family(db, "default", &config));
    return db;
}

/* Commits until there is no room; how many puts there were. The last is not committed. */
static int commit_until_busy(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const char *value)
{
    int code = TDB_SUCCESS, n;
    char key[16];
    for (n = 0; n < 1000 && code == TDB_SUCCESS; n++)
    {
        snprintf(key, sizeof key, "k%03d", n);
        CHECK_OK(put(txn, cf, key, value));
        code = tidesdb_txn_commit(txn);
        if (code == TDB_SUCCESS) CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    }
    CHECK_CODE(code, TDB_ERR_BUSY);
    return n;
}

/* With less free than min_disk_space nothing is flushed, commits go on until there is no room in
   memory, and all resumes when there is space again. In memory, where others take little. */
static void little_space(const char *directory)
{
    char path[128], ballast[256], place[256], silent_place[256], log[300];
    static char value[20000];
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn, *silent_txn;
    tidesdb_t *db, *silent;
    struct statvfs found;
    uint64_t spared;
    int file, n, lines;
    double began;
    char key[16];

    snprintf(path, sizeof path, "/dev/shm/tidesdb-pressure-%d", (int)getpid());
    if (mkdir(path, 0700) != 0 || statvfs(path, &found) != 0 ||
        found.f_bavail * found.f_frsize < 2 * (uint64_t)BALLAST)
    {
        printf("no space in /dev/shm, checked nothing of it; %s\n", directory);
        rmdir(path);
        return;
    }
    snprintf(ballast, sizeof ballast, "%s/ballast", path);
    snprintf(place, sizeof place, "%s/db", path);
    snprintf(silent_place, sizeof silent_place, "%s/silent", path);
    snprintf(log, sizeof log, "%s/LOG", place);
    spared = found.f_bavail * found.f_frsize - (uint64_t)BALLAST / 2;
    db = open_sparing(place, TDB_LOG_WARN, spared);
    silent = open_sparing(silent_place, TDB_LOG_NONE, spared);
    cf = tidesdb_get_column_family(db, "default");
    file = open(ballast, O_CREAT | O_WRONLY, 0600);
    CHECK(file >= 0 && posix_fallocate(file, 0, BALLAST) == 0 && close(file) == 0);
    memset(value, 'v', sizeof value - 1);
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    silent_txn = begin(silent, TDB_ISOLATION_READ_COMMITTED);
    n = commit_until_busy(txn, cf, value);
    commit_until_busy(silent_txn, tidesdb_get_column_family(silent, "default"), value);
    /* Several memtables' worth was taken. */
    CHECK(n > 10 && flushes_of(cf) == 0);
    /* A program that tries again at once does not fill the disk with lines of the log, and one
       database that does so takes no lines from another. */
    lines = lines_with(log, "tidesdb_txn_commit");
    CHECK(lines >= 1);
    began = seconds();
    while (seconds() - began < 0.5)
    {
        CHECK_CODE(tidesdb_txn_commit(silent_txn), TDB_ERR_BUSY);
        CHECK_CODE(tidesdb_txn_commit(txn), TDB_ERR_BUSY);
    }
    lines = lines_with(log, "tidesdb_txn_commit") - lines;
    CHECK(lines >= 2 && lines <= 2 + (int)((seconds() - began) * 10));
    CHECK(lines_with(log, " more like this before)") >= 1);
    tidesdb_txn_free(silent_txn);
    CHECK_OK(tidesdb_close(silent));
    CHECK(unlink(ballast) == 0);
    CHECK_OK(tidesdb_txn_commit(txn));
    WAIT_FOR(flushes_of(cf) > 0 && !tidesdb_is_flushing(cf));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    while (n-- > 0)
    {
        snprintf(key, sizeof key, "k%03d", n);
        CHECK(holds(txn, cf, key, value));
    }
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_close(db));
    snprintf(ballast, sizeof ballast, "rm -r %s", path);
    CHECK(system(ballast) == 0);
}

static tidesdb_t *shared;
static tidesdb_column_family_t *one, *two;
static volatile int running, committed;

/* Writes the same number to two families, again and again. */
static void *write_on(void *argument)
{
    tidesdb_txn_t *txn = begin(shared, TDB_ISOLATION_READ_COMMITTED);
    int n;
    (void)argument;
    for (n = 1; running; n++)
    {
        char key[16];
        snprintf(key, sizeof key, "k%08d", n);
        CHECK_OK(put(txn, one, key, key));
        CHECK_OK(put(txn, two, key, key));
        CHECK_OK(tidesdb_txn_commit(txn));
        committed = n;
        CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    }
    tidesdb_txn_free(txn);
    return NULL;
}

/* The number of the last key; there is none left out before it. */
static int last_in(tidesdb_txn_t *txn, tidesdb_column_family_t *cf)
{
    tidesdb_iter_t *iter = NULL;
    int code, n = 0;
    CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
    for (code = tidesdb_iter_seek_to_first(iter); code == TDB_SUCCESS;
         code = tidesdb_iter_next(iter))
    {
        uint8_t *key = NULL;
        size_t size = 0;
        char expected[16];
        snprintf(expected, sizeof expected, "k%08d", ++n);
        CHECK_OK(tidesdb_iter_key(iter, &key, &size));
        CHECK(size == 9 && memcmp(key, expected, size) == 0);
    }
    CHECK_CODE(code, TDB_ERR_NOT_FOUND);
    tidesdb_iter_free(iter);
    return n;
}

/* Copies that are made beside a writer have all that was committed before, and each commit whole;
   the writer is not told of them. */
static void copies(const char *directory)
{
    pthread_t writer;
    int round;

    shared = open_below(directory, "copied");
    one = small_family(shared, "one");
    two = small_family(shared, "two");
    running = 1;
    CHECK(pthread_create(&writer, NULL, write_on, NULL) == 0);
    for (round = 0; round < 6; round++)
    {
        char path[4096];
        tidesdb_t *copy;
        tidesdb_txn_t *txn;
        int before;
        WAIT_FOR(committed > round * 200);
        snprintf(path, sizeof path, "%s/copy %d", directory, round);
        before = committed;
        CHECK_OK(round % 2 ? tidesdb_checkpoint(shared, path) : tidesdb_backup(shared, path));
        copy = open_in(path);
        txn = begin(copy, TDB_ISOLATION_READ_COMMITTED);
        CHECK(last_in(txn, tidesdb_get_column_family(copy, "one")) >= before);
        CHECK(last_in(txn, tidesdb_get_column_family(copy, "one")) ==
              last_in(txn, tidesdb_get_column_family(copy, "two")));
        tidesdb_txn_free(txn);
        CHECK_OK(tidesdb_close(copy));
    }
    running = 0;
    CHECK(pthread_join(writer, NULL) == 0);
    CHECK_OK(tidesdb_close(shared));
}

int main(int count, char **arguments)
{
    pthread_t other;
    CHECK(count == 2);
    /* Waits most of the time. */
    CHECK(pthread_create(&other, NULL, busy, arguments[1]) == 0);
    locked(arguments[1]);
    little_space(arguments[1]);
    copies(arguments[1]);
    CHECK(pthread_join(other, NULL) == 0);
    puts("all checks hold");
    return 0;
}
