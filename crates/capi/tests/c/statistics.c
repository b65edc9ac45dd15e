/* Each statistic against what was done, and against the files that there are. The argument is an
   empty directory. */
#define _GNU_SOURCE
#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

#include "helpers.h"

#define KEYS 1000
#define KEY_BYTES 8
#define VALUE_BYTES 92
#define DELETED 100
#define LARGE 4096

static tidesdb_stats_t *of(tidesdb_column_family_t *cf)
{
    tidesdb_stats_t *stats = NULL;
    uint64_t keys = 0, tombstones = 0, bytes = 0;
    int level;
    CHECK_OK(tidesdb_get_stats(cf, &stats));
    /* What holds at any time. */
    CHECK(stats->num_levels >= 1 && stats->read_amp >= 1.0);
    CHECK(stats->hit_rate >= 0.0 && stats->hit_rate <= 1.0);
    for (level = 0; level < stats->num_levels; level++)
    {
        keys += stats->level_key_counts[level];
        tombstones += stats->level_tombstone_counts[level];
        bytes += stats->level_sizes[level];
        CHECK((stats->level_num_sstables[level] > 0) == (stats->level_sizes[level] > 0));
        CHECK((stats->level_num_sstables[level] > 0) == (stats->level_key_counts[level] > 0));
    }
    CHECK(stats->total_keys >= keys && stats->total_tombstones == tombstones);
    CHECK(stats->total_data_size >= bytes);
    CHECK((stats->total_keys > 0) == (stats->avg_key_size > 0.0));
    CHECK((stats->total_keys > 0) == (stats->avg_value_size > 0.0));
    CHECK(stats->tombstone_ratio >= 0.0 && stats->tombstone_ratio <= 1.0);
    CHECK(stats->max_sst_density >= 0.0 && stats->max_sst_density <= 1.0);
    CHECK((stats->max_sst_density > 0.0) == (stats->max_sst_density_level > 0));
    CHECK((tombstones > 0) == (stats->max_sst_density > 0.0));
    CHECK(stats->max_sst_density_level <= stats->num_levels);
    CHECK(stats->use_btree == stats->config->use_btree);
    if (!stats->use_btree) CHECK(stats->btree_total_nodes == 0 && stats->btree_max_height == 0);
    if (!stats->use_btree) CHECK(stats->btree_avg_height == 0.0);
    return stats;
}

static tidesdb_db_stats_t of_database(tidesdb_t *db)
{
    tidesdb_db_stats_t stats;
    memset(&stats, 0xa5, sizeof stats);
    CHECK_OK(tidesdb_get_db_stats(db, &stats));
    CHECK(stats.total_memory > 0 && stats.available_memory > 0);
    CHECK(stats.resolved_memory_limit > 0 && stats.resolved_memory_limit <= stats.total_memory);
    CHECK(stats.memory_pressure_level == 0 && stats.global_seq > 0);
    CHECK(stats.num_open_sstables >= 0 && stats.total_memtable_bytes >= 0);
    CHECK(stats.object_store_enabled == 0 && stats.object_store_connector == NULL);
    CHECK(stats.local_cache_bytes_used == 0 && stats.local_cache_bytes_max == 0);
    CHECK(stats.local_cache_num_files == 0 && stats.last_uploaded_generation == 0);
    CHECK(stats.upload_queue_depth == 0 && stats.total_uploads == 0);
    CHECK(stats.total_upload_failures == 0 && stats.replica_mode == 0);
    CHECK(stats.primary_epoch == 0 && stats.seen_epoch == 0);
    return stats;
}

/* Waits for what was begun; a family's own flags, and the queues of all. */
static void settle(tidesdb_t *db, tidesdb_column_family_t *cf)
{
    WAIT_FOR(!tidesdb_is_flushing(cf) && !tidesdb_is_compacting(cf));
    WAIT_FOR(of_database(db).flush_pending_count == 0);
    CHECK(of_database(db).flush_queue_size == 0 && of_database(db).total_immutable_count == 0);
    CHECK(of_database(db).compaction_queue_size == 0);
}

/* Bytes of the files below a directory whose names end so. */
static uint64_t bytes_of(const char *directory, const char *suffix)
{
    DIR *dir = opendir(directory);
    struct dirent *entry;
    uint64_t bytes = 0;
    CHECK(dir != NULL);
    while ((entry = readdir(dir)) != NULL)
    {
        char path[8192];
        struct stat found;
        const size_t length = strlen(entry->d_name);
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (stat(path, &found) != 0) continue;
        if (S_ISDIR(found.st_mode))
            bytes += bytes_of(path, suffix);
        else if (length > strlen(suffix) &&
                 strcmp(entry->d_name + length - strlen(suffix), suffix) == 0)
            bytes += (uint64_t)found.st_size;
    }
    closedir(dir);
    return bytes;
}

static void write_keys(tidesdb_t *db, tidesdb_column_family_t *cf, int first, int count,
                       int deletes)
{
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    uint8_t value[VALUE_BYTES];
    int n;
    memset(value, 'v', sizeof value);
    for (n = first; n < first + count; n++)
    {
        char key[16];
        snprintf(key, sizeof key, "k%07d", n);
        if (deletes)
            CHECK_OK(tidesdb_txn_delete(txn, cf, bytes(key), KEY_BYTES));
        else
            CHECK_OK(tidesdb_txn_put(txn, cf, bytes(key), KEY_BYTES, value, sizeof value, 0));
    }
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
}

static void statistics_of_a_family(tidesdb_t *db, const char *path, tidesdb_column_family_t *cf)
{
    static char large[LARGE];
    const uint64_t user = (uint64_t)KEYS * (KEY_BYTES + VALUE_BYTES) + 5 + LARGE - 1;
    tidesdb_stats_t *stats = of(cf);
    uint64_t estimate = 0, tables, first;

    CHECK(stats->num_levels == stats->config->min_levels && stats->total_keys == 0);
    CHECK(stats->total_data_size == 0 && stats->total_tombstones == 0);
    CHECK(stats->wal_bytes_written == 0 && stats->user_bytes_written == 0);
    CHECK(stats->flush_count == 0 && stats->compaction_count == 0);
    CHECK(stats->flush_bytes_written == 0 && stats->compaction_bytes_written == 0);
    CHECK(stats->compaction_bytes_read == 0);
    CHECK(strcmp(stats->config->name, "counted") == 0);
    tidesdb_free_stats(stats);

    /* In memory. */
    write_keys(db, cf, 0, KEYS, 0);
    memset(large, 'l', sizeof large - 1);
    put_alone(db, cf, "large", large);
    stats = of(cf);
    CHECK(stats->user_bytes_written == user && stats->wal_bytes_written > user);
    CHECK(stats->total_keys == KEYS + 1 && stats->memtable_size >= user);
    CHECK(stats->total_data_size == 0 && stats->flush_count == 0);
    tidesdb_free_stats(stats);
    CHECK_OK(tidesdb_cf_estimate_cardinality(cf, &estimate));
    CHECK(estimate == KEYS + 1);

    /* In one table, and a value log. */
    CHECK_OK(tidesdb_flush_memtable(cf));
    settle(db, cf);
    stats = of(cf);
    CHECK(stats->flush_count == 1 && stats->level_num_sstables[0] == 1);
    CHECK(stats->total_keys == KEYS + 1 && stats->level_key_counts[0] == KEYS + 1);
    CHECK(stats->total_tombstones == 0 && stats->max_sst_density_level == 0);
    first = bytes_of(path, ".klog");
    CHECK(stats->level_sizes[0] == first);
    CHECK(stats->total_data_size == first + bytes_of(path, ".vlog"));
    CHECK(stats->total_data_size > first + LARGE - 1);
    CHECK(stats->flush_bytes_written == stats->total_data_size);
    /* A family of one run asks it and the memtable. */
    CHECK(stats->read_amp == 2.0);
    tidesdb_free_stats(stats);
    CHECK_OK(tidesdb_cf_estimate_cardinality(cf, &estimate));
    CHECK(estimate == KEYS + 1);

    /* In a second table, of tombstones alone. */
    write_keys(db, cf, 0, DELETED, 1);
    CHECK_OK(tidesdb_flush_memtable(cf));
    settle(db, cf);
    stats = of(cf);
    CHECK(stats->user_bytes_written == user + DELETED * KEY_BYTES);
    CHECK(stats->flush_count == 2 && stats->level_num_sstables[0] == 2);
    CHECK(stats->total_keys == KEYS + 1 + DELETED && stats->total_tombstones == DELETED);
    CHECK(stats->level_tombstone_counts[0] == DELETED);
    CHECK(stats->max_sst_density == 1.0 && stats->max_sst_density_level == 1);
    CHECK(stats->tombstone_ratio == (double)DELETED / (KEYS + 1 + DELETED));
    CHECK(stats->read_amp == 3.0);
    tables = bytes_of(path, ".klog");
    CHECK(stats->level_sizes[0] == tables && tables > first);
    tidesdb_free_stats(stats);

    /* Merged to one. */
    CHECK_OK(tidesdb_compact(cf));
    settle(db, cf);
    stats = of(cf);
    CHECK(stats->total_keys == KEYS - DELETED + 1 && stats->total_tombstones == 0);
    CHECK(stats->compaction_count == 1 && stats->flush_count == 2);
    CHECK(stats->compaction_bytes_read == tables);
    /* The files of what was merged go a moment later. */
    WAIT_FOR(stats->compaction_bytes_written >= bytes_of(path, ".klog"));
    CHECK(stats->max_sst_density == 0.0 && stats->tombstone_ratio == 0.0);
    tidesdb_free_stats(stats);
}

/* The sums of a database are those of its families. */
static void sums(tidesdb_t *db, tidesdb_column_family_t *one, tidesdb_column_family_t *two)
{
    tidesdb_stats_t *a = of(one), *b = of(two);
    tidesdb_db_stats_t all = of_database(db);
    int level, tables = 0;
    for (level = 0; level < a->num_levels; level++) tables += a->level_num_sstables[level];
    for (level = 0; level < b->num_levels; level++) tables += b->level_num_sstables[level];
    CHECK(all.num_column_families == 2 && all.total_sstable_count == tables);
    CHECK(all.num_open_sstables <= tables);
    CHECK(all.total_data_size_bytes == a->total_data_size + b->total_data_size);
    CHECK(all.wal_bytes_written == a->wal_bytes_written + b->wal_bytes_written);
    CHECK(all.uwal_bytes_written == 0 && all.unified_wal_generation == 0);
    CHECK(all.flush_bytes_written == a->flush_bytes_written + b->flush_bytes_written);
    CHECK(all.compaction_bytes_written ==
          a->compaction_bytes_written + b->compaction_bytes_written);
    CHECK(all.compaction_bytes_read == a->compaction_bytes_read + b->compaction_bytes_read);
    CHECK(all.user_bytes_written == a->user_bytes_written + b->user_bytes_written);
    CHECK(all.flush_count == a->flush_count + b->flush_count);
    CHECK(all.compaction_count == a->compaction_count + b->compaction_count);
    CHECK(all.total_memtable_bytes == (int64_t)(a->memtable_size + b->memtable_size));
    CHECK(all.unified_memtable_enabled == 0 && all.unified_memtable_bytes == 0);
    CHECK(all.unified_immutable_count == 0 && all.unified_is_flushing == 0);
    tidesdb_free_stats(a);
    tidesdb_free_stats(b);
}

static void tree(tidesdb_t *db, tidesdb_column_family_t *cf)
{
    tidesdb_stats_t *stats = of(cf);
    CHECK(stats->use_btree == 1 && stats->btree_total_nodes == 0 && stats->btree_max_height == 0);
    tidesdb_free_stats(stats);
    write_keys(db, cf, 0, 5 * KEYS, 0);
    CHECK_OK(tidesdb_flush_memtable(cf));
    settle(db, cf);
    stats = of(cf);
    CHECK(stats->btree_total_nodes > 10 && stats->btree_max_height >= 2);
    CHECK(stats->btree_avg_height >= 1.0 && stats->btree_avg_height <= stats->btree_max_height);
    tidesdb_free_stats(stats);
}

static void cache(tidesdb_t *db, tidesdb_column_family_t *cf)
{
    tidesdb_cache_stats_t before, after;
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    int n;
    CHECK_OK(tidesdb_get_cache_stats(db, &before));
    for (n = 0; n < 200; n++)
        CHECK_OK(tidesdb_txn_contains(txn, cf, bytes("k0000700"), KEY_BYTES));
    CHECK_OK(tidesdb_get_cache_stats(db, &after));
    CHECK(after.enabled == 1 && after.num_partitions > 0);
    CHECK(after.hits + after.misses >= before.hits + before.misses + 200);
    CHECK(after.hits > before.hits && after.total_entries > 0 && after.total_bytes > 0);
    CHECK(after.hit_rate > 0.0 && after.hit_rate <= 1.0);
    CHECK(after.hit_rate == (double)after.hits / (double)(after.hits + after.misses));
    tidesdb_free_stats(of(cf));
    tidesdb_txn_free(txn);
}

static void open_transactions(tidesdb_t *db, tidesdb_column_family_t *cf)
{
    const int64_t idle = of_database(db).txn_memory_bytes;
    const uint64_t sequence = of_database(db).global_seq;
    static uint8_t value[1 << 20];
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK_OK(tidesdb_txn_put(txn, cf, bytes("big"), 3, value, sizeof value, 0));
    CHECK(of_database(db).txn_memory_bytes >= idle + (int64_t)sizeof value);
    CHECK(of_database(db).global_seq == sequence);
    tidesdb_txn_free(txn);
    CHECK(of_database(db).txn_memory_bytes == idle);
    write_keys(db, cf, 0, 1, 0);
    CHECK(of_database(db).global_seq > sequence);
}

/* Nothing is left of keys that were all deleted. */
static void nothing_left(tidesdb_t *db, tidesdb_column_family_t *cf)
{
    tidesdb_stats_t *stats;
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK_OK(tidesdb_txn_single_delete(txn, cf, bytes("large"), 5));
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
    write_keys(db, cf, 0, 2 * KEYS, 1);
    CHECK_OK(tidesdb_compact(cf));
    settle(db, cf);
    stats = of(cf);
    CHECK(stats->total_keys == 0 && stats->total_data_size == 0 && stats->total_tombstones == 0);
    tidesdb_free_stats(stats);
}

static void unified(const char *directory)
{
    char path[4096];
    tidesdb_column_family_t *one, *two;
    tidesdb_stats_t *stats;
    tidesdb_t *db;
    uint64_t generation;

    snprintf(path, sizeof path, "%s/unified", directory);
    db = open_shared(path);
    one = small_family(db, "one");
    two = small_family(db, "two");
    write_keys(db, one, 0, 100, 0);
    stats = of(one);
    CHECK(stats->wal_bytes_written == 0 && stats->total_keys == 100);
    CHECK(stats->memtable_size > 100 * KEY_BYTES);
    tidesdb_free_stats(stats);
    stats = of(two);
    CHECK(stats->total_keys == 0);
    tidesdb_free_stats(stats);
    CHECK(of_database(db).unified_memtable_enabled == 1 && of_database(db).wal_bytes_written == 0);
    CHECK(of_database(db).uwal_bytes_written > 100 * (KEY_BYTES + VALUE_BYTES));
    CHECK(of_database(db).unified_memtable_bytes > 0);
    CHECK(of_database(db).unified_next_cf_index >= 2);
    generation = of_database(db).unified_wal_generation;
    CHECK(generation > 0);
    CHECK_OK(tidesdb_flush_memtable(one));
    settle(db, one);
    CHECK(of_database(db).unified_wal_generation > generation);
    generation = of_database(db).unified_wal_generation;
    CHECK_OK(tidesdb_flush_memtable(one));
    settle(db, one);
    CHECK(of_database(db).unified_wal_generation == generation);
    /* It grows with each memtable that has something, and never falls, whatever is under way. */
    for (int round = 0; round < 20; round++) {
        put_alone(db, one, "key", "value");
        CHECK_OK(tidesdb_flush_memtable(one));
        for (int look = 0; look < 200; look++) {
            CHECK(of_database(db).unified_wal_generation == generation + 1);
        }
        generation += 1;
    }
    settle(db, one);
    CHECK(of_database(db).unified_is_flushing == 0);
    CHECK(of_database(db).unified_immutable_count == 0);
    CHECK_OK(tidesdb_close(db));
}

/* The memtables of all families together keep to the size of the shared one, whatever a commit
   brings. */
static void shared_buffer(const char *directory)
{
    tidesdb_config_t config;
    char path[4096], value[64];
    tidesdb_column_family_t *one, *two;
    tidesdb_txn_t *txn;
    tidesdb_t *db;

    snprintf(path, sizeof path, "%s/buffer", directory);
    config = quiet_config(path);
    config.unified_memtable = 1;
    config.unified_memtable_write_buffer_size = 32768;
    db = open_by(config);
    one = small_family(db, "one");
    two = small_family(db, "two");
    memset(value, 'v', sizeof value);
    for (int round = 0; round < 20; round++)
    {
        txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
        for (int n = 0; n < 100; n++)
        {
            char name[32];
            int length = snprintf(name, sizeof name, "%d %d", round, n);
            CHECK_OK(tidesdb_txn_put(txn, n % 2 ? one : two, bytes(name), (size_t)length,
                                     bytes(value), sizeof value, -1));
        }
        CHECK_OK(tidesdb_txn_commit(txn));
        tidesdb_txn_free(txn);
        /* As much as one commit brings is beyond it at times, until the next one. */
        CHECK(of_database(db).unified_memtable_bytes <= 2 * 32768);
    }
    CHECK(of_database(db).flush_count > 0);
    CHECK_OK(tidesdb_close(db));
}

/* A value log is no table. */
static void open_tables(const char *directory)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    tidesdb_column_family_t *cf;
    tidesdb_db_stats_t stats;
    tidesdb_txn_t *txn;
    tidesdb_t *db;
    char path[4096], value[LARGE];

    snprintf(path, sizeof path, "%s/large", directory);
    db = open_in(path);
    config.klog_value_threshold = 64;
    config.min_disk_space = 0;
    CHECK_OK(tidesdb_create_column_family(db, "large", &config));
    cf = tidesdb_get_column_family(db, "large");
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = 0;
    put_alone(db, cf, "k", value);
    CHECK_OK(tidesdb_compact(cf));
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK(holds(txn, cf, "k", value));
    tidesdb_txn_free(txn);
    CHECK(bytes_of(path, ".vlog") > 0);
    stats = of_database(db);
    CHECK(stats.total_sstable_count == 1 && stats.num_open_sstables == 1);
    CHECK_OK(tidesdb_close(db));
}

/* What users wrote is counted as they gave it, whatever the order of the keys adds. */
static void given(tidesdb_t *db)
{
    static const char *const orders[] = {"reverse", "uint64", "int64", "case_insensitive",
                                         "lexicographic"};
    tidesdb_column_family_t *plain = small_family(db, "plain"), *cf;
    uint64_t number = 0x0707070707070707;
    size_t n;
    for (n = 0; n < sizeof orders / sizeof orders[0]; n++)
    {
        tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
        tidesdb_txn_t *txn;
        tidesdb_stats_t *stats;
        int both;
        config.min_disk_space = 0;
        snprintf(config.comparator_name, sizeof config.comparator_name, "%s", orders[n]);
        CHECK_OK(tidesdb_create_column_family(db, orders[n], &config));
        cf = tidesdb_get_column_family(db, orders[n]);
        /* Alone, and with another family. */
        for (both = 0; both < 2; both++)
        {
            txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
            CHECK_OK(tidesdb_txn_put(txn, cf, (uint8_t *)&number, 8, bytes("val"), 3, -1));
            CHECK_OK(tidesdb_txn_delete(txn, cf, (uint8_t *)&number, 8));
            if (both) CHECK_OK(put(txn, plain, "k", "v"));
            CHECK_OK(tidesdb_txn_commit(txn));
            tidesdb_txn_free(txn);
            stats = of(cf);
            CHECK(stats->user_bytes_written == (uint64_t)(both + 1) * 19);
            tidesdb_free_stats(stats);
        }
    }
}

/* A value of more than 1 MiB, which is written elsewhere than others. */
static void large_value(tidesdb_t *db)
{
    tidesdb_column_family_t *cf = small_family(db, "large");
    const size_t size = 3 << 20;
    uint8_t *value = malloc(size);
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    tidesdb_stats_t *stats;
    size_t n;
    CHECK(value != NULL);
    for (n = 0; n < size; n++) value[n] = (uint8_t)(n * n >> 7);
    CHECK_OK(tidesdb_txn_put(txn, cf, bytes("key"), 3, value, size, -1));
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
    stats = of(cf);
    CHECK(stats->user_bytes_written == size + 3 && stats->wal_bytes_written > size + 3);
    CHECK(stats->total_data_size == 0);
    tidesdb_free_stats(stats);
    CHECK_OK(tidesdb_flush_memtable(cf));
    settle(db, cf);
    stats = of(cf);
    CHECK(stats->total_data_size > 0);
    tidesdb_free_stats(stats);
    free(value);
}

int main(int count, char **arguments)
{
    char path[4096];
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    tidesdb_column_family_t *cf, *other;
    tidesdb_stats_t *stats;
    tidesdb_t *db;

    CHECK(count == 2);
    snprintf(path, sizeof path, "%s/db", arguments[1]);
    db = open_in(path);
    config.min_disk_space = 0;
    config.min_levels = 2;
    config.compression_algorithm = TDB_COMPRESS_NONE;
    CHECK_OK(tidesdb_create_column_family(db, "counted", &config));
    cf = tidesdb_get_column_family(db, "counted");
    statistics_of_a_family(db, path, cf);
    config.use_btree = 1;
    CHECK_OK(tidesdb_create_column_family(db, "tree", &config));
    other = tidesdb_get_column_family(db, "tree");
    tree(db, other);
    sums(db, cf, other);
    cache(db, cf);
    open_transactions(db, cf);
    nothing_left(db, cf);
    given(db);
    large_value(db);

    /* What is in the tables is the same after a reopening, what was written is counted anew. */
    write_keys(db, cf, 0, KEYS, 0);
    CHECK_OK(tidesdb_flush_memtable(cf));
    settle(db, cf);
    write_keys(db, cf, 0, DELETED, 1);
    CHECK_OK(tidesdb_close(db));
    db = open_in(path);
    cf = tidesdb_get_column_family(db, "counted");
    stats = of(cf);
    CHECK(stats->total_keys == KEYS + DELETED && stats->total_tombstones == DELETED);
    CHECK(stats->flush_count == 0 && stats->flush_bytes_written == 0);
    CHECK(stats->user_bytes_written == 0 && stats->wal_bytes_written == 0);
    tidesdb_free_stats(stats);
    CHECK_OK(tidesdb_close(db));
    unified(arguments[1]);
    shared_buffer(arguments[1]);
    open_tables(arguments[1]);
    puts("all checks hold");
    return 0;
}
