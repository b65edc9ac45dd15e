/* What the C test programs have in common: short forms of calls that must work. */
#ifndef HELPERS_H
#define HELPERS_H

#include <tidesdb/tidesdb.h>

#include "check.h"

/* What a test opens a directory with: no log, unless it asks for one. */
static inline tidesdb_config_t quiet_config(char *path)
{
    tidesdb_config_t config = tidesdb_default_config();
    config.db_path = path;
    config.log_level = TDB_LOG_NONE;
    return config;
}

static inline tidesdb_t *open_by(tidesdb_config_t config)
{
    tidesdb_t *db = NULL;
    CHECK_OK(tidesdb_open(&config, &db));
    CHECK(db != NULL);
    return db;
}

static inline tidesdb_t *open_in(char *path)
{
    return open_by(quiet_config(path));
}

/* With a log of this level in the directory. */
static inline tidesdb_t *open_with_log(char *path, tidesdb_log_level_t level)
{
    tidesdb_config_t config = quiet_config(path);
    config.log_level = level;
    config.log_to_file = 1;
    return open_by(config);
}

/* With a memtable that is called shared. */
static inline tidesdb_t *open_shared(char *path)
{
    tidesdb_config_t config = quiet_config(path);
    config.unified_memtable = 1;
    return open_by(config);
}

/* Lines of a file that have a text. */
static inline int lines_with(const char *path, const char *text)
{
    char line[4096];
    FILE *file = fopen(path, "r");
    int lines = 0;
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) lines += strstr(line, text) != NULL;
    fclose(file);
    return lines;
}

/* A family with small memtables, so that little data makes tables. */
static inline tidesdb_column_family_t *small_family(tidesdb_t *db, const char *name)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    config.write_buffer_size = 64 << 10;
    config.min_disk_space = 0;
    CHECK_OK(tidesdb_create_column_family(db, name, &config));
    return tidesdb_get_column_family(db, name);
}

static inline const uint8_t *bytes(const char *text)
{
    return (const uint8_t *)text;
}

static inline int put(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const char *key,
                      const char *value)
{
    return tidesdb_txn_put(txn, cf, bytes(key), strlen(key), bytes(value), strlen(value), 0);
}

/* Whether a get answers this value, or, for NULL, that there is none. */
static inline int holds(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const char *key,
                        const char *expected)
{
    uint8_t *value = NULL;
    size_t size = 0;
    const int code = tidesdb_txn_get(txn, cf, bytes(key), strlen(key), &value, &size);
    int same;
    if (expected == NULL) return code == TDB_ERR_NOT_FOUND && value == NULL;
    if (code != TDB_SUCCESS) return 0;
    same = size == strlen(expected) && memcmp(value, expected, size) == 0;
    tidesdb_free(value);
    return same;
}

static inline tidesdb_txn_t *begin(tidesdb_t *db, tidesdb_isolation_level_t level)
{
    tidesdb_txn_t *txn = NULL;
    CHECK_OK(tidesdb_txn_begin_with_isolation(db, level, &txn));
    return txn;
}

/* A transaction of its own for one put. */
static inline void put_alone(tidesdb_t *db, tidesdb_column_family_t *cf, const char *key,
                             const char *value)
{
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK_OK(put(txn, cf, key, value));
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
}

/* Tables of all levels. */
static inline int tables_of(tidesdb_column_family_t *cf)
{
    tidesdb_stats_t *stats = NULL;
    int level, tables = 0;
    CHECK_OK(tidesdb_get_stats(cf, &stats));
    for (level = 0; level < stats->num_levels; level++) tables += stats->level_num_sstables[level];
    tidesdb_free_stats(stats);
    return tables;
}

/* Waits until a condition holds, for a minute at most. */
#define WAIT_FOR(condition)                                                            \
    do                                                                                 \
    {                                                                                  \
        struct timespec pause_ = {0, 1000000};                                         \
        int tries_;                                                                    \
        for (tries_ = 0; tries_ < 60000 && !(condition); tries_++)                     \
            nanosleep(&pause_, NULL);                                                  \
        CHECK(condition);                                                              \
    } while (0)

#endif
