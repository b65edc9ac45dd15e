/* Prints all keys and values of a column family as JSON lines, which `tidesdb load --format jsonl`
   reads. It uses nothing but functions of TidesDB 9.3: linked with the original it takes the data
   out of the original's databases. When a key expires is not in the interface.
   usage: export DIRECTORY FAMILY > data.jsonl */
#include <tidesdb/tidesdb.h>

#include "check.h"

static void print_hex(const char *before, const uint8_t *bytes, size_t size)
{
    size_t at;
    printf("%s", before);
    for (at = 0; at < size; at++) printf("%02x", bytes[at]);
}

int main(int count, char **arguments)
{
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_column_family_t *cf;
    tidesdb_t *db = NULL;
    tidesdb_txn_t *txn = NULL;
    tidesdb_iter_t *iter = NULL;
    int code;

    if (count != 3) return 2;
    config.db_path = arguments[1];
    config.log_level = TDB_LOG_NONE; /* nothing between the lines */
    check(tidesdb_open(&config, &db), "open");
    cf = tidesdb_get_column_family(db, arguments[2]);
    if (cf == NULL) check(TDB_ERR_NOT_FOUND, arguments[2]);

    check(tidesdb_txn_begin(db, &txn), "begin");
    check(tidesdb_iter_new(txn, cf, &iter), "iterator");
    for (code = tidesdb_iter_seek_to_first(iter); code == TDB_SUCCESS;
         code = tidesdb_iter_next(iter))
    {
        uint8_t *key = NULL, *value = NULL;
        size_t key_size = 0, size = 0;
        if (!tidesdb_iter_valid(iter)) break;
        check(tidesdb_iter_key(iter, &key, &key_size), "key");
        check(tidesdb_iter_value(iter, &value, &size), "value");
        print_hex("{\"key_hex\":\"", key, key_size);
        print_hex("\",\"value_hex\":\"", value, size);
        printf("\"}\n");
    }
    if (code != TDB_ERR_NOT_FOUND) check(code, "next");
    tidesdb_iter_free(iter);
    tidesdb_txn_free(txn);
    check(tidesdb_close(db), "close");
    if (fflush(stdout) != 0 || ferror(stdout)) check(TDB_ERR_IO, "output");
    return 0;
}
