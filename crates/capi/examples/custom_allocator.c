/* Has everything that the library hands out come from an allocator of the program's own.
   usage: custom_allocator DIRECTORY */
#include <string.h>

#include <tidesdb/tidesdb.h>

#include "check.h"

/* A program with threads needs an atomic count. */
static long in_use;

static void *my_malloc(size_t size)
{
    in_use++;
    return malloc(size);
}

static void *my_calloc(size_t number, size_t size)
{
    in_use++;
    return calloc(number, size);
}

static void my_free(void *pointer)
{
    if (pointer != NULL) in_use--;
    free(pointer);
}

int main(int count, char **arguments)
{
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_column_family_config_t options = tidesdb_default_column_family_config();
    tidesdb_t *db = NULL;
    tidesdb_txn_t *txn = NULL;
    uint8_t *value = NULL;
    size_t size = 0;

    if (count != 2) return 2;
    /* Before the first open. NULL leaves a function to the C library. */
    check(tidesdb_init(my_malloc, my_calloc, NULL, my_free), "init");
    config.db_path = arguments[1];
    config.log_level = TDB_LOG_WARN;
    check(tidesdb_open(&config, &db), "open");
    check(tidesdb_create_column_family(db, "default", &options), "create");
    check(tidesdb_txn_begin(db, &txn), "begin");
    check(tidesdb_txn_put(txn, tidesdb_get_column_family(db, "default"), (const uint8_t *)"k", 1,
                          (const uint8_t *)"v", 1, 0),
          "put");
    check(tidesdb_txn_get(txn, tidesdb_get_column_family(db, "default"), (const uint8_t *)"k", 1,
                          &value, &size),
          "get");
    printf("in use: %s\n", in_use > 0 ? "some" : "none");
    tidesdb_free(value); /* with an allocator of its own never free() */
    tidesdb_txn_free(txn);
    check(tidesdb_close(db), "close");
    printf("left: %ld\n", in_use);
    tidesdb_finalize();
    return 0;
}
