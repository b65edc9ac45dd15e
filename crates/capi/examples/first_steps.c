/* Opens a database, writes a key, reads it, and closes. usage: first_steps DIRECTORY */
#include <string.h>

#include <tidesdb/tidesdb.h>

#include "check.h"

int main(int count, char **arguments)
{
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_column_family_config_t family = tidesdb_default_column_family_config();
    tidesdb_column_family_t *users;
    tidesdb_t *db = NULL;
    tidesdb_txn_t *txn = NULL;
    uint8_t *value = NULL;
    size_t size = 0;
    int code;

    if (count != 2) return 2;
    config.db_path = arguments[1]; /* created if it is missing */
    config.log_level = TDB_LOG_WARN;
    check(tidesdb_open(&config, &db), "open");

    /* Keys live in column families. A family is there again when the database is opened again. */
    code = tidesdb_create_column_family(db, "users", &family);
    if (code != TDB_ERR_EXISTS) check(code, "create");
    users = tidesdb_get_column_family(db, "users");

    /* Every operation belongs to a transaction. */
    check(tidesdb_txn_begin(db, &txn), "begin");
    check(tidesdb_txn_put(txn, users, (const uint8_t *)"ada", 3, (const uint8_t *)"1815", 4, 0),
          "put");
    check(tidesdb_txn_commit(txn), "commit");
    tidesdb_txn_free(txn);

    check(tidesdb_txn_begin(db, &txn), "begin");
    check(tidesdb_txn_get(txn, users, (const uint8_t *)"ada", 3, &value, &size), "get");
    printf("ada: %.*s\n", (int)size, (const char *)value);
    tidesdb_free(value); /* what a get hands out is yours */
    code = tidesdb_txn_get(txn, users, (const uint8_t *)"nobody", 6, &value, &size);
    printf("nobody: %s\n", code == TDB_ERR_NOT_FOUND ? "not found" : "found");
    tidesdb_txn_free(txn);

    check(tidesdb_close(db), "close");
    return 0;
}
