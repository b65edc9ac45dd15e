/* The caller's allocator: everything that is handed out comes from it and goes back to it, and its
   failure at any allocation answers TDB_ERR_MEMORY, leaves nothing behind and changes nothing. The
   argument is an empty directory. */
#include <dirent.h>
#include <time.h>

#include "helpers.h"

/* Allocations so far, those not released yet, and the one that fails; 0 is none. */
static long made, live, fails_at, dropped;

static void *counted(void *pointer)
{
    if (pointer != NULL) live++;
    return pointer;
}

static int fails(void)
{
    made++;
    return made == fails_at;
}

static void *own_malloc(size_t size)
{
    return fails() ? NULL : counted(malloc(size));
}

static void *own_calloc(size_t count, size_t size)
{
    return fails() ? NULL : counted(calloc(count, size));
}

static void *own_realloc(void *pointer, size_t size)
{
    return fails() ? NULL : realloc(pointer, size);
}

static void own_free(void *pointer)
{
    if (pointer != NULL) live--;
    free(pointer);
}

static char path[4096], store_path[4096];
static tidesdb_t *db;
static tidesdb_column_family_t *cf;
static tidesdb_txn_t *txn;

static int hook(const tidesdb_commit_op_t *ops, int num_ops, uint64_t commit_seq, void *ctx)
{
    (void)ops;
    (void)num_ops;
    (void)commit_seq;
    (void)ctx;
    return 0;
}

static int open_and_close(void)
{
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_t *opened = (tidesdb_t *)path;
    char other[sizeof path + 8];
    int code;
    snprintf(other, sizeof other, "%s-other", path);
    config.db_path = other;
    config.log_level = TDB_LOG_NONE;
    code = tidesdb_open(&config, &opened);
    if (code == TDB_SUCCESS) CHECK_OK(tidesdb_close(opened));
    else CHECK(opened == NULL);
    return code;
}

static int get_family(void)
{
    /* The handle is made anew for each opening. */
    CHECK_OK(tidesdb_close(db));
    db = NULL;
    {
        const long kept = fails_at, before = made;
        fails_at = 0;
        db = open_in(path);
        fails_at = kept;
        made = before;
    }
    cf = tidesdb_get_column_family(db, "default");
    return cf == NULL ? TDB_ERR_MEMORY : TDB_SUCCESS;
}

static int create_family(void)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    int code;
    config.commit_hook_fn = hook;
    code = tidesdb_create_column_family(db, "hooked", &config);
    if (code == TDB_SUCCESS)
    {
        CHECK_OK(tidesdb_drop_column_family(db, "hooked"));
        dropped++;
    }
    else
        CHECK_CODE(tidesdb_drop_column_family(db, "hooked"), TDB_ERR_NOT_FOUND);
    return code;
}

static int begin_one(void)
{
    tidesdb_txn_t *begun = NULL;
    const int code = tidesdb_txn_begin(db, &begun);
    CHECK((code == TDB_SUCCESS) == (begun != NULL));
    tidesdb_txn_free(begun);
    return code;
}

static int get(void)
{
    uint8_t *value = NULL;
    size_t size = 77;
    const int code = tidesdb_txn_get(txn, cf, bytes("key"), 3, &value, &size);
    CHECK((code == TDB_SUCCESS) == (value != NULL) && (code == TDB_SUCCESS) == (size != 77));
    tidesdb_free(value);
    return code;
}

static int get_untracked(void)
{
    uint8_t *value = NULL;
    size_t size = 0;
    const int code = tidesdb_txn_get_notrack(txn, cf, bytes("key"), 3, &value, &size);
    tidesdb_free(value);
    return code;
}

static int iterate(void)
{
    tidesdb_iter_t *iter = NULL;
    const int code = tidesdb_iter_new(txn, cf, &iter);
    CHECK((code == TDB_SUCCESS) == (iter != NULL));
    if (iter != NULL) CHECK_OK(tidesdb_iter_seek_to_first(iter));
    tidesdb_iter_free(iter);
    return code;
}

static int statistics(void)
{
    tidesdb_stats_t *stats = NULL;
    const int code = tidesdb_get_stats(cf, &stats);
    CHECK((code == TDB_SUCCESS) == (stats != NULL));
    tidesdb_free_stats(stats);
    return code;
}

static int list(void)
{
    char **names = NULL;
    int count = 0;
    const int code = tidesdb_list_column_families(db, &names, &count);
    CHECK((code == TDB_SUCCESS) == (names != NULL));
    while (count > 0) tidesdb_free(names[--count]);
    tidesdb_free(names);
    return code;
}

static int connect(void)
{
    tidesdb_objstore_t *store = tidesdb_objstore_fs_create(store_path);
    if (store == NULL) return TDB_ERR_MEMORY;
    store->destroy(store->ctx);
    tidesdb_free(store);
    return TDB_SUCCESS;
}

/* A database is opened, used and closed; whatever fails, it can be closed. */
static int a_whole_life(void)
{
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_t *opened = NULL;
    tidesdb_column_family_t *family;
    tidesdb_txn_t *used = NULL;
    tidesdb_iter_t *iter = NULL;
    tidesdb_stats_t *stats = NULL;
    uint8_t *value = NULL;
    size_t size = 0;
    char life[sizeof path + 8], **names = NULL;
    int code, count = 0;

    snprintf(life, sizeof life, "%s-life", path);
    config.db_path = life;
    config.log_level = TDB_LOG_NONE;
    code = tidesdb_open(&config, &opened);
    if (code != TDB_SUCCESS) return code;
    if ((family = tidesdb_get_column_family(opened, "default")) == NULL)
    {
        const tidesdb_column_family_config_t defaults = tidesdb_default_column_family_config();
        code = tidesdb_create_column_family(opened, "default", &defaults);
        CHECK(code == TDB_ERR_EXISTS || code == TDB_SUCCESS);
        if (code == TDB_SUCCESS) family = tidesdb_get_column_family(opened, "default");
        code = TDB_ERR_MEMORY;
    }
    if (family != NULL) code = tidesdb_txn_begin(opened, &used);
    if (used != NULL)
    {
        /* None of these asks the caller for memory. */
        CHECK_OK(put(used, family, "k", "value"));
        CHECK_OK(tidesdb_txn_savepoint(used, "s"));
        CHECK_OK(tidesdb_txn_commit(used));
        CHECK_OK(tidesdb_txn_reset(used, TDB_ISOLATION_SERIALIZABLE));
        code = tidesdb_txn_get(used, family, bytes("k"), 1, &value, &size);
        if (code == TDB_SUCCESS) code = tidesdb_iter_new(used, family, &iter);
        if (code == TDB_SUCCESS) CHECK_OK(tidesdb_iter_seek_to_first(iter));
        if (code == TDB_SUCCESS) code = tidesdb_get_stats(family, &stats);
        if (code == TDB_SUCCESS) code = tidesdb_list_column_families(opened, &names, &count);
    }
    while (count > 0) tidesdb_free(names[--count]);
    tidesdb_free(names);
    tidesdb_free_stats(stats);
    tidesdb_iter_free(iter);
    tidesdb_free(value);
    tidesdb_txn_free(used);
    CHECK_OK(tidesdb_close(opened));
    return code;
}

static int descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int found = 0;
    CHECK(dir != NULL);
    while (readdir(dir) != NULL) found++;
    closedir(dir);
    return found;
}

/* Has each allocation of a call fail in turn. */
static void fail_at_each(const char *name, int (*call)(void))
{
    long allocations, before, n;
    int open_before;
    fails_at = 0;
    made = 0;
    CHECK_OK(call());
    allocations = made;
    printf("%s: %ld\n", name, allocations);
    CHECK(allocations > 0);
    before = live - dropped;
    open_before = descriptors();
    for (n = 1; n <= allocations; n++)
    {
        made = 0;
        fails_at = n;
        CHECK_CODE(call(), TDB_ERR_MEMORY);
        fails_at = 0;
        /* The handles of families that were dropped are kept. */
        CHECK(call != get_family ? live - dropped == before : live <= before);
        WAIT_FOR(descriptors() <= open_before);
        CHECK_OK(call());
        CHECK(live - dropped == before);
    }
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    snprintf(path, sizeof path, "%s/db", arguments[1]);
    snprintf(store_path, sizeof store_path, "%s/store", arguments[1]);
    CHECK_OK(tidesdb_init(own_malloc, own_calloc, own_realloc, own_free));
    CHECK_CODE(tidesdb_init(NULL, NULL, NULL, NULL), -1);
    CHECK(tidesdb_allocator.malloc_fn == own_malloc && tidesdb_allocator.free_fn == own_free);
    db = open_in(path);
    cf = small_family(db, "default");
    put_alone(db, cf, "key", "value");
    a_whole_life();
    fail_at_each("a whole life", a_whole_life);
    fail_at_each("open", open_and_close);
    fail_at_each("get_column_family", get_family);
    fail_at_each("create with a hook", create_family);
    fail_at_each("txn_begin", begin_one);
    txn = begin(db, TDB_ISOLATION_REPEATABLE_READ);
    fail_at_each("txn_get", get);
    fail_at_each("txn_get_notrack", get_untracked);
    fail_at_each("iter_new", iterate);
    fail_at_each("get_stats", statistics);
    fail_at_each("list_column_families", list);
    fail_at_each("objstore_fs_create", connect);
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_close(db));
    CHECK(live == 0);
    tidesdb_finalize();
    /* Any of them may be left to the C library, each for itself. */
    made = 0;
    CHECK_OK(tidesdb_init(own_malloc, NULL, NULL, own_free));
    CHECK(tidesdb_allocator.malloc_fn == own_malloc && tidesdb_allocator.calloc_fn == calloc);
    tidesdb_finalize();
    CHECK(tidesdb_allocator.malloc_fn == malloc);
    tidesdb_ensure_initialized();
    CHECK_CODE(tidesdb_init(NULL, NULL, NULL, NULL), -1);
    tidesdb_finalize();
    puts("all checks hold");
    return 0;
}
