/* Calls beside others that take away, or write, what they work with. The allocator fills what is
   given back and never hands it out again: a call that goes on with it reads addresses that are
   none. The argument is an empty directory. */
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <time.h>

#include "helpers.h"

#define DROPS 12
#define CREATIONS 400
#define SAVERS 4
#define SAVES 200

static char directory[4000], file[4096];
static tidesdb_t *db;
static tidesdb_column_family_t *cf;
static volatile int running, ended;

static void spoiling_free(void *pointer)
{
    if (pointer != NULL) memset(pointer, 0xdd, malloc_usable_size(pointer));
}

/* Enough for a merge to take a while. */
static void fill(tidesdb_column_family_t *family)
{
    static char value[4096];
    uint32_t state = 7;
    tidesdb_txn_t *txn = NULL;
    int n;
    for (n = 0; n < 1500; n++)
    {
        char key[32];
        size_t at;
        if (n % 50 == 0) txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
        for (at = 0; at + 1 < sizeof value; at++)
        {
            state = state * 1664525u + 1013904223u;
            value[at] = (char)('!' + (state >> 24) % 90);
        }
        snprintf(key, sizeof key, "%05u", (state >> 8) % 100000);
        CHECK_OK(put(txn, family, key, value));
        if (n % 50 < 49) continue;
        CHECK_OK(tidesdb_txn_commit(txn));
        tidesdb_txn_free(txn);
    }
}

/* The function that is called while the family goes. */
static int call(int number)
{
    switch (number)
    {
        case 0:
            return tidesdb_compact(cf);
        case 1:
            return tidesdb_compact_range(cf, bytes("0"), 1, NULL, 0);
        default:
            return tidesdb_purge_cf(cf);
    }
}

static void *call_once(void *argument)
{
    const int code = call(*(int *)argument);
    CHECK(code == TDB_SUCCESS || code == TDB_ERR_NOT_FOUND || code == TDB_ERR_LOCKED);
    ended = 1;
    return NULL;
}

/* A family may be dropped while it is compacted. */
static void dropped_in_use(void)
{
    int round, interrupted = 0;
    for (round = 0; round < DROPS; round++)
    {
        pthread_t thread;
        int number = round % 3;
        cf = small_family(db, "dropped");
        fill(cf);
        ended = 0;
        CHECK(pthread_create(&thread, NULL, call_once, &number) == 0);
        while (!ended && !tidesdb_is_compacting(cf)) continue;
        if (round % 2 == 0) CHECK_OK(tidesdb_drop_column_family(db, "dropped"));
        else CHECK_OK(tidesdb_delete_column_family(db, cf));
        interrupted += !ended;
        CHECK(pthread_join(thread, NULL) == 0);
    }
    CHECK(interrupted > 0);
}

/* A second drop by the same handle, at once and after the library has let go of it. */
static void dropped_twice(void)
{
    tidesdb_column_family_t *dropped = small_family(db, "twice"), *same;
    tidesdb_txn_t *txn;
    tidesdb_iter_t *iter = NULL;
    tidesdb_stats_t *stats = NULL;
    uint64_t estimate = 0;
    double cost = 0;
    uint8_t *value = NULL;
    size_t size = 0;
    int n;
    put_alone(db, dropped, "k", "v");
    CHECK_OK(tidesdb_delete_column_family(db, dropped));
    CHECK_CODE(tidesdb_delete_column_family(db, dropped), TDB_ERR_NOT_FOUND);
    /* Calls that come too late. */
    txn = begin(db, TDB_ISOLATION_SERIALIZABLE);
    CHECK_CODE(put(txn, dropped, "k", "v"), TDB_ERR_NOT_FOUND);
    CHECK_CODE(tidesdb_txn_get(txn, dropped, bytes("k"), 1, &value, &size), TDB_ERR_NOT_FOUND);
    CHECK_CODE(tidesdb_iter_new(txn, dropped, &iter), TDB_ERR_NOT_FOUND);
    CHECK_CODE(tidesdb_compact(dropped), TDB_ERR_NOT_FOUND);
    CHECK_CODE(tidesdb_get_stats(dropped, &stats), TDB_ERR_NOT_FOUND);
    CHECK_CODE(tidesdb_cf_estimate_cardinality(dropped, &estimate), TDB_ERR_NOT_FOUND);
    CHECK_CODE(tidesdb_range_cost(dropped, bytes("a"), 1, bytes("b"), 1, &cost), TDB_ERR_NOT_FOUND);
    CHECK_CODE(tidesdb_cf_set_commit_hook(dropped, NULL, NULL), TDB_ERR_NOT_FOUND);
    CHECK_CODE(tidesdb_sync_wal(dropped), TDB_ERR_NOT_FOUND);
    tidesdb_txn_free(txn);
    /* One of the same name is another one. */
    same = small_family(db, "twice");
    CHECK(same != dropped);
    for (n = 0; n < 300; n++)
    {
        CHECK(small_family(db, "other") != NULL);
        CHECK_OK(tidesdb_drop_column_family(db, "other"));
    }
    CHECK_CODE(tidesdb_delete_column_family(db, dropped), TDB_ERR_NOT_FOUND);
    CHECK_OK(tidesdb_delete_column_family(db, same));
}

/* The family by whose handle all memtables would be flushed is gone. */
static void dropped_beside_a_shared_memtable(void)
{
    tidesdb_column_family_t *dropped;
    tidesdb_t *shared;
    char path[4096];
    snprintf(path, sizeof path, "%s/shared", directory);
    shared = open_shared(path);
    dropped = small_family(shared, "dropped");
    CHECK(small_family(shared, "other") != NULL);
    CHECK_OK(tidesdb_flush_memtable(dropped));
    CHECK_OK(tidesdb_delete_column_family(shared, dropped));
    CHECK_CODE(tidesdb_flush_memtable(dropped), TDB_ERR_NOT_FOUND);
    CHECK_OK(tidesdb_close(shared));
}

/* Reads and writes with whatever handle there is. */
static void *read_and_write(void *argument)
{
    (void)argument;
    while (running)
    {
        tidesdb_column_family_t *used = __atomic_load_n(&cf, __ATOMIC_ACQUIRE);
        tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
        tidesdb_iter_t *iter = NULL;
        int codes[4], n;
        codes[0] = put(txn, used, "k", "v");
        codes[1] = tidesdb_txn_commit(txn);
        tidesdb_txn_free(txn);
        txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
        codes[2] = tidesdb_txn_contains(txn, used, bytes("k"), 1);
        codes[3] = tidesdb_iter_new(txn, used, &iter);
        if (codes[3] == TDB_SUCCESS) tidesdb_iter_seek_to_first(iter);
        tidesdb_iter_free(iter);
        tidesdb_txn_free(txn);
        for (n = 0; n < 4; n++) CHECK(codes[n] == TDB_SUCCESS || codes[n] == TDB_ERR_NOT_FOUND);
    }
    return NULL;
}

/* Calls of transactions that name a family while it is dropped. */
static void dropped_while_read_and_written(void)
{
    pthread_t threads[2];
    int n;
    __atomic_store_n(&cf, small_family(db, "used"), __ATOMIC_RELEASE);
    running = 1;
    for (n = 0; n < 2; n++) CHECK(pthread_create(&threads[n], NULL, read_and_write, NULL) == 0);
    /* Less than it takes for a handle to be freed. */
    for (n = 0; n < 200; n++)
    {
        CHECK_OK(tidesdb_drop_column_family(db, "used"));
        __atomic_store_n(&cf, small_family(db, "used"), __ATOMIC_RELEASE);
    }
    running = 0;
    for (n = 0; n < 2; n++) CHECK(pthread_join(threads[n], NULL) == 0);
    CHECK_OK(tidesdb_drop_column_family(db, "used"));
}

static volatile int hooked;

static int count_call(const tidesdb_commit_op_t *ops, int num_ops, uint64_t seq, void *ctx)
{
    (void)ops;
    (void)num_ops;
    (void)seq;
    (void)ctx;
    __atomic_add_fetch(&hooked, 1, __ATOMIC_SEQ_CST);
    return 0;
}

static void *drop_by_name(void *argument)
{
    (void)argument;
    while (running)
    {
        const int code = tidesdb_drop_column_family(db, "created");
        CHECK(code == TDB_SUCCESS || code == TDB_ERR_NOT_FOUND);
    }
    return NULL;
}

static void *rename_and_use(void *argument)
{
    (void)argument;
    while (running)
    {
        const int before = hooked;
        const int code = tidesdb_rename_column_family(db, "created", "renamed");
        CHECK(code == TDB_SUCCESS || code == TDB_ERR_NOT_FOUND);
        if (code != TDB_SUCCESS) continue;
        put_alone(db, tidesdb_get_column_family(db, "renamed"), "k", "v");
        CHECK(hooked > before);
        CHECK_OK(tidesdb_drop_column_family(db, "renamed"));
    }
    return NULL;
}

/* A family that is created with a hook has it as long as it is there, under whatever name. */
static void created_with_a_hook(void)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    pthread_t threads[2];
    int n;
    config.commit_hook_fn = count_call;
    running = 1;
    CHECK(pthread_create(&threads[0], NULL, drop_by_name, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, rename_and_use, NULL) == 0);
    for (n = 0; n < CREATIONS; n++)
    {
        const int code = tidesdb_create_column_family(db, "created", &config);
        CHECK(code == TDB_SUCCESS || code == TDB_ERR_EXISTS);
    }
    running = 0;
    for (n = 0; n < 2; n++) CHECK(pthread_join(threads[n], NULL) == 0);
}


/* Configs that differ in several lines, and in how long they are. */
static tidesdb_column_family_config_t numbered(int number)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    config.write_buffer_size = (size_t)(number + 1) << 20;
    config.l1_file_count_trigger = number + 2;
    memset(config.comparator_ctx_str, 'a' + number, (size_t)number * 60 + 1);
    return config;
}

static void *save_and_load(void *argument)
{
    const int number = *(int *)argument;
    const tidesdb_column_family_config_t own = numbered(number);
    int n;
    for (n = 0; n < SAVES; n++)
    {
        tidesdb_column_family_config_t loaded, expected;
        CHECK_OK(tidesdb_cf_config_save_to_ini(file, "f", &own));
        CHECK_OK(tidesdb_cf_config_load_from_ini(file, "f", &loaded));
        CHECK(loaded.l1_file_count_trigger >= 2 && loaded.l1_file_count_trigger < 2 + SAVERS);
        expected = numbered(loaded.l1_file_count_trigger - 2);
        CHECK(loaded.write_buffer_size == expected.write_buffer_size);
        CHECK(strcmp(loaded.comparator_ctx_str, expected.comparator_ctx_str) == 0);
    }
    return NULL;
}

/* An INI file that several threads save is at every moment one that one of them has saved. */
static void saved_at_once(void)
{
    pthread_t threads[SAVERS];
    int numbers[SAVERS], n;
    struct dirent *entry;
    DIR *entries;
    snprintf(file, sizeof file, "%s/options.ini", directory);
    for (n = 0; n < SAVERS; n++)
    {
        numbers[n] = n;
        CHECK(pthread_create(&threads[n], NULL, save_and_load, &numbers[n]) == 0);
    }
    for (n = 0; n < SAVERS; n++) CHECK(pthread_join(threads[n], NULL) == 0);
    entries = opendir(directory);
    CHECK(entries != NULL);
    while ((entry = readdir(entries)) != NULL) CHECK(strstr(entry->d_name, ".new") == NULL);
    closedir(entries);
}

int main(int count, char **arguments)
{
    char path[4096];
    CHECK(count >= 2);
    CHECK_OK(tidesdb_init(NULL, NULL, NULL, spoiling_free));
    snprintf(directory, sizeof directory, "%s", arguments[1]);
    snprintf(path, sizeof path, "%s/db", directory);
    db = open_in(path);
    dropped_in_use();
    dropped_twice();
    dropped_while_read_and_written();
    created_with_a_hook();
    CHECK_OK(tidesdb_close(db));
    dropped_beside_a_shared_memtable();
    saved_at_once();
    puts("all checks hold");
    return 0;
}
