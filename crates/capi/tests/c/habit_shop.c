/* A shop as a program for TidesDB 9.3 would have it, with db.h alone: families with options from an
   INI file, orders in transactions with savepoints, reports by iterators, a backup. The argument is
   an empty directory. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidesdb/db.h>

#define TRY(call)                                                            \
    do                                                                       \
    {                                                                        \
        int rc_ = (call);                                                    \
        if (rc_ != TDB_SUCCESS)                                              \
        {                                                                    \
            fprintf(stderr, "%s failed: %d (line %d)\n", #call, rc_, __LINE__); \
            return rc_;                                                      \
        }                                                                    \
    } while (0)

static int retryable(int rc)
{
    return rc == TDB_ERR_BUSY || rc == TDB_ERR_UNKNOWN || rc == TDB_ERR_MEMORY_LIMIT ||
           rc == TDB_ERR_CONFLICT;
}

static long read_number(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const char *key)
{
    uint8_t *value = NULL;
    size_t value_size = 0;
    char text[32];
    long number = -1;
    if (tidesdb_txn_get(txn, cf, (const uint8_t *)key, strlen(key) + 1, &value, &value_size) == 0)
    {
        snprintf(text, sizeof text, "%.*s", (int)value_size, (char *)value);
        number = strtol(text, NULL, 10);
        free(value);
    }
    return number;
}

static int write_number(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const char *key,
                        long number)
{
    char text[32];
    int length = snprintf(text, sizeof text, "%ld", number);
    return tidesdb_txn_put(txn, cf, (uint8_t *)key, strlen(key) + 1, (uint8_t *)text,
                           (size_t)length, -1);
}

/* Takes items out of stock; those that are not there are left out of the order. */
static int place_order(tidesdb_t *db, tidesdb_column_family_t *stock,
                       tidesdb_column_family_t *orders, uint64_t id, const char **items)
{
    tidesdb_txn_t *txn = NULL;
    char taken[128] = "";
    int n, rc, tries = 0;

    TRY(tidesdb_txn_begin_with_isolation(db, TDB_ISOLATION_SERIALIZABLE, &txn));
    do
    {
        taken[0] = 0;
        for (n = 0; items[n] != NULL; n++)
        {
            long left;
            TRY(tidesdb_txn_savepoint(txn, "item"));
            left = read_number(txn, stock, items[n]);
            TRY(write_number(txn, stock, items[n], left - 1));
            if (left <= 0)
            {
                TRY(tidesdb_txn_rollback_to_savepoint(txn, "item"));
                continue;
            }
            TRY(tidesdb_txn_release_savepoint(txn, "item"));
            snprintf(taken + strlen(taken), sizeof taken - strlen(taken), "%s ", items[n]);
        }
        TRY(tidesdb_txn_put(txn, orders, (uint8_t *)&id, sizeof id, (uint8_t *)taken, strlen(taken),
                            0));
        rc = tidesdb_txn_commit(txn);
        if (rc == TDB_ERR_CONFLICT)
        {
            TRY(tidesdb_txn_rollback(txn));
            TRY(tidesdb_txn_reset(txn, TDB_ISOLATION_SERIALIZABLE));
        }
    } while (retryable(rc) && ++tries < 100);
    tidesdb_txn_free(txn);
    return rc;
}

static int report(tidesdb_t *db, tidesdb_column_family_t *cf, int backwards)
{
    tidesdb_txn_t *txn = NULL;
    tidesdb_iter_t *it = NULL;
    TRY(tidesdb_txn_begin(db, &txn));
    TRY(tidesdb_iter_new(txn, cf, &it));
    if (backwards)
        tidesdb_iter_seek_to_last(it);
    else
        tidesdb_iter_seek_to_first(it);
    while (tidesdb_iter_valid(it))
    {
        uint8_t *key, *value;
        size_t key_size, value_size;
        uint64_t id;
        TRY(tidesdb_iter_key(it, &key, &key_size));
        TRY(tidesdb_iter_value(it, &value, &value_size));
        if (key_size != sizeof id) return -1;
        memcpy(&id, key, sizeof id);
        printf("%d: %.*s\n", (int)id, (int)value_size, (char *)value);
        if ((backwards ? tidesdb_iter_prev(it) : tidesdb_iter_next(it)) != TDB_SUCCESS) break;
    }
    tidesdb_iter_free(it);
    tidesdb_txn_free(txn);
    return 0;
}

static int run(const char *directory)
{
    static const char *first[] = {"pen", "paper", NULL}, *second[] = {"pen", "ink", NULL};
    char path[1024], ini[1100], backup[1100];
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_column_family_config_t cf_config = tidesdb_default_column_family_config();
    tidesdb_column_family_t *stock, *orders;
    tidesdb_txn_t *txn = NULL;
    tidesdb_t *db = NULL;

    snprintf(path, sizeof path, "%s/shop", directory);
    snprintf(ini, sizeof ini, "%s/shop.ini", directory);
    snprintf(backup, sizeof backup, "%s/backup", directory);
    cf_config.write_buffer_size = 1 << 20;
    cf_config.compression_algorithm = TDB_COMPRESS_ZSTD;
    snprintf(cf_config.comparator_name, TDB_MAX_COMPARATOR_NAME, "uint64");
    TRY(tidesdb_cf_config_save_to_ini(ini, "orders", &cf_config));

    config.db_path = path;
    config.log_level = TDB_LOG_ERROR;
    TRY(tidesdb_open(&config, &db));
    memset(&cf_config, 0, sizeof cf_config);
    TRY(tidesdb_cf_config_load_from_ini(ini, "orders", &cf_config));
    TRY(tidesdb_create_column_family(db, "orders", &cf_config));
    TRY(tidesdb_cf_config_load_from_ini(ini, "no such section", &cf_config));
    snprintf(cf_config.comparator_name, TDB_MAX_COMPARATOR_NAME, "lexicographic");
    TRY(tidesdb_create_column_family(db, "stock", &cf_config));
    if (tidesdb_create_column_family(db, "stock", &cf_config) != TDB_ERR_EXISTS) return -1;
    orders = tidesdb_get_column_family(db, "orders");
    stock = tidesdb_get_column_family(db, "stock");

    TRY(tidesdb_txn_begin(db, &txn));
    TRY(write_number(txn, stock, "pen", 1));
    TRY(write_number(txn, stock, "paper", 5));
    TRY(write_number(txn, stock, "ink", 2));
    TRY(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
    TRY(place_order(db, stock, orders, 300, first));
    TRY(place_order(db, stock, orders, 7, second));
    TRY(place_order(db, stock, orders, 70, second));
    TRY(tidesdb_flush_memtable(orders));
    TRY(report(db, orders, 0));
    TRY(report(db, orders, 1));
    TRY(tidesdb_backup(db, backup));
    TRY(tidesdb_close(db));

    config.db_path = backup;
    TRY(tidesdb_open(&config, &db));
    orders = tidesdb_get_column_family(db, "orders");
    if (orders == NULL || tidesdb_get_column_family(db, "nothing") != NULL) return -1;
    TRY(report(db, orders, 0));
    return tidesdb_close(db);
}

int main(int argc, char **argv)
{
    if (argc != 2 || run(argv[1]) != TDB_SUCCESS) return EXIT_FAILURE;
    puts("all checks hold");
    return EXIT_SUCCESS;
}
