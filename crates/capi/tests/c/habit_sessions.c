/* Sessions that expire, as a threaded program for TidesDB 9.3 would keep them: a comparator and an
   allocator of its own, a commit hook, statistics, a checkpoint. The argument is an empty
   directory. */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <tidesdb/tidesdb.h>

#define TRY(call)                                                                     \
    do                                                                                \
    {                                                                                 \
        int rc_ = (call);                                                             \
        if (rc_ != TDB_SUCCESS)                                                       \
        {                                                                             \
            TDB_DEBUG_LOG(TDB_LOG_ERROR, "%s failed: %d", #call, rc_);                \
            exit(EXIT_FAILURE);                                                       \
        }                                                                             \
    } while (0)

#include <stdio.h>
#include <string.h>

typedef struct
{
    tidesdb_t *db;
    tidesdb_column_family_t *cf;
    int number;
} worker_t;

typedef struct
{
    uint32_t user;
    uint32_t session;
} session_key_t;

static void *my_malloc(size_t size)
{
    return malloc(size);
}

static void *my_calloc(size_t count, size_t size)
{
    return calloc(count, size);
}

static void *my_realloc(void *ptr, size_t size)
{
    return realloc(ptr, size);
}

static void my_free(void *ptr)
{
    free(ptr);
}

/* By user, then the newest session first. */
static int by_user(const uint8_t *key1, size_t key1_size, const uint8_t *key2, size_t key2_size,
                   void *ctx)
{
    session_key_t a = {0, 0}, b = {0, 0};
    (void)ctx;
    memcpy(&a, key1, key1_size < sizeof a ? key1_size : sizeof a);
    memcpy(&b, key2, key2_size < sizeof b ? key2_size : sizeof b);
    if (a.user != b.user) return a.user < b.user ? -1 : 1;
    if (a.session != b.session) return a.session > b.session ? -1 : 1;
    return 0;
}

static int count_ops(const tidesdb_commit_op_t *ops, int num_ops, uint64_t commit_seq, void *ctx)
{
    (void)ops;
    (void)commit_seq;
    __atomic_add_fetch((int *)ctx, num_ops, __ATOMIC_RELAXED);
    return 0;
}

static void *log_in(void *arg)
{
    worker_t *worker = arg;
    uint32_t n;
    for (n = 0; n < 200; n++)
    {
        session_key_t key;
        char value[64];
        tidesdb_txn_t *txn = NULL;
        key.user = n % 10;
        key.session = n * 4 + (uint32_t)worker->number;
        snprintf(value, sizeof value, "thread %d", worker->number);
        TRY(tidesdb_txn_begin(worker->db, &txn));
        /* Half of them are over already. */
        TRY(tidesdb_txn_put(txn, worker->cf, (uint8_t *)&key, sizeof key, (uint8_t *)value,
                            strlen(value), n % 2 ? time(NULL) - 1 : time(NULL) + 3600));
        TRY(tidesdb_txn_commit(txn));
        tidesdb_txn_free(txn);
    }
    return NULL;
}

static int sessions_of(tidesdb_t *db, tidesdb_column_family_t *cf, uint32_t user)
{
    tidesdb_txn_t *txn = NULL;
    tidesdb_iter_t *iter = NULL;
    session_key_t from, last;
    int count = 0;

    from.user = user;
    from.session = UINT32_MAX;
    last = from;
    TRY(tidesdb_txn_begin_with_isolation(db, TDB_ISOLATION_SNAPSHOT, &txn));
    TRY(tidesdb_iter_new(txn, cf, &iter));
    tidesdb_iter_seek(iter, (uint8_t *)&from, sizeof from);
    while (tidesdb_iter_valid(iter))
    {
        uint8_t *key = NULL;
        size_t key_size = 0;
        session_key_t found;
        TRY(tidesdb_iter_key(iter, &key, &key_size));
        memcpy(&found, key, sizeof found);
        if (found.user != user) break;
        if (found.session >= last.session) exit(EXIT_FAILURE);
        last = found;
        count++;
        tidesdb_iter_next(iter);
    }
    tidesdb_iter_free(iter);
    tidesdb_txn_free(txn);
    return count;
}

int main(int argc, char **argv)
{
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_column_family_config_t cf_config = tidesdb_default_column_family_config();
    tidesdb_stats_t *stats = NULL;
    tidesdb_db_stats_t db_stats;
    tidesdb_cache_stats_t cache_stats;
    tidesdb_column_family_t *cf;
    tidesdb_t *db = NULL;
    pthread_t threads[4];
    worker_t workers[4];
    char path[1024], copy[1100], **names = NULL;
    int i, count = 0, committed = 0, round;

    if (argc != 2) return EXIT_FAILURE;
    snprintf(path, sizeof path, "%s/sessions", argv[1]);
    snprintf(copy, sizeof copy, "%s/checkpoint", argv[1]);
    if (tidesdb_init(my_malloc, my_calloc, my_realloc, my_free) != 0) return EXIT_FAILURE;
    tidesdb_raise_open_file_limit(4096);
    config.db_path = path;
    config.log_to_file = 1;
    config.num_flush_threads = 2;
    config.max_open_sstables = 64;
    TRY(tidesdb_open(&config, &db));
    TRY(tidesdb_register_comparator(db, "by_user", by_user, "", NULL));
    strncpy(cf_config.comparator_name, "by_user", TDB_MAX_COMPARATOR_NAME - 1);
    cf_config.commit_hook_fn = count_ops;
    cf_config.commit_hook_ctx = &committed;
    cf_config.sync_mode = TDB_SYNC_INTERVAL;
    TRY(tidesdb_create_column_family(db, "sessions", &cf_config));
    cf = tidesdb_get_column_family(db, "sessions");
    for (i = 0; i < 4; i++)
    {
        workers[i].db = db;
        workers[i].cf = cf;
        workers[i].number = i;
        pthread_create(&threads[i], NULL, log_in, &workers[i]);
    }
    for (i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    if (committed != 800) return EXIT_FAILURE;
    TRY(tidesdb_sync_wal(cf));
    TRY(tidesdb_checkpoint(db, copy));
    TRY(tidesdb_flush_memtable(cf));
    while (tidesdb_is_flushing(cf) || tidesdb_is_compacting(cf)) usleep(1000);
    TRY(tidesdb_get_stats(cf, &stats));
    printf("%llu keys in %d levels\n", (unsigned long long)stats->total_keys, stats->num_levels);
    tidesdb_free_stats(stats);
    TRY(tidesdb_get_db_stats(db, &db_stats));
    TRY(tidesdb_get_cache_stats(db, &cache_stats));
    if (db_stats.num_column_families != 1 || !cache_stats.enabled) return EXIT_FAILURE;
    for (round = 0; round < 2; round++)
    {
        int sum = 0;
        for (i = 0; i < 10; i++) sum += sessions_of(db, cf, (uint32_t)i);
        if (sum != 400) return EXIT_FAILURE;
        TRY(tidesdb_list_column_families(db, &names, &count));
        for (i = 0; i < count; i++)
        {
            printf("%s\n", names[i]);
            tidesdb_free(names[i]);
        }
        tidesdb_free(names);
        TRY(tidesdb_close(db));
        if (round == 1) break;
        config.db_path = copy;
        TRY(tidesdb_open(&config, &db));
        TRY(tidesdb_register_comparator(db, "by_user", by_user, "", NULL));
        cf = tidesdb_get_column_family(db, "sessions");
        if (cf == NULL) return EXIT_FAILURE;
    }
    tidesdb_finalize();
    puts("all checks hold");
    return EXIT_SUCCESS;
}
