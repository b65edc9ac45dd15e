/* What the original does wrong, by the numbers of section 10 of its contract, and what is right.
   The argument is an empty directory. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

static volatile int syncs;

/* The library calls these two for every sync of a file. */
int fsync(int file)
{
    syncs++;
    return (int)syscall(SYS_fsync, file);
}

int fdatasync(int file)
{
    syncs++;
    return (int)syscall(SYS_fdatasync, file);
}

static tidesdb_t *open_with(char *path, int unified)
{
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_t *db = NULL;
    config.db_path = path;
    config.log_level = TDB_LOG_NONE;
    config.unified_memtable = unified;
    CHECK_OK(tidesdb_open(&config, &db));
    return db;
}

static int put_until(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const char *key,
                     const char *value, time_t ttl)
{
    return tidesdb_txn_put(txn, cf, bytes(key), strlen(key), bytes(value), strlen(value), ttl);
}

/* The keys of a family in both directions, with spaces between. */
static const char *keys(tidesdb_txn_t *txn, tidesdb_column_family_t *cf)
{
    static char found[512], back[512];
    tidesdb_iter_t *iter = NULL;
    uint8_t *key = NULL;
    size_t size = 0;
    int code;

    found[0] = back[0] = 0;
    CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
    for (code = tidesdb_iter_seek_to_first(iter); code == TDB_SUCCESS;
         code = tidesdb_iter_next(iter))
    {
        CHECK_OK(tidesdb_iter_key(iter, &key, &size));
        snprintf(found + strlen(found), 64, "%.*s ", (int)size, (const char *)key);
    }
    CHECK_CODE(code, TDB_ERR_NOT_FOUND);
    CHECK(!tidesdb_iter_valid(iter));
    for (code = tidesdb_iter_seek_to_last(iter); code == TDB_SUCCESS;
         code = tidesdb_iter_prev(iter))
    {
        char whole[512];
        CHECK_OK(tidesdb_iter_key(iter, &key, &size));
        snprintf(whole, sizeof whole, "%.*s %.400s", (int)size, (const char *)key, back);
        strcpy(back, whole);
    }
    CHECK_CODE(code, TDB_ERR_NOT_FOUND);
    tidesdb_iter_free(iter);
    CHECK(strcmp(found, back) == 0);
    return found;
}

/* 1: values of no bytes are kept, alone and among others, over a flush and a reopening. */
static void empty_values(char *path)
{
    tidesdb_t *db = open_with(path, 0);
    tidesdb_column_family_t *cf = small_family(db, "empty");
    tidesdb_txn_t *txn;
    tidesdb_iter_t *iter = NULL;
    uint8_t *value = NULL;
    size_t size = 9;
    int round;

    put_alone(db, cf, "alone", "");
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK_OK(put(txn, cf, "one of two", ""));
    CHECK_OK(put(txn, cf, "other", "v"));
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
    for (round = 0; round < 3; round++)
    {
        txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
        CHECK_OK(tidesdb_txn_get(txn, cf, bytes("alone"), 5, &value, &size));
        CHECK(value != NULL && size == 0);
        /* Released as benchmark programs do it. */
        free(value);
        CHECK(holds(txn, cf, "one of two", "") && holds(txn, cf, "other", "v"));
        CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
        CHECK_OK(tidesdb_iter_seek_to_first(iter));
        CHECK_OK(tidesdb_iter_value(iter, &value, &size));
        CHECK(size == 0);
        tidesdb_iter_free(iter);
        tidesdb_txn_free(txn);
        if (round == 0) CHECK_OK(tidesdb_compact(cf));
        if (round == 1)
        {
            CHECK_OK(tidesdb_close(db));
            db = open_with(path, 0);
            cf = tidesdb_get_column_family(db, "empty");
        }
    }
    CHECK_OK(tidesdb_close(db));
}

/* 2, 3, 22: with a shared memtable, a sync reaches the disk; copies and compactions have what was
   not flushed. */
static void shared_memtable(const char *directory, char *path)
{
    tidesdb_t *db = open_with(path, 1), *copy;
    tidesdb_column_family_t *one = small_family(db, "one"), *two = small_family(db, "two");
    tidesdb_column_family_config_t other = tidesdb_default_column_family_config();
    tidesdb_stats_t *stats = NULL;
    tidesdb_txn_t *txn;
    char target[4096];
    int round, before;

    strcpy(other.comparator_name, "reverse");
    CHECK_CODE(tidesdb_create_column_family(db, "three", &other), TDB_ERR_INVALID_ARGS);
    strcpy(other.comparator_name, "memcmp");
    CHECK_OK(tidesdb_create_column_family(db, "three", &other));
    CHECK_OK(tidesdb_sync_wal(one));
    put_alone(db, one, "k", "1");
    put_alone(db, two, "k", "2");
    before = syncs;
    CHECK_OK(tidesdb_sync_wal(two));
    CHECK(syncs > before);
    CHECK_OK(tidesdb_sync_wal(two));
    for (round = 0; round < 3; round++)
    {
        static const char *const names[] = {"backup", "checkpoint", "clone"};
        snprintf(target, sizeof target, "%s/%s", directory, names[round]);
        copy = db;
        if (round == 0) CHECK_OK(tidesdb_backup(db, target));
        if (round == 1) CHECK_OK(tidesdb_checkpoint(db, target));
        if (round == 2) CHECK_OK(tidesdb_clone_column_family(db, "two", "clone"));
        /* Once with a shared memtable, once without. */
        if (round < 2) copy = open_with(target, round);
        txn = begin(copy, TDB_ISOLATION_READ_COMMITTED);
        CHECK(holds(txn, tidesdb_get_column_family(copy, round < 2 ? "two" : "clone"), "k", "2"));
        CHECK(holds(txn, tidesdb_get_column_family(copy, "one"), "k", "1"));
        CHECK(strcmp(keys(txn, tidesdb_get_column_family(copy, "two")), "k ") == 0);
        tidesdb_txn_free(txn);
        if (round < 2) CHECK_OK(tidesdb_close(copy));
    }
    put_alone(db, one, "compacted", "v");
    CHECK_OK(tidesdb_compact_range(one, bytes("a"), 1, bytes("z"), 1));
    CHECK_OK(tidesdb_get_stats(one, &stats));
    CHECK(stats->level_num_sstables[0] + stats->level_num_sstables[stats->num_levels - 1] > 0);
    CHECK(stats->total_keys == 2);
    tidesdb_free_stats(stats);
    CHECK_OK(tidesdb_close(db));
}

#define SNAPSHOTS 1100

/* 7: more snapshots than a thousand keep what they see, over flushes and compactions. */
static void many_snapshots(tidesdb_t *db)
{
    static tidesdb_txn_t *txns[SNAPSHOTS];
    tidesdb_column_family_t *cf = small_family(db, "snapshots");
    char value[16];
    int n;

    for (n = 0; n < SNAPSHOTS; n++)
    {
        snprintf(value, sizeof value, "%d", n);
        put_alone(db, cf, "k", value);
        if (n % 2 == 0) put_alone(db, cf, "at times", value);
        txns[n] = begin(db, TDB_ISOLATION_SNAPSHOT);
        if (n % 2 == 0)
        {
            tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
            CHECK_OK(tidesdb_txn_delete(txn, cf, bytes("at times"), 8));
            CHECK_OK(tidesdb_txn_commit(txn));
            tidesdb_txn_free(txn);
        }
        if (n % 500 == 499)
        {
            CHECK_OK(tidesdb_flush_memtable(cf));
            WAIT_FOR(!tidesdb_is_flushing(cf));
        }
    }
    CHECK_OK(tidesdb_compact(cf));
    for (n = 0; n < SNAPSHOTS; n++)
    {
        snprintf(value, sizeof value, "%d", n);
        CHECK(holds(txns[n], cf, "k", value));
        CHECK(holds(txns[n], cf, "at times", n % 2 == 0 ? value : NULL));
        tidesdb_txn_free(txns[n]);
    }
    CHECK_OK(tidesdb_compact(cf));
    CHECK(tables_of(cf) == 1);
}

/* 8: what was read has changed, and the change is in a memtable that was full: at once and once it
   is in a table, with a memtable of its own and with a shared one. */
static void changes_in_full_memtables(const char *directory)
{
    char path[4096];
    int unified, round;

    for (unified = 0; unified < 2; unified++)
    {
        tidesdb_t *db;
        tidesdb_column_family_t *cf, *other;
        snprintf(path, sizeof path, "%s/full %d", directory, unified);
        db = open_with(path, unified);
        cf = small_family(db, "cf");
        other = small_family(db, "other");
        put_alone(db, cf, "read", "before");
        for (round = 0; round < 40; round++)
        {
            tidesdb_txn_t *txn = begin(db, round % 2 == 0 ? TDB_ISOLATION_REPEATABLE_READ
                                                          : TDB_ISOLATION_SERIALIZABLE);
            CHECK(holds(txn, cf, "read", round == 0 ? "before" : "changed"));
            put_alone(db, cf, "read", "changed");
            CHECK_OK(tidesdb_flush_memtable(cf));
            if (round % 4 == 3) WAIT_FOR(!tidesdb_is_flushing(cf));
            CHECK_OK(put(txn, other, "written", "v"));
            CHECK_CODE(tidesdb_txn_commit(txn), TDB_ERR_CONFLICT);
            tidesdb_txn_free(txn);
        }
        CHECK_OK(tidesdb_close(db));
    }
}

/* 9: a range that a serializable transaction has scanned must not get keys from others. */
static void phantoms(tidesdb_t *db)
{
    tidesdb_column_family_t *cf = small_family(db, "phantoms");
    tidesdb_txn_t *one = begin(db, TDB_ISOLATION_SERIALIZABLE), *two;
    int first, second;

    put_alone(db, cf, "a", "v");
    put_alone(db, cf, "z", "v");
    CHECK_OK(tidesdb_txn_rollback(one));
    CHECK_OK(tidesdb_txn_reset(one, TDB_ISOLATION_SERIALIZABLE));
    two = begin(db, TDB_ISOLATION_SERIALIZABLE);
    CHECK(strcmp(keys(one, cf), "a z ") == 0 && strcmp(keys(two, cf), "a z ") == 0);
    CHECK_OK(put(one, cf, "m", "one"));
    CHECK_OK(put(two, cf, "n", "two"));
    first = tidesdb_txn_commit(one);
    second = tidesdb_txn_commit(two);
    CHECK((first == TDB_SUCCESS && second == TDB_ERR_CONFLICT) ||
          (first == TDB_ERR_CONFLICT && second == TDB_SUCCESS));
    tidesdb_txn_free(one);
    tidesdb_txn_free(two);
}

/* 10: an expired version hides the older ones, for gets and for scans, wherever each of them is. */
static void expiry(tidesdb_t *db)
{
    tidesdb_column_family_t *cf = small_family(db, "expiry");
    const time_t soon = time(NULL) + 2;
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    int round;

    for (round = 0; round < 2; round++)
    {
        CHECK_OK(put_until(txn, cf, "k", "old", round == 0 ? 0 : soon));
        CHECK_OK(put_until(txn, cf, "kept", "v", round == 0 ? soon : -1));
        CHECK_OK(put_until(txn, cf, "past", "v", round == 0 ? 0 : 1));
        if (round == 1) CHECK(holds(txn, cf, "past", NULL));
        if (round == 1) CHECK(strstr(keys(txn, cf), "past") == NULL);
        CHECK_OK(tidesdb_txn_commit(txn));
        CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
        CHECK_OK(tidesdb_flush_memtable(cf));
        WAIT_FOR(!tidesdb_is_flushing(cf));
    }
    CHECK(holds(txn, cf, "past", NULL));
    /* What a get says a scan says: at every moment, also at the very second. */
    for (round = 0; round < 300; round++)
    {
        struct timespec pause = {0, 10000000};
        const int before = holds(txn, cf, "k", "old");
        const char *found = keys(txn, cf);
        const int after = holds(txn, cf, "k", "old");
        if (before == after) CHECK((strcmp(found, "k kept ") == 0) == before);
        CHECK(before || strcmp(found, "kept ") == 0);
        nanosleep(&pause, NULL);
    }
    CHECK(time(NULL) >= soon && holds(txn, cf, "k", NULL) && holds(txn, cf, "kept", "v"));
    CHECK_CODE(tidesdb_txn_contains(txn, cf, bytes("k"), 1), TDB_ERR_NOT_FOUND);
    CHECK_OK(tidesdb_compact(cf));
    CHECK(holds(txn, cf, "k", NULL) && strcmp(keys(txn, cf), "kept ") == 0);
    tidesdb_txn_free(txn);
}

static int stands_on(tidesdb_iter_t *iter, const char *expected)
{
    uint8_t *key = NULL;
    size_t size = 0;
    CHECK_OK(tidesdb_iter_key(iter, &key, &size));
    return size == strlen(expected) && memcmp(key, expected, size) == 0;
}

/* 11: seeks to the ends go there from wherever an iterator is, with keys in memory and in
   tables. */
static void seeks_to_the_ends(tidesdb_t *db)
{
    tidesdb_column_family_t *cf = small_family(db, "ends");
    tidesdb_txn_t *txn;
    tidesdb_iter_t *iter = NULL;
    int where, n;

    for (n = 10; n < 30; n++)
    {
        char key[16];
        snprintf(key, sizeof key, "%d", n);
        put_alone(db, cf, key, "v");
        if (n == 24) CHECK_OK(tidesdb_compact(cf));
    }
    put_alone(db, cf, "05", "v");
    txn = begin(db, TDB_ISOLATION_REPEATABLE_READ);
    CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
    for (where = 0; where < 6; where++)
    {
        int to_last;
        for (to_last = 0; to_last < 2; to_last++)
        {
            if (where == 1) CHECK_OK(tidesdb_iter_seek(iter, bytes("17"), 2));
            if (where == 2) CHECK_OK(tidesdb_iter_seek(iter, bytes("28"), 2));
            if (where == 3) CHECK_CODE(tidesdb_iter_seek(iter, bytes("99"), 2), TDB_ERR_NOT_FOUND);
            if (where == 4)
                CHECK_CODE(tidesdb_iter_seek_for_prev(iter, bytes("0"), 1), TDB_ERR_NOT_FOUND);
            if (where == 5)
            {
                CHECK_OK(tidesdb_iter_seek_to_last(iter));
                CHECK_CODE(tidesdb_iter_next(iter), TDB_ERR_NOT_FOUND);
            }
            CHECK_OK(to_last ? tidesdb_iter_seek_to_last(iter) : tidesdb_iter_seek_to_first(iter));
            CHECK(stands_on(iter, to_last ? "29" : "05"));
            CHECK_OK(to_last ? tidesdb_iter_prev(iter) : tidesdb_iter_next(iter));
            CHECK(stands_on(iter, to_last ? "28" : "10"));
        }
    }
    tidesdb_iter_free(iter);
    tidesdb_txn_free(txn);
}

/* 16, 17, 20: the path belongs to the caller again once the database is open; each database has its
   own log level; a name that could be a path is refused. */
static void paths_and_names(const char *directory)
{
    static const char *const paths[] = {"a/b", "..", ".", "/", "../../escaped", "a\\b", "a\nb"};
    static const char *const names[] = {"%s%n", " ", "db__table@part_1", "...", "\xc3\xa4"};
    char path[4096], outside[4096], **listed = NULL;
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    tidesdb_column_family_t *cf;
    tidesdb_t *db;
    struct stat found;
    size_t n;
    int count = 0, round;

    snprintf(path, sizeof path, "%s/names", directory);
    db = open_with(path, 0);
    memset(path, 'x', 20);
    for (n = 0; n < sizeof paths / sizeof paths[0]; n++)
        CHECK_CODE(tidesdb_create_column_family(db, paths[n], &config), TDB_ERR_INVALID_ARGS);
    for (n = 0; n < sizeof names / sizeof names[0]; n++)
    {
        CHECK_OK(tidesdb_create_column_family(db, names[n], &config));
        put_alone(db, tidesdb_get_column_family(db, names[n]), "k", names[n]);
    }
    cf = tidesdb_get_column_family(db, "...");
    config.min_levels = 5;
    CHECK_OK(tidesdb_cf_update_runtime_config(cf, &config, 1));
    CHECK_OK(tidesdb_compact(cf));
    snprintf(path, sizeof path, "%s/names", directory);
    for (round = 0; round < 2; round++)
    {
        tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
        for (n = 0; n < sizeof names / sizeof names[0]; n++)
            CHECK(holds(txn, tidesdb_get_column_family(db, names[n]), "k", names[n]));
        tidesdb_txn_free(txn);
        for (n = 0; n < sizeof paths / sizeof paths[0]; n++)
        {
            CHECK_CODE(tidesdb_rename_column_family(db, " ", paths[n]), TDB_ERR_INVALID_ARGS);
            CHECK_CODE(tidesdb_clone_column_family(db, " ", paths[n]), TDB_ERR_INVALID_ARGS);
        }
        CHECK_OK(tidesdb_close(db));
        db = open_with(path, 0);
    }
    CHECK_OK(tidesdb_list_column_families(db, &listed, &count));
    CHECK(count == (int)(sizeof names / sizeof names[0]));
    while (count > 0) tidesdb_free(listed[--count]);
    tidesdb_free(listed);
    CHECK_OK(tidesdb_close(db));
    snprintf(outside, sizeof outside, "%s/../escaped", directory);
    CHECK(stat(outside, &found) != 0);
    snprintf(outside, sizeof outside, "%s/names/a", directory);
    CHECK(stat(outside, &found) != 0);
}

/* 15: a renamed family has its tables, and its configuration the new name. */
static void renaming(tidesdb_t *db)
{
    tidesdb_column_family_t *cf = small_family(db, "before");
    tidesdb_stats_t *stats = NULL;
    tidesdb_txn_t *txn;

    put_alone(db, cf, "in a table", "v");
    CHECK_OK(tidesdb_compact(cf));
    put_alone(db, cf, "in memory", "v");
    CHECK_OK(tidesdb_rename_column_family(db, "before", "after"));
    CHECK(tidesdb_get_column_family(db, "after") == cf);
    CHECK_OK(tidesdb_get_stats(cf, &stats));
    CHECK(strcmp(stats->config->name, "after") == 0);
    tidesdb_free_stats(stats);
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK(strcmp(keys(txn, cf), "in a table in memory ") == 0);
    tidesdb_txn_free(txn);
    /* The old name is free. */
    cf = small_family(db, "before");
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK(strcmp(keys(txn, cf), "") == 0);
    tidesdb_txn_free(txn);
}

int main(int count, char **arguments)
{
    char path[4096];
    tidesdb_t *db;

    CHECK(count == 2);
    snprintf(path, sizeof path, "%s/values", arguments[1]);
    empty_values(path);
    snprintf(path, sizeof path, "%s/shared", arguments[1]);
    shared_memtable(arguments[1], path);
    snprintf(path, sizeof path, "%s/db", arguments[1]);
    db = open_with(path, 0);
    many_snapshots(db);
    phantoms(db);
    expiry(db);
    seeks_to_the_ends(db);
    renaming(db);
    CHECK_OK(tidesdb_close(db));
    changes_in_full_memtables(arguments[1]);
    paths_and_names(arguments[1]);
    puts("all checks hold");
    return 0;
}
