/* Values of a megabyte and more. The argument is an empty directory. */
#include <time.h>

#include "helpers.h"

#define MIB ((size_t)1 << 20)

static const size_t sizes[] = {MIB - 1, MIB, MIB + 1, 4 * MIB, 20 * MIB};
#define COUNT (sizeof sizes / sizeof sizes[0])

/* Bytes that differ from place to place, from value to value and from one writing to the next. */
static void fill(uint8_t *value, size_t size, size_t seed)
{
    uint32_t state = (uint32_t)(size * 31 + seed);
    size_t n;
    for (n = 0; n < size; n++)
    {
        state = state * 1664525u + 1013904223u;
        value[n] = (uint8_t)(state >> 24);
    }
}

static const uint8_t *key_of(size_t n)
{
    static char key[16];
    snprintf(key, sizeof key, "value%02d", (int)n);
    return bytes(key);
}

static void check(const uint8_t *found, size_t size, size_t n, size_t seed)
{
    uint8_t *expected = malloc(sizes[n]);
    CHECK(expected != NULL && size == sizes[n]);
    fill(expected, sizes[n], seed);
    CHECK(memcmp(found, expected, size) == 0);
    free(expected);
}

/* All values by gets, and in both directions of an iterator. */
static void check_all(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, size_t seed)
{
    tidesdb_iter_t *iter = NULL;
    uint8_t *key = NULL, *value = NULL;
    size_t key_size = 0, size = 0, n;

    for (n = 0; n < COUNT; n++)
    {
        CHECK_OK(tidesdb_txn_get(txn, cf, key_of(n), 7, &value, &size));
        check(value, size, n, seed);
        tidesdb_free(value);
        CHECK_OK(tidesdb_txn_get_notrack(txn, cf, key_of(n), 7, &value, &size));
        check(value, size, n, seed);
        tidesdb_free(value);
    }
    CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
    CHECK_OK(tidesdb_iter_seek_to_first(iter));
    for (n = 0; n < COUNT; n++)
    {
        CHECK_OK(tidesdb_iter_key_value(iter, &key, &key_size, &value, &size));
        CHECK(key_size == 7 && memcmp(key, key_of(n), 7) == 0);
        check(value, size, n, seed);
        CHECK_CODE(tidesdb_iter_next(iter), n + 1 < COUNT ? TDB_SUCCESS : TDB_ERR_NOT_FOUND);
    }
    CHECK_OK(tidesdb_iter_seek_to_last(iter));
    for (n = COUNT; n-- > 0;)
    {
        CHECK_OK(tidesdb_iter_value(iter, &value, &size));
        check(value, size, n, seed);
        CHECK_CODE(tidesdb_iter_prev(iter), n > 0 ? TDB_SUCCESS : TDB_ERR_NOT_FOUND);
    }
    tidesdb_iter_free(iter);
}

static void put_all(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, size_t seed)
{
    uint8_t *value = malloc(sizes[COUNT - 1]);
    size_t n;
    CHECK(value != NULL);
    for (n = 0; n < COUNT; n++)
    {
        fill(value, sizes[n], seed);
        CHECK_OK(tidesdb_txn_put(txn, cf, key_of(n), 7, value, sizes[n], 0));
    }
    free(value);
}

int main(int count, char **arguments)
{
    char path[4096];
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn, *old;
    tidesdb_t *db;

    CHECK(count == 2);
    snprintf(path, sizeof path, "%s/db", arguments[1]);
    db = open_in(path);
    /* Memtables of 64 KiB. */
    cf = small_family(db, "default");
    txn = begin(db, TDB_ISOLATION_SERIALIZABLE);
    put_all(txn, cf, 1);
    check_all(txn, cf, 1);
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    check_all(txn, cf, 1);
    old = begin(db, TDB_ISOLATION_SNAPSHOT);
    put_all(txn, cf, 2);
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    CHECK_OK(tidesdb_compact(cf));
    check_all(txn, cf, 2);
    check_all(old, cf, 1);
    tidesdb_txn_free(old);
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_close(db));

    db = open_in(path);
    cf = tidesdb_get_column_family(db, "default");
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    check_all(txn, cf, 2);
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_close(db));
    puts("all checks hold");
    return 0;
}
