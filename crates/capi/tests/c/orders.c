/* Families in other orders of keys than that of bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidesdb/tidesdb.h>

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #condition);         \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

static tidesdb_t *open_in(char *path)
{
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_t *db = NULL;
    config.db_path = path;
    config.log_level = TDB_LOG_NONE;
    CHECK(tidesdb_open(&config, &db) == TDB_SUCCESS);
    return db;
}

static int create(tidesdb_t *db, const char *name, const char *order)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    snprintf(config.comparator_name, sizeof config.comparator_name, "%s", order);
    return tidesdb_create_column_family(db, name, &config);
}

/* Puts keys, each with itself as its value. */
static void fill(tidesdb_t *db, tidesdb_column_family_t *cf, const char *const *keys, int count)
{
    tidesdb_txn_t *txn = NULL;
    int n;
    CHECK(tidesdb_txn_begin(db, &txn) == TDB_SUCCESS);
    for (n = 0; n < count; n++) {
        const uint8_t *key = (const uint8_t *)keys[n];
        CHECK(tidesdb_txn_put(txn, cf, key, strlen(keys[n]), key, strlen(keys[n]), 0) == 0);
    }
    CHECK(tidesdb_txn_commit(txn) == TDB_SUCCESS);
    tidesdb_txn_free(txn);
}

/* The keys from the first at or after "target" on, with spaces between. */
static const char *from(tidesdb_t *db, tidesdb_column_family_t *cf, const char *target)
{
    static char found[256];
    tidesdb_txn_t *txn = NULL;
    tidesdb_iter_t *iter = NULL;
    found[0] = 0;
    CHECK(tidesdb_txn_begin(db, &txn) == TDB_SUCCESS);
    CHECK(tidesdb_iter_new(txn, cf, &iter) == TDB_SUCCESS);
    tidesdb_iter_seek(iter, (const uint8_t *)target, strlen(target));
    while (tidesdb_iter_valid(iter)) {
        uint8_t *key = NULL, *value = NULL;
        size_t key_size = 0, value_size = 0;
        CHECK(tidesdb_iter_key_value(iter, &key, &key_size, &value, &value_size) == TDB_SUCCESS);
        CHECK(key_size == value_size && memcmp(key, value, key_size) == 0);
        snprintf(found + strlen(found), sizeof found - strlen(found), "%.*s ", (int)key_size,
                 (const char *)key);
        tidesdb_iter_next(iter);
    }
    tidesdb_iter_free(iter);
    tidesdb_txn_free(txn);
    return found;
}

/* By the last byte, whichever way round the context says. */
static int by_last(const uint8_t *key1, size_t size1, const uint8_t *key2, size_t size2, void *ctx)
{
    const int *sign = ctx;
    return *sign * ((int)key1[size1 - 1] - (int)key2[size2 - 1]);
}

int main(int count, char **arguments)
{
    static const char *const keys[] = {"a3", "b1", "c2"};
    int up = 1, down = -1;
    char path[4096];
    tidesdb_comparator_fn function = NULL;
    void *context = NULL;
    tidesdb_column_family_t *cf;
    tidesdb_t *db;

    CHECK(count == 2);
    snprintf(path, sizeof path, "%s/orders", arguments[1]);
    db = open_in(path);
    CHECK(create(db, "none", "unheard of") == TDB_ERR_NOT_FOUND);
    CHECK(create(db, "reverse", "reverse") == TDB_SUCCESS);
    cf = tidesdb_get_column_family(db, "reverse");
    fill(db, cf, keys, 3);
    CHECK(strcmp(from(db, cf, "z"), "c2 b1 a3 ") == 0);
    CHECK(strcmp(from(db, cf, "b5"), "b1 a3 ") == 0);
    CHECK(create(db, "folded", "case_insensitive") == TDB_SUCCESS);
    cf = tidesdb_get_column_family(db, "folded");
    fill(db, cf, (const char *const[]){"Key", "KEY", "also"}, 3);
    CHECK(strcmp(from(db, cf, "A"), "also KEY ") == 0);

    CHECK(tidesdb_get_comparator(db, "reverse", &function, &context) == TDB_SUCCESS);
    CHECK(function == tidesdb_comparator_reverse_memcmp && context == NULL);
    CHECK(tidesdb_get_comparator(db, "last", NULL, NULL) == TDB_ERR_NOT_FOUND);
    CHECK(tidesdb_register_comparator(db, NULL, by_last, NULL, NULL) == TDB_ERR_INVALID_ARGS);
    CHECK(tidesdb_register_comparator(db, "last", NULL, NULL, NULL) == TDB_ERR_INVALID_ARGS);
    CHECK(tidesdb_register_comparator(db, "memcmp", by_last, NULL, &up) == TDB_ERR_INVALID_ARGS);
    CHECK(tidesdb_register_comparator(db, "last", by_last, "context", &up) == TDB_SUCCESS);
    CHECK(tidesdb_register_comparator(db, "last", by_last, NULL, &up) == TDB_ERR_INVALID_ARGS);
    CHECK(tidesdb_get_comparator(db, "last", &function, &context) == TDB_SUCCESS);
    CHECK(function == by_last && context == &up);
    CHECK(create(db, "last", "last") == TDB_SUCCESS);
    cf = tidesdb_get_column_family(db, "last");
    fill(db, cf, keys, 3);
    CHECK(strcmp(from(db, cf, "1"), "b1 c2 a3 ") == 0);
    CHECK(strcmp(from(db, cf, "x2"), "c2 a3 ") == 0);
    CHECK(tidesdb_close(db) == TDB_SUCCESS);

    db = open_in(path);
    CHECK(tidesdb_get_column_family(db, "last") == NULL);
    CHECK(create(db, "last", "memcmp") == TDB_ERR_EXISTS);
    CHECK(tidesdb_register_comparator(db, "last", by_last, NULL, &down) == TDB_SUCCESS);
    cf = tidesdb_get_column_family(db, "last");
    CHECK(cf != NULL);
    CHECK(strcmp(from(db, cf, "9"), "a3 c2 b1 ") == 0);
    CHECK(tidesdb_close(db) == TDB_SUCCESS);
    puts("all checks hold");
    return 0;
}
