/* Walks through keys in both directions, from a key on, and over a prefix.
   usage: iterators DIRECTORY */
#include <string.h>

#include <tidesdb/tidesdb.h>

#include "check.h"

static void show(tidesdb_iter_t *iter)
{
    uint8_t *key = NULL, *value = NULL;
    size_t key_size = 0, size = 0;
    /* Both belong to the iterator and live until it moves. */
    check(tidesdb_iter_key_value(iter, &key, &key_size, &value, &size), "entry");
    printf(" %.*s=%.*s", (int)key_size, (char *)key, (int)size, (char *)value);
}

int main(int count, char **arguments)
{
    const char *fruits[] = {"apple", "apricot", "banana", "cherry"};
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_column_family_config_t family = tidesdb_default_column_family_config();
    tidesdb_column_family_t *cf;
    tidesdb_t *db = NULL;
    tidesdb_txn_t *txn = NULL;
    tidesdb_iter_t *iter = NULL;
    int code, n;

    if (count != 2) return 2;
    config.db_path = arguments[1];
    config.log_level = TDB_LOG_WARN;
    check(tidesdb_open(&config, &db), "open");
    code = tidesdb_create_column_family(db, "fruits", &family);
    if (code != TDB_ERR_EXISTS) check(code, "create");
    cf = tidesdb_get_column_family(db, "fruits");

    /* An iterator sees what was committed before it was made, and what its transaction wrote. */
    check(tidesdb_txn_begin(db, &txn), "begin");
    for (n = 0; n < 4; n++)
    {
        const uint8_t *name = (const uint8_t *)fruits[n];
        check(tidesdb_txn_put(txn, cf, name, strlen(fruits[n]), name, 1, 0), "put");
    }
    check(tidesdb_iter_new(txn, cf, &iter), "iterator");

    printf("forwards:");
    for (code = tidesdb_iter_seek_to_first(iter); code == TDB_SUCCESS;
         code = tidesdb_iter_next(iter))
        show(iter);
    if (code != TDB_ERR_NOT_FOUND) check(code, "next");

    printf("\nbackwards:");
    for (code = tidesdb_iter_seek_to_last(iter); code == TDB_SUCCESS;
         code = tidesdb_iter_prev(iter))
        show(iter);

    printf("\nfrom b on:");
    for (code = tidesdb_iter_seek(iter, (const uint8_t *)"b", 1); code == TDB_SUCCESS;
         code = tidesdb_iter_next(iter))
        show(iter);

    printf("\nwith ap:");
    for (code = tidesdb_iter_seek(iter, (const uint8_t *)"ap", 2); code == TDB_SUCCESS;
         code = tidesdb_iter_next(iter))
    {
        uint8_t *key = NULL;
        size_t size = 0;
        check(tidesdb_iter_key(iter, &key, &size), "key");
        if (size < 2 || memcmp(key, "ap", 2) != 0) break;
        show(iter);
    }
    printf("\n");

    tidesdb_iter_free(iter); /* before its transaction */
    tidesdb_txn_free(txn);   /* without commit: nothing was written */
    check(tidesdb_close(db), "close");
    return 0;
}
