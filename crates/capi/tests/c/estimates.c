/* Costs and estimates, for planners of queries, and compaction for tombstones. The argument is an
   empty directory. */
#include <time.h>

#include "helpers.h"

static tidesdb_t *open_with(char *path, int unified)
{
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_t *db = NULL;
    config.db_path = path;
    config.log_level = TDB_LOG_NONE;
    config.unified_memtable = unified;
    CHECK_OK(tidesdb_open(&config, &db));
    return db;
}

/* A family with a memtable that holds all of it. */
static tidesdb_column_family_t *family(tidesdb_t *db, const char *name)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    config.min_disk_space = 0;
    CHECK_OK(tidesdb_create_column_family(db, name, &config));
    return tidesdb_get_column_family(db, name);
}

/* Puts or deletes keys from a number on, in one commit. */
static void write_keys(tidesdb_t *db, tidesdb_column_family_t *cf, int from, int count, int deletes)
{
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    int n;
    for (n = from; n < from + count; n++)
    {
        char key[16];
        snprintf(key, sizeof key, "k%06d", n);
        if (deletes)
            CHECK_OK(tidesdb_txn_delete(txn, cf, bytes(key), strlen(key)));
        else
            CHECK_OK(put(txn, cf, key, "a value of some length"));
    }
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
}

static void flush(tidesdb_column_family_t *cf)
{
    CHECK_OK(tidesdb_flush_memtable(cf));
    WAIT_FOR(!tidesdb_is_flushing(cf));
}

static uint64_t estimate_of(tidesdb_column_family_t *cf)
{
    uint64_t estimate = 0;
    CHECK_OK(tidesdb_cf_estimate_cardinality(cf, &estimate));
    return estimate;
}

static tidesdb_stats_t *stats_of(tidesdb_column_family_t *cf)
{
    tidesdb_stats_t *stats = NULL;
    CHECK_OK(tidesdb_get_stats(cf, &stats));
    return stats;
}

static uint64_t total_keys(tidesdb_column_family_t *cf)
{
    tidesdb_stats_t *stats = stats_of(cf);
    const uint64_t keys = stats->total_keys;
    tidesdb_free_stats(stats);
    return keys;
}

#define KEYS 1000

/* Each family counts its own keys, and a key with many versions once: in memory, in a table, and
   after a reopening. */
static void estimates(char *path, int unified)
{
    tidesdb_t *db = open_with(path, unified);
    tidesdb_column_family_t *cf = family(db, "cf"), *other = family(db, "other");

    CHECK(estimate_of(cf) == 0);
    write_keys(db, other, 0, 7, 0);
    write_keys(db, cf, 0, KEYS / 2, 0);
    write_keys(db, cf, 0, KEYS / 4, 0);
    write_keys(db, cf, 0, KEYS / 8, 1);
    CHECK(estimate_of(cf) == KEYS / 2 && total_keys(cf) == KEYS / 2 && estimate_of(other) == 7);
    write_keys(db, cf, 0, KEYS, 0);
    CHECK_OK(tidesdb_compact(cf));
    CHECK(estimate_of(cf) == KEYS);
    CHECK_OK(tidesdb_close(db));
    db = open_with(path, unified);
    cf = tidesdb_get_column_family(db, "cf");
    other = tidesdb_get_column_family(db, "other");
    CHECK(estimate_of(cf) == KEYS && estimate_of(other) == 7);
    /* In two places it counts in each. */
    write_keys(db, cf, 0, 1, 0);
    CHECK(estimate_of(cf) == KEYS + 1 && total_keys(cf) == KEYS + 1 && estimate_of(other) == 7);
    CHECK_OK(tidesdb_close(db));
}

static double cost(tidesdb_column_family_t *cf, const char *one, const char *other)
{
    double cost = -1.0, back = -2.0;
    CHECK_OK(tidesdb_range_cost(cf, bytes(one), strlen(one), bytes(other), strlen(other), &cost));
    CHECK_OK(tidesdb_range_cost(cf, bytes(other), strlen(other), bytes(one), strlen(one), &back));
    CHECK(cost == back);
    return cost;
}

/* In either order, of every layout of tables, with an index in memory and without. */
static void costs(tidesdb_t *db)
{
    int round;
    for (round = 0; round < 4; round++)
    {
        tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
        tidesdb_column_family_t *cf;
        double empty, whole, part;
        char name[16];
        snprintf(name, sizeof name, "costs %d", round);
        config.enable_block_indexes = round % 2;
        config.use_btree = round / 2;
        config.min_disk_space = 0;
        CHECK_OK(tidesdb_create_column_family(db, name, &config));
        cf = tidesdb_get_column_family(db, name);
        empty = cost(cf, "a", "z");
        CHECK(empty >= 0.0);
        write_keys(db, cf, 0, 5 * KEYS, 0);
        CHECK(cost(cf, "a", "z") > empty);
        flush(cf);
        whole = cost(cf, "a", "z");
        part = cost(cf, "k000100", "k000200");
        CHECK(whole > empty && part > 0.0 && part < whole);
        CHECK(cost(cf, "x", "z") < whole && cost(cf, "k000100", "k000100") <= part);
    }
}

/* A table of tombstones alone is left alone while it has fewer entries than the setting says, and
   is compacted once it may be. */
static void tombstones(tidesdb_t *db)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    tidesdb_column_family_t *cf;
    tidesdb_stats_t *stats;

    config.min_disk_space = 0;
    config.l1_file_count_trigger = 1000;
    config.tombstone_density_trigger = 0.5;
    CHECK(config.tombstone_density_min_entries == 1024);
    CHECK_OK(tidesdb_create_column_family(db, "tombstones", &config));
    cf = tidesdb_get_column_family(db, "tombstones");
    /* So few tables are not merged for readers either, though they are small and alike. */
    write_keys(db, cf, 0, 101, 0);
    flush(cf);
    write_keys(db, cf, 0, 100, 1);
    flush(cf);
    /* Also what begins at rest is done then. */
    CHECK_OK(tidesdb_wait_idle(db));
    stats = stats_of(cf);
    CHECK(stats->total_tombstones == 100 && stats->max_sst_density == 1.0);
    CHECK(stats->compaction_count == 0);
    tidesdb_free_stats(stats);
    config.tombstone_density_min_entries = 100;
    CHECK_OK(tidesdb_cf_update_runtime_config(cf, &config, 0));
    CHECK_OK(tidesdb_wait_idle(db));
    stats = stats_of(cf);
    CHECK(stats->total_tombstones == 0 && stats->compaction_count > 0);
    tidesdb_free_stats(stats);
}

int main(int count, char **arguments)
{
    char path[4096];
    tidesdb_t *db;

    CHECK(count == 2);
    snprintf(path, sizeof path, "%s/own", arguments[1]);
    estimates(path, 0);
    snprintf(path, sizeof path, "%s/shared", arguments[1]);
    estimates(path, 1);
    snprintf(path, sizeof path, "%s/db", arguments[1]);
    db = open_with(path, 0);
    costs(db);
    tombstones(db);
    CHECK_OK(tidesdb_close(db));
    puts("all checks hold");
    return 0;
}
