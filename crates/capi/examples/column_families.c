/* Families with options of their own: creating, listing, renaming, cloning, dropping.
   usage: column_families DIRECTORY
   The directory must not exist: the families would. */
#include <string.h>

#include <tidesdb/tidesdb.h>

#include "check.h"

static void list(tidesdb_t *db)
{
    char **names = NULL;
    int count = 0, n;
    check(tidesdb_list_column_families(db, &names, &count), "list");
    printf("families:");
    for (n = 0; n < count; n++)
    {
        printf(" %s", names[n]);
        tidesdb_free(names[n]);
    }
    tidesdb_free(names);
    printf("\n");
}

int main(int count, char **arguments)
{
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_column_family_config_t options = tidesdb_default_column_family_config();
    tidesdb_column_family_t *events;
    tidesdb_stats_t *stats = NULL;
    tidesdb_t *db = NULL;
    tidesdb_txn_t *txn = NULL;

    if (count != 2) return 2;
    config.db_path = arguments[1];
    config.log_level = TDB_LOG_WARN;
    check(tidesdb_open(&config, &db), "open");

    options.compression_algorithm = TDB_COMPRESS_ZSTD;
    options.sync_mode = TDB_SYNC_FULL; /* a commit is on disk when it returns */
    check(tidesdb_create_column_family(db, "events", &options), "create");
    options = tidesdb_default_column_family_config();
    options.use_btree = 1;
    check(tidesdb_create_column_family(db, "index", &options), "create");
    list(db);

    /* One commit to both: all of it or nothing. */
    events = tidesdb_get_column_family(db, "events");
    check(tidesdb_txn_begin(db, &txn), "begin");
    check(tidesdb_txn_put(txn, events, (const uint8_t *)"1", 1, (const uint8_t *)"start", 5, 0),
          "put");
    check(tidesdb_txn_put(txn, tidesdb_get_column_family(db, "index"), (const uint8_t *)"start", 5,
                          (const uint8_t *)"1", 1, 0),
          "put");
    check(tidesdb_txn_commit(txn), "commit");
    tidesdb_txn_free(txn);

    check(tidesdb_rename_column_family(db, "events", "history"), "rename");
    check(tidesdb_clone_column_family(db, "history", "copy"), "clone");
    list(db);

    /* The handle is still good. */
    check(tidesdb_flush_memtable(events), "flush");
    check(tidesdb_get_stats(events, &stats), "stats");
    printf("%s has %llu keys\n", stats->config->name, (unsigned long long)stats->total_keys);
    tidesdb_free_stats(stats);

    check(tidesdb_drop_column_family(db, "copy"), "drop");
    check(tidesdb_drop_column_family(db, "index"), "drop");
    list(db);
    check(tidesdb_close(db), "close");
    return 0;
}
