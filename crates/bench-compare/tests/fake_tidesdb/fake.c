/* A tiny library with TidesDB's C interface, for the tests of the adapter: a sorted array of rows
 * per family behind one lock, kept in memory while the database is open and written to one file
 * when it is closed. Transactions buffer their writes; a commit at snapshot isolation or above
 * fails if one of its keys was committed since it began. Written from the interface's
 * documentation. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    char *db_path; int num_flush_threads, num_compaction_threads, log_level;
    size_t block_cache_size, max_open_sstables; int log_to_file;
    size_t log_truncation_at, max_memory_usage; int unified_memtable;
    size_t unified_memtable_write_buffer_size; int unified_max_level; float unified_probability;
    int unified_sync_mode; uint64_t unified_sync_interval_us;
    void *object_store, *object_store_config;
    int max_concurrent_flushes, finish_compactions_on_close;
} tidesdb_config_t;

typedef struct {
    char name[128]; size_t write_buffer_size, level_size_ratio;
    int min_levels, dividing_level_offset;
    size_t klog_value_threshold; int compression_algorithm, enable_bloom_filter; double bloom_fpr;
    int enable_block_indexes, index_sample_ratio, block_index_prefix_len, sync_mode;
    uint64_t sync_interval_us; char comparator_name[64], comparator_ctx_str[256];
    void *comparator_fn_cached, *comparator_ctx_cached; int skip_list_max_level;
    float skip_list_probability; int default_isolation_level; uint64_t min_disk_space;
    int l1_file_count_trigger, l0_queue_stall_threshold; double tombstone_density_trigger;
    uint64_t tombstone_density_min_entries; int use_btree; void *commit_hook_fn, *commit_hook_ctx;
    size_t object_target_file_size; int object_lazy_compaction, object_prefetch_compaction;
} tidesdb_column_family_config_t;

_Static_assert(sizeof(tidesdb_config_t) == 128, "config");
_Static_assert(sizeof(tidesdb_column_family_config_t) == 624, "family config");

typedef struct {
    uint8_t *key, *value; size_t key_size, value_size; time_t ttl; uint64_t version;
} row_t;
typedef struct { char name[128]; row_t *rows; size_t count, room; } family_t;
typedef struct {
    char path[1024]; family_t *families[64]; int count; uint64_t version; pthread_mutex_t lock;
} db_t;
typedef struct { family_t *family; row_t row; int removes; } write_t;
typedef struct {
    db_t *db; write_t *writes; size_t count, room; uint64_t began; int level, finished;
} txn_t;
typedef struct { row_t *rows; size_t count, at; int valid; } iter_t;

static void *copy(const void *from, size_t size) {
    void *to = malloc(size ? size : 1);
    if (size) memcpy(to, from, size);
    return to;
}
static int compare(const uint8_t *a, size_t as, const uint8_t *b, size_t bs) {
    int order = memcmp(a, b, as < bs ? as : bs);
    return order ? order : (as > bs) - (as < bs);
}
/* Position of the first row that is not before the key. */
static size_t lower(const row_t *rows, size_t count, const uint8_t *key, size_t size) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare(rows[middle].key, rows[middle].key_size, key, size) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}
static int is_at(const row_t *rows, size_t count, size_t at, const uint8_t *key, size_t size) {
    return at < count && compare(rows[at].key, rows[at].key_size, key, size) == 0;
}
static int expired(const row_t *row) { return row->ttl > 0 && row->ttl <= time(NULL); }

static void apply(family_t *family, const write_t *write, uint64_t version) {
    const row_t *row = &write->row;
    size_t at = lower(family->rows, family->count, row->key, row->key_size);
    int there = is_at(family->rows, family->count, at, row->key, row->key_size);
    if (write->removes) {
        if (!there) return;
        free(family->rows[at].key);
        free(family->rows[at].value);
        memmove(&family->rows[at], &family->rows[at + 1], (--family->count - at) * sizeof(row_t));
        return;
    }
    if (!there) {
        if (family->count == family->room) {
            family->room = family->room * 2 + 16;
            family->rows = realloc(family->rows, family->room * sizeof(row_t));
        }
        memmove(&family->rows[at + 1], &family->rows[at], (family->count++ - at) * sizeof(row_t));
    } else {
        free(family->rows[at].key);
        free(family->rows[at].value);
    }
    row_t fresh = *row;
    fresh.key = copy(row->key, row->key_size);
    fresh.value = copy(row->value, row->value_size);
    fresh.version = version;
    family->rows[at] = fresh;
}

tidesdb_config_t tidesdb_default_config(void) {
    tidesdb_config_t config;
    memset(&config, 0, sizeof config);
    config.block_cache_size = 64 << 20;
    return config;
}
tidesdb_column_family_config_t tidesdb_default_column_family_config(void) {
    tidesdb_column_family_config_t config;
    memset(&config, 0, sizeof config);
    config.object_prefetch_compaction = 1;
    return config;
}
void tidesdb_free(void *pointer) { free(pointer); }

static family_t *find(db_t *db, const char *name) {
    for (int i = 0; i < db->count; i++)
        if (strcmp(db->families[i]->name, name) == 0) return db->families[i];
    return NULL;
}
int tidesdb_create_column_family(db_t *db, const char *name,
                                 const tidesdb_column_family_config_t *config) {
    if (config->object_prefetch_compaction != 1) return -2;
    if (find(db, name)) return -6;
    family_t *family = calloc(1, sizeof *family);
    strncpy(family->name, name, sizeof family->name - 1);
    db->families[db->count++] = family;
    return 0;
}
int tidesdb_drop_column_family(db_t *db, const char *name) {
    for (int i = 0; i < db->count; i++)
        if (strcmp(db->families[i]->name, name) == 0) {
            db->families[i] = db->families[--db->count];
            return 0;
        }
    return -3;
}
family_t *tidesdb_get_column_family(db_t *db, const char *name) {
    pthread_mutex_lock(&db->lock);
    family_t *family = find(db, name);
    pthread_mutex_unlock(&db->lock);
    return family;
}
static void store(const db_t *db, const char *path) {
    FILE *file = fopen(path, "wb");
    for (int i = 0; i < db->count; i++)
        for (size_t j = 0; j < db->families[i]->count; j++) {
            const row_t *row = &db->families[i]->rows[j];
            fwrite(db->families[i]->name, 128, 1, file);
            fwrite(row, sizeof *row, 1, file);
            fwrite(row->key, row->key_size, 1, file);
            fwrite(row->value, row->value_size, 1, file);
        }
    fclose(file);
}
int tidesdb_open(const tidesdb_config_t *config, db_t **out) {
    db_t *db = calloc(1, sizeof *db);
    pthread_mutex_init(&db->lock, NULL);
    snprintf(db->path, sizeof db->path, "%s/rows", config->db_path);
    FILE *file = fopen(db->path, "rb");
    char name[128];
    while (file && fread(name, sizeof name, 1, file) == 1) {
        write_t write = {0};
        tidesdb_column_family_config_t family = tidesdb_default_column_family_config();
        if (fread(&write.row, sizeof write.row, 1, file) != 1) break;
        write.row.key = malloc(write.row.key_size + 1);
        write.row.value = malloc(write.row.value_size + 1);
        if (fread(write.row.key, 1, write.row.key_size, file) != write.row.key_size) break;
        if (fread(write.row.value, 1, write.row.value_size, file) != write.row.value_size) break;
        tidesdb_create_column_family(db, name, &family);
        apply(find(db, name), &write, ++db->version);
    }
    if (file) fclose(file);
    *out = db;
    return 0;
}
int tidesdb_close(db_t *db) { store(db, db->path); free(db); return 0; }
int tidesdb_checkpoint(db_t *db, const char *directory) {
    char command[2200];
    snprintf(command, sizeof command, "mkdir -p '%s'", directory);
    if (system(command)) return -4;
    snprintf(command, sizeof command, "%s/rows", directory);
    store(db, command);
    return 0;
}
int tidesdb_get_db_stats(db_t *db, void *stats) { (void)db; memset(stats, 0, 304); return 0; }
int tidesdb_get_cache_stats(db_t *db, void *stats) { (void)db; memset(stats, 0, 56); return 0; }
int tidesdb_flush_memtable(family_t *family) { return family ? 0 : -2; }
int tidesdb_compact(family_t *family) { return family ? 0 : -2; }
int tidesdb_is_flushing(family_t *family) { (void)family; return 0; }
int tidesdb_is_compacting(family_t *family) { (void)family; return 0; }
int tidesdb_sync_wal(family_t *family) { return family ? 0 : -2; }

int tidesdb_txn_begin_with_isolation(db_t *db, int level, txn_t **out) {
    if (level < 0 || level > 4) return -2;
    txn_t *txn = calloc(1, sizeof *txn);
    txn->db = db;
    txn->level = level;
    pthread_mutex_lock(&db->lock);
    txn->began = db->version;
    pthread_mutex_unlock(&db->lock);
    *out = txn;
    return 0;
}
static void forget(txn_t *txn) {
    for (size_t i = 0; i < txn->count; i++) {
        free(txn->writes[i].row.key);
        free(txn->writes[i].row.value);
    }
    txn->count = 0;
}
int tidesdb_txn_reset(txn_t *txn, int level) {
    if (!txn->finished || level < 0 || level > 4) return -2;
    forget(txn);
    pthread_mutex_lock(&txn->db->lock);
    txn->began = txn->db->version;
    pthread_mutex_unlock(&txn->db->lock);
    txn->level = level;
    txn->finished = 0;
    return 0;
}
void tidesdb_txn_free(txn_t *txn) {
    if (!txn) return;
    forget(txn);
    free(txn->writes);
    free(txn);
}
static write_t *next_write(txn_t *txn, family_t *family, const uint8_t *key, size_t size) {
    if (txn->count == txn->room) {
        txn->room = txn->room * 2 + 8;
        txn->writes = realloc(txn->writes, txn->room * sizeof(write_t));
    }
    write_t *write = &txn->writes[txn->count++];
    memset(write, 0, sizeof *write);
    write->family = family;
    write->row.key = copy(key, size);
    write->row.key_size = size;
    return write;
}
int tidesdb_txn_put(txn_t *txn, family_t *family, const uint8_t *key, size_t key_size,
                    const uint8_t *value, size_t value_size, time_t ttl) {
    if (!key || !key_size || !value || txn->finished) return -2;
    write_t *write = next_write(txn, family, key, key_size);
    write->row.value = copy(value, value_size);
    write->row.value_size = value_size;
    write->row.ttl = ttl;
    return 0;
}
int tidesdb_txn_delete(txn_t *txn, family_t *family, const uint8_t *key, size_t size) {
    if (!key || !size || txn->finished) return -2;
    next_write(txn, family, key, size)->removes = 1;
    return 0;
}
int tidesdb_txn_get(txn_t *txn, family_t *family, const uint8_t *key, size_t key_size,
                    uint8_t **value, size_t *value_size) {
    pthread_mutex_lock(&txn->db->lock);
    const row_t *found = NULL;
    size_t at = lower(family->rows, family->count, key, key_size);
    if (is_at(family->rows, family->count, at, key, key_size)) found = &family->rows[at];
    for (size_t i = 0; i < txn->count; i++) {
        const write_t *write = &txn->writes[i];
        if (write->family == family && is_at(&write->row, 1, 0, key, key_size))
            found = write->removes ? NULL : &write->row;
    }
    int there = found && !expired(found);
    if (there) {
        *value = copy(found->value, found->value_size);
        *value_size = found->value_size;
    }
    pthread_mutex_unlock(&txn->db->lock);
    return there ? 0 : -3;
}
int tidesdb_txn_commit(txn_t *txn) {
    if (txn->finished) return -2;
    pthread_mutex_lock(&txn->db->lock);
    for (size_t i = 0; i < txn->count && txn->level >= 2; i++) {
        const write_t *write = &txn->writes[i];
        const family_t *family = write->family;
        size_t at = lower(family->rows, family->count, write->row.key, write->row.key_size);
        if (is_at(family->rows, family->count, at, write->row.key, write->row.key_size) &&
            family->rows[at].version > txn->began) {
            pthread_mutex_unlock(&txn->db->lock);
            return -7;
        }
    }
    txn->db->version++;
    for (size_t i = 0; i < txn->count; i++)
        apply(txn->writes[i].family, &txn->writes[i], txn->db->version);
    pthread_mutex_unlock(&txn->db->lock);
    forget(txn);
    txn->finished = 1;
    return 0;
}
int tidesdb_txn_rollback(txn_t *txn) { forget(txn); txn->finished = 1; return 0; }

/* An iterator copies the rows, which is the view of its creation. */
int tidesdb_iter_new(txn_t *txn, family_t *family, iter_t **out) {
    iter_t *iter = calloc(1, sizeof *iter);
    pthread_mutex_lock(&txn->db->lock);
    iter->rows = malloc((family->count + 1) * sizeof(row_t));
    for (size_t i = 0; i < family->count; i++) {
        if (expired(&family->rows[i])) continue;
        row_t row = family->rows[i];
        row.key = copy(row.key, row.key_size);
        row.value = copy(row.value, row.value_size);
        iter->rows[iter->count++] = row;
    }
    pthread_mutex_unlock(&txn->db->lock);
    *out = iter;
    return 0;
}
static int place(iter_t *iter, size_t at) {
    iter->at = at;
    iter->valid = at < iter->count;
    return iter->valid ? 0 : -3;
}
int tidesdb_iter_seek(iter_t *iter, const uint8_t *key, size_t size) {
    return place(iter, lower(iter->rows, iter->count, key, size));
}
int tidesdb_iter_seek_for_prev(iter_t *iter, const uint8_t *key, size_t size) {
    size_t at = lower(iter->rows, iter->count, key, size);
    if (is_at(iter->rows, iter->count, at, key, size)) return place(iter, at);
    return place(iter, at ? at - 1 : iter->count);
}
int tidesdb_iter_seek_to_first(iter_t *iter) { return place(iter, 0); }
int tidesdb_iter_seek_to_last(iter_t *iter) {
    return place(iter, iter->count ? iter->count - 1 : 0);
}
int tidesdb_iter_next(iter_t *iter) { return iter->valid ? place(iter, iter->at + 1) : -2; }
int tidesdb_iter_prev(iter_t *iter) {
    if (!iter->valid) return -2;
    return place(iter, iter->at ? iter->at - 1 : iter->count);
}
int tidesdb_iter_valid(iter_t *iter) { return iter->valid; }
int tidesdb_iter_key_value(iter_t *iter, uint8_t **key, size_t *key_size, uint8_t **value,
                           size_t *value_size) {
    if (!iter->valid) return -2;
    row_t *row = &iter->rows[iter->at];
    *key = row->key;
    *key_size = row->key_size;
    *value = row->value;
    *value_size = row->value_size;
    return 0;
}
void tidesdb_iter_free(iter_t *iter) {
    for (size_t i = 0; i < iter->count; i++) {
        free(iter->rows[i].key);
        free(iter->rows[i].value);
    }
    free(iter->rows);
    free(iter);
}
