/* Copies a database that is in use, and opens the copies. usage: backup DIRECTORY
   The directory must not exist: the copies would. */
#include <string.h>

#include <tidesdb/tidesdb.h>

#include "check.h"

static tidesdb_t *open_at(char *path)
{
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_t *db = NULL;
    config.db_path = path;
    config.log_level = TDB_LOG_WARN;
    check(tidesdb_open(&config, &db), "open");
    return db;
}

static void show(char *path)
{
    tidesdb_t *db = open_at(path);
    tidesdb_column_family_t *cf = tidesdb_get_column_family(db, "notes");
    tidesdb_txn_t *txn = NULL;
    uint8_t *value = NULL;
    size_t size = 0;
    check(tidesdb_txn_begin(db, &txn), "begin");
    check(tidesdb_txn_get(txn, cf, (const uint8_t *)"note", 4, &value, &size), "get");
    printf("%.*s\n", (int)size, (const char *)value);
    tidesdb_free(value);
    tidesdb_txn_free(txn);
    check(tidesdb_close(db), "close");
}

int main(int count, char **arguments)
{
    tidesdb_column_family_config_t options = tidesdb_default_column_family_config();
    tidesdb_txn_t *txn = NULL;
    tidesdb_t *db;
    char backup[4096], checkpoint[4096];

    if (count != 2) return 2;
    snprintf(backup, sizeof backup, "%s.backup", arguments[1]);
    snprintf(checkpoint, sizeof checkpoint, "%s.checkpoint", arguments[1]);
    db = open_at(arguments[1]);
    check(tidesdb_create_column_family(db, "notes", &options), "create");
    check(tidesdb_txn_begin(db, &txn), "begin");
    check(tidesdb_txn_put(txn, tidesdb_get_column_family(db, "notes"), (const uint8_t *)"note", 4,
                          (const uint8_t *)"remember", 8, 0),
          "put");
    check(tidesdb_txn_commit(txn), "commit");
    tidesdb_txn_free(txn);

    /* Every byte, for another disk. */
    check(tidesdb_backup(db, backup), "backup");
    /* Hard links where the file system can: quick, and next to no space as long as both live. */
    check(tidesdb_checkpoint(db, checkpoint), "checkpoint");
    check(tidesdb_close(db), "close");

    show(backup);
    show(checkpoint);
    return 0;
}
