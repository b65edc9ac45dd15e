/* What transactions, savepoints, iterators and hooks do in corners that basics.c does not come to.
   The argument is an empty directory. */
#include <pthread.h>
#include <time.h>

#include "helpers.h"

/* A name used again moves its mark, in its place in the stack; going back takes the named one away
   and all behind it; names have any length. */
static void savepoints(tidesdb_t *db, tidesdb_column_family_t *cf)
{
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    static char name[5000];
    memset(name, 'n', sizeof name - 1);

    CHECK_OK(put(txn, cf, "k", "1"));
    CHECK_OK(tidesdb_txn_savepoint(txn, "one"));
    CHECK_OK(put(txn, cf, "k", "2"));
    CHECK_OK(tidesdb_txn_savepoint(txn, name));
    CHECK_OK(put(txn, cf, "k", "3"));
    /* In front of the long one still. */
    CHECK_OK(tidesdb_txn_savepoint(txn, "one"));
    CHECK_OK(put(txn, cf, "k", "4"));
    CHECK_OK(tidesdb_txn_rollback_to_savepoint(txn, "one"));
    CHECK(holds(txn, cf, "k", "3"));
    CHECK_CODE(tidesdb_txn_rollback_to_savepoint(txn, name), TDB_ERR_INVALID_ARGS);

    CHECK_OK(tidesdb_txn_savepoint(txn, "caf\xe9"));
    CHECK_CODE(tidesdb_txn_release_savepoint(txn, "caf\xc3\xa9"), TDB_ERR_NOT_FOUND);
    CHECK_OK(tidesdb_txn_release_savepoint(txn, "caf\xe9"));
    CHECK_OK(tidesdb_txn_savepoint(txn, "outer"));
    CHECK_OK(put(txn, cf, "k", "5"));
    CHECK_OK(tidesdb_txn_savepoint(txn, "inner"));
    CHECK_OK(tidesdb_txn_delete(txn, cf, bytes("k"), 1));
    CHECK_OK(tidesdb_txn_rollback_to_savepoint(txn, "inner"));
    CHECK(holds(txn, cf, "k", "5"));
    CHECK_CODE(tidesdb_txn_rollback_to_savepoint(txn, "inner"), TDB_ERR_NOT_FOUND);
    CHECK_OK(tidesdb_txn_rollback_to_savepoint(txn, "outer"));
    CHECK(holds(txn, cf, "k", "3"));
    /* Released: the operations and the others stay. */
    CHECK_OK(tidesdb_txn_savepoint(txn, "first"));
    CHECK_OK(put(txn, cf, "k", "6"));
    CHECK_OK(tidesdb_txn_savepoint(txn, "second"));
    CHECK_OK(tidesdb_txn_release_savepoint(txn, "second"));
    CHECK_CODE(tidesdb_txn_release_savepoint(txn, "second"), TDB_ERR_NOT_FOUND);
    CHECK(holds(txn, cf, "k", "6"));
    CHECK_OK(tidesdb_txn_rollback_to_savepoint(txn, "first"));
    CHECK(holds(txn, cf, "k", "3"));
    /* They go with the transaction. */
    CHECK_OK(tidesdb_txn_savepoint(txn, "left"));
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    CHECK_CODE(tidesdb_txn_rollback_to_savepoint(txn, "left"), TDB_ERR_INVALID_ARGS);
    CHECK(holds(txn, cf, "k", "3"));
    tidesdb_txn_free(txn);
}

/* Going back to a savepoint takes back what was written, not what was read. */
static void reads_behind_a_savepoint(tidesdb_t *db, tidesdb_column_family_t *cf)
{
    static const tidesdb_isolation_level_t levels[] = {TDB_ISOLATION_REPEATABLE_READ,
                                                       TDB_ISOLATION_SERIALIZABLE};
    int n;
    for (n = 0; n < 2; n++)
    {
        tidesdb_txn_t *txn = begin(db, levels[n]), *other;
        put_alone(db, cf, "read", "old");
        CHECK_OK(tidesdb_txn_rollback(txn));
        CHECK_OK(tidesdb_txn_reset(txn, levels[n]));
        CHECK_OK(tidesdb_txn_savepoint(txn, "before"));
        CHECK(holds(txn, cf, "read", "old"));
        CHECK_OK(put(txn, cf, "given up", "v"));
        CHECK_OK(tidesdb_txn_rollback_to_savepoint(txn, "before"));
        /* Each has read what the other one writes. */
        other = begin(db, levels[n]);
        CHECK(holds(other, cf, "kept", NULL));
        CHECK_OK(put(other, cf, "read", "new"));
        CHECK_OK(tidesdb_txn_commit(other));
        tidesdb_txn_free(other);
        CHECK_OK(put(txn, cf, "kept", "v"));
        CHECK_CODE(tidesdb_txn_commit(txn), TDB_ERR_CONFLICT);
        tidesdb_txn_free(txn);
    }
}

static int stands_on(tidesdb_iter_t *iter, const char *key, const char *value)
{
    uint8_t *found = NULL, *found_value = NULL;
    size_t size = 0, value_size = 0;
    if (!tidesdb_iter_valid(iter)) return 0;
    CHECK_OK(tidesdb_iter_key_value(iter, &found, &size, &found_value, &value_size));
    return size == strlen(key) && memcmp(found, key, size) == 0 && value_size == strlen(value) &&
           memcmp(found_value, value, value_size) == 0;
}

/* An iterator has the writes of its transaction that there were when it was made, both ways and
   after each seek, whatever becomes of them. */
static void iterators_and_own_writes(tidesdb_t *db)
{
    tidesdb_column_family_t *cf = small_family(db, "own writes");
    tidesdb_txn_t *txn;
    tidesdb_iter_t *iter = NULL;
    int round;

    put_alone(db, cf, "a", "committed");
    put_alone(db, cf, "b", "committed");
    put_alone(db, cf, "c", "committed");
    CHECK_OK(tidesdb_compact(cf));
    put_alone(db, cf, "d", "committed");
    txn = begin(db, TDB_ISOLATION_SNAPSHOT);
    CHECK_OK(put(txn, cf, "a", "own"));
    CHECK_OK(tidesdb_txn_delete(txn, cf, bytes("b"), 1));
    CHECK_OK(tidesdb_txn_single_delete(txn, cf, bytes("d"), 1));
    CHECK_OK(tidesdb_txn_savepoint(txn, "before e"));
    CHECK_OK(put(txn, cf, "e", "own"));
    CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
    /* Some of them go, others come: the iterator is not concerned. */
    CHECK_OK(tidesdb_txn_rollback_to_savepoint(txn, "before e"));
    CHECK_OK(put(txn, cf, "f", "later"));
    CHECK_OK(put(txn, cf, "a", "later"));
    for (round = 0; round < 2; round++)
    {
        CHECK_OK(tidesdb_iter_seek_to_first(iter));
        CHECK(stands_on(iter, "a", "own"));
        CHECK_OK(tidesdb_iter_next(iter));
        CHECK(stands_on(iter, "c", "committed"));
        CHECK_OK(tidesdb_iter_prev(iter));
        CHECK(stands_on(iter, "a", "own"));
        CHECK_OK(tidesdb_iter_seek(iter, bytes("b"), 1));
        CHECK(stands_on(iter, "c", "committed"));
        CHECK_OK(tidesdb_iter_next(iter));
        CHECK(stands_on(iter, "e", "own"));
        CHECK_CODE(tidesdb_iter_next(iter), TDB_ERR_NOT_FOUND);
        CHECK(!tidesdb_iter_valid(iter));
        CHECK_CODE(tidesdb_iter_prev(iter), TDB_ERR_INVALID_ARGS);
        CHECK_OK(tidesdb_iter_seek_for_prev(iter, bytes("dd"), 2));
        CHECK(stands_on(iter, "c", "committed"));
    }
    /* Others commit; the view stays. */
    put_alone(db, cf, "ab", "late");
    CHECK_OK(tidesdb_iter_seek(iter, bytes("ab"), 2));
    CHECK(stands_on(iter, "c", "committed"));
    tidesdb_iter_free(iter);
    tidesdb_txn_free(txn);
}

/* Forwards and backwards by turns over keys in tables and in memory, half of them gone. */
static void zig_zag(tidesdb_t *db)
{
    tidesdb_column_family_t *cf = small_family(db, "zig zag");
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    tidesdb_iter_t *iter = NULL;
    char key[16];
    int n;

    for (n = 0; n < 1200; n++)
    {
        snprintf(key, sizeof key, "prefix%04d", n);
        CHECK_OK(put(txn, cf, key, key));
        if (n % 400 != 399) continue;
        CHECK_OK(tidesdb_txn_commit(txn));
        CHECK_OK(tidesdb_flush_memtable(cf));
        CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    }
    for (n = 1; n < 1200; n += 2)
    {
        snprintf(key, sizeof key, "prefix%04d", n);
        CHECK_OK(n % 3 ? tidesdb_txn_delete(txn, cf, bytes(key), 10)
                       : tidesdb_txn_single_delete(txn, cf, bytes(key), 10));
    }
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
    CHECK_OK(tidesdb_iter_seek(iter, bytes("prefix"), 6));
    for (n = 0; n + 4 < 1200; n += 2)
    {
        snprintf(key, sizeof key, "prefix%04d", n);
        CHECK(stands_on(iter, key, key));
        CHECK_OK(tidesdb_iter_next(iter));
        CHECK_OK(tidesdb_iter_next(iter));
        CHECK_OK(tidesdb_iter_prev(iter));
    }
    CHECK_CODE(tidesdb_iter_seek_for_prev(iter, bytes("prefiw"), 6), TDB_ERR_NOT_FOUND);
    tidesdb_iter_free(iter);
    /* Nothing but tombstones. */
    for (n = 0; n < 1200; n += 2)
    {
        snprintf(key, sizeof key, "prefix%04d", n);
        CHECK_OK(tidesdb_txn_delete(txn, cf, bytes(key), 10));
    }
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
    CHECK_CODE(tidesdb_iter_seek_to_first(iter), TDB_ERR_NOT_FOUND);
    CHECK_CODE(tidesdb_iter_seek_to_last(iter), TDB_ERR_NOT_FOUND);
    CHECK_CODE(tidesdb_iter_seek(iter, bytes("prefix0100"), 10), TDB_ERR_NOT_FOUND);
    CHECK(tidesdb_iter_valid(iter) == 0);
    tidesdb_iter_free(iter);
    tidesdb_txn_free(txn);
}

static int commit_after(tidesdb_t *db, tidesdb_column_family_t *cf, tidesdb_txn_t *txn,
                        const char *changed)
{
    int code;
    put_alone(db, cf, changed, "theirs");
    code = tidesdb_txn_commit(txn);
    CHECK(code == TDB_SUCCESS || code == TDB_ERR_CONFLICT);
    if (code == TDB_ERR_CONFLICT) CHECK_OK(tidesdb_txn_rollback(txn));
    return code;
}

/* Which reads and writes conflict with a commit that came between, at each level. */
static void conflicts(tidesdb_t *db, tidesdb_column_family_t *cf)
{
    const tidesdb_isolation_level_t repeatable = TDB_ISOLATION_REPEATABLE_READ;
    tidesdb_txn_t *txn = begin(db, repeatable);
    tidesdb_iter_t *iter = NULL;
    uint8_t *value = NULL;
    size_t size = 0;

    put_alone(db, cf, "read", "v");
    put_alone(db, cf, "stepped", "v");
    CHECK_OK(tidesdb_txn_rollback(txn));
    /* A get, without any write. */
    CHECK_OK(tidesdb_txn_reset(txn, repeatable));
    CHECK(holds(txn, cf, "read", "v"));
    CHECK_CODE(commit_after(db, cf, txn, "read"), TDB_ERR_CONFLICT);
    /* A step of an iterator. */
    CHECK_OK(tidesdb_txn_reset(txn, repeatable));
    CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
    CHECK_OK(tidesdb_iter_seek(iter, bytes("read"), 4));
    CHECK_OK(tidesdb_iter_next(iter));
    CHECK(stands_on(iter, "stepped", "v"));
    tidesdb_iter_free(iter);
    CHECK_CODE(commit_after(db, cf, txn, "stepped"), TDB_ERR_CONFLICT);
    /* Reads that leave no trace. */
    CHECK_OK(tidesdb_txn_reset(txn, repeatable));
    CHECK_OK(tidesdb_txn_get_notrack(txn, cf, bytes("read"), 4, &value, &size));
    tidesdb_free(value);
    CHECK_OK(tidesdb_txn_contains(txn, cf, bytes("read"), 4));
    CHECK_CODE(commit_after(db, cf, txn, "read"), TDB_SUCCESS);
    /* At SNAPSHOT the writes count, and keys that were looked for and absent. */
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT));
    CHECK(holds(txn, cf, "read", "theirs"));
    CHECK_OK(put(txn, cf, "another", "v"));
    CHECK_CODE(commit_after(db, cf, txn, "read"), TDB_SUCCESS);
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT));
    CHECK(holds(txn, cf, "absent", NULL));
    CHECK_OK(put(txn, cf, "absent", "mine"));
    CHECK_CODE(commit_after(db, cf, txn, "absent"), TDB_ERR_CONFLICT);
    /* At SERIALIZABLE all of that counts, whether or not any order would explain it. */
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SERIALIZABLE));
    CHECK(holds(txn, cf, "read", "theirs"));
    CHECK_CODE(commit_after(db, cf, txn, "read"), TDB_ERR_CONFLICT);
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SERIALIZABLE));
    CHECK(holds(txn, cf, "read", "theirs"));
    CHECK_OK(put(txn, cf, "another", "v"));
    CHECK_CODE(commit_after(db, cf, txn, "read"), TDB_ERR_CONFLICT);
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SERIALIZABLE));
    CHECK(holds(txn, cf, "not there", NULL));
    CHECK_OK(put(txn, cf, "another", "v"));
    CHECK_CODE(commit_after(db, cf, txn, "not there"), TDB_ERR_CONFLICT);
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SERIALIZABLE));
    CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
    CHECK_OK(tidesdb_iter_seek_to_first(iter));
    while (tidesdb_iter_valid(iter)) (void)tidesdb_iter_next(iter);
    tidesdb_iter_free(iter);
    CHECK_CODE(commit_after(db, cf, txn, "a phantom"), TDB_ERR_CONFLICT);
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SERIALIZABLE));
    CHECK_OK(tidesdb_txn_get_notrack(txn, cf, bytes("read"), 4, &value, &size));
    tidesdb_free(value);
    CHECK_OK(tidesdb_txn_contains(txn, cf, bytes("read"), 4));
    CHECK_CODE(commit_after(db, cf, txn, "read"), TDB_SUCCESS);
    /* The last one wins. */
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    CHECK_OK(put(txn, cf, "read", "mine"));
    CHECK_CODE(commit_after(db, cf, txn, "read"), TDB_SUCCESS);
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_UNCOMMITTED));
    CHECK(holds(txn, cf, "read", "mine"));
    put_alone(db, cf, "read", "newest");
    CHECK(holds(txn, cf, "read", "newest"));
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
}

#define MANY 256

/* One transaction over many families: all of it or nothing, under one number. */
static void many_families(tidesdb_t *db)
{
    tidesdb_column_family_t *families[MANY];
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_SNAPSHOT), *reader;
    char name[16];
    int n;

    for (n = 0; n < MANY; n++)
    {
        snprintf(name, sizeof name, "many %d", n);
        families[n] = small_family(db, name);
    }
    CHECK_OK(tidesdb_txn_rollback(txn));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT));
    reader = begin(db, TDB_ISOLATION_READ_COMMITTED);
    for (n = 0; n < MANY; n++)
    {
        CHECK_OK(put(txn, families[n], "k", "inserted"));
        CHECK_OK(put(txn, families[n], "k", "updated"));
    }
    for (n = 0; n < MANY; n++) CHECK(holds(reader, families[n], "k", NULL));
    CHECK_OK(tidesdb_txn_commit(txn));
    for (n = 0; n < MANY; n++) CHECK(holds(reader, families[n], "k", "updated"));
    tidesdb_txn_free(reader);
    tidesdb_txn_free(txn);
}

struct seen
{
    tidesdb_t *db;
    tidesdb_column_family_t *journal;
    int calls, operations;
    uint64_t last;
};

/* Writes down what it sees, in a transaction of its own. */
static int journalled(const tidesdb_commit_op_t *ops, int num_ops, uint64_t commit_seq, void *ctx)
{
    struct seen *seen = ctx;
    char key[32];
    seen->calls++;
    seen->operations += num_ops;
    seen->last = commit_seq;
    snprintf(key, sizeof key, "%.*s", (int)ops[0].key_size, (const char *)ops[0].key);
    put_alone(seen->db, seen->journal, key, "seen");
    return 0;
}

static void hooks(tidesdb_t *db)
{
    tidesdb_column_family_t *one = small_family(db, "hook one");
    tidesdb_column_family_t *two = small_family(db, "hook two");
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    struct seen first = {db, small_family(db, "journal"), 0, 0, 0}, second = first;
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    uint64_t before;

    CHECK_OK(tidesdb_cf_set_commit_hook(one, journalled, &first));
    CHECK_OK(tidesdb_cf_set_commit_hook(two, journalled, &second));
    CHECK_OK(put(txn, one, "a", "1"));
    CHECK_OK(put(txn, two, "b", "1"));
    CHECK_OK(put(txn, one, "a", "2"));
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK(first.calls == 1 && first.operations == 2 && second.calls == 1);
    CHECK(first.last > 0 && first.last == second.last);
    before = first.last;
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    CHECK(holds(txn, first.journal, "a", "seen") && holds(txn, first.journal, "b", "seen"));
    /* Only those with an operation are called; nobody for what is rolled back. */
    CHECK_OK(put(txn, one, "c", "1"));
    CHECK_OK(tidesdb_txn_rollback(txn));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    CHECK_OK(tidesdb_txn_delete(txn, one, bytes("a"), 1));
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK(first.calls == 2 && second.calls == 1 && first.last > before);
    tidesdb_txn_free(txn);
    /* An update without a hook removes it. */
    CHECK_OK(tidesdb_cf_update_runtime_config(one, &config, 0));
    put_alone(db, one, "d", "1");
    CHECK(first.calls == 2);
}

static tidesdb_t *shared;

static int as_bytes(const uint8_t *key1, size_t size1, const uint8_t *key2, size_t size2, void *ctx)
{
    return tidesdb_comparator_memcmp(key1, size1, key2, size2, ctx);
}

/* Registers orders of its own while others look theirs up. */
static void *register_orders(void *argument)
{
    const int number = *(int *)argument;
    int n, before;
    for (n = 0; n < 100; n++)
    {
        char name[32];
        snprintf(name, sizeof name, "order %d %d", number, n);
        CHECK_OK(tidesdb_register_comparator(shared, name, as_bytes, NULL, argument));
        for (before = 0; before <= n; before++)
        {
            tidesdb_comparator_fn function = NULL;
            void *context = NULL;
            snprintf(name, sizeof name, "order %d %d", number, before);
            CHECK_OK(tidesdb_get_comparator(shared, name, &function, &context));
            CHECK(function == as_bytes && context == argument);
        }
    }
    return NULL;
}

static void registering(tidesdb_t *db)
{
    pthread_t threads[4];
    int numbers[4] = {0, 1, 2, 3}, n;
    shared = db;
    for (n = 0; n < 4; n++)
        CHECK(pthread_create(&threads[n], NULL, register_orders, &numbers[n]) == 0);
    for (n = 0; n < 4; n++) CHECK(pthread_join(threads[n], NULL) == 0);
}

int main(int count, char **arguments)
{
    char path[4096];
    tidesdb_column_family_t *cf;
    tidesdb_t *db;

    CHECK(count == 2);
    snprintf(path, sizeof path, "%s/db", arguments[1]);
    db = open_in(path);
    cf = small_family(db, "default");
    savepoints(db, cf);
    reads_behind_a_savepoint(db, cf);
    iterators_and_own_writes(db);
    zig_zag(db);
    conflicts(db, cf);
    many_families(db);
    hooks(db);
    registering(db);
    CHECK_OK(tidesdb_close(db));
    puts("all checks hold");
    return 0;
}
