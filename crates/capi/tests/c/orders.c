/* Families in other orders of keys than that of bytes. The argument is an empty directory. */
#include <ctype.h>
#include <pthread.h>
#include <time.h>

#include "helpers.h"

static int create(tidesdb_t *db, const char *name, const char *order)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    snprintf(config.comparator_name, sizeof config.comparator_name, "%s", order);
    return tidesdb_create_column_family(db, name, &config);
}

static tidesdb_column_family_t *family_in(tidesdb_t *db, const char *name, const char *order)
{
    CHECK_OK(create(db, name, order));
    return tidesdb_get_column_family(db, name);
}

/* Puts keys, each with itself as its value. */
static void fill(tidesdb_t *db, tidesdb_column_family_t *cf, const char *const *keys, int count)
{
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    int n;
    for (n = 0; n < count; n++) CHECK_OK(put(txn, cf, keys[n], keys[n]));
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
}

/* The keys from the first at or after "target" on, with spaces between. */
static const char *from(tidesdb_t *db, tidesdb_column_family_t *cf, const char *target)
{
    static char found[256];
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    tidesdb_iter_t *iter = NULL;
    found[0] = 0;
    CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
    tidesdb_iter_seek(iter, bytes(target), strlen(target));
    while (tidesdb_iter_valid(iter))
    {
        uint8_t *key = NULL;
        size_t size = 0;
        CHECK_OK(tidesdb_iter_key(iter, &key, &size));
        snprintf(found + strlen(found), sizeof found - strlen(found), "%.*s ", (int)size,
                 (const char *)key);
        tidesdb_iter_next(iter);
    }
    tidesdb_iter_free(iter);
    tidesdb_txn_free(txn);
    return found;
}

#define SHOWS(target, expected)                                                            \
    do                                                                                     \
    {                                                                                      \
        const char *found_ = from(db, cf, target);                                         \
        if (strcmp(found_, expected) != 0)                                                 \
        {                                                                                  \
            fprintf(stderr, "line %d: \"%s\", not \"%s\"\n", __LINE__, found_, expected);  \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

static void built_in(tidesdb_t *db)
{
    static const char *const keys[] = {"a3", "b1", "c2"};
    tidesdb_comparator_fn function = NULL;
    void *context = NULL;
    tidesdb_column_family_t *cf;

    CHECK_CODE(create(db, "none", "unheard of"), TDB_ERR_NOT_FOUND);
    cf = family_in(db, "reverse", "reverse");
    fill(db, cf, keys, 3);
    SHOWS("z", "c2 b1 a3 ");
    SHOWS("b5", "b1 a3 ");
    cf = family_in(db, "folded", "case_insensitive");
    fill(db, cf, (const char *const[]){"Key", "KEY", "also"}, 3);
    SHOWS("A", "also KEY ");
    CHECK_OK(tidesdb_get_comparator(db, "reverse", &function, &context));
    CHECK(function == tidesdb_comparator_reverse_memcmp && context == NULL);
    CHECK_CODE(tidesdb_get_comparator(db, "last", NULL, NULL), TDB_ERR_NOT_FOUND);
}

/* The functions that are exported order keys as families do that name them; but lexicographic,
   which is called with strings that end with a NUL. */
static void functions_agree(tidesdb_t *db)
{
    static const struct
    {
        const char *name;
        tidesdb_comparator_fn function;
    } orders[] = {
        {"memcmp", tidesdb_comparator_memcmp},
        {"uint64", tidesdb_comparator_uint64},
        {"int64", tidesdb_comparator_int64},
        {"reverse", tidesdb_comparator_reverse_memcmp},
        {"case_insensitive", tidesdb_comparator_case_insensitive},
    };
    /* Integers of eight bytes, shorter and longer ones. */
    static const struct
    {
        const char *bytes;
        size_t size;
    } keys[] = {
        {"\1\0\0\0\0\0\0\0", 8}, {"\0\1\0\0\0\0\0\0", 8}, {"\377\377\377\377\377\377\377\377", 8},
        {"\0\0\0\0\0\0\0\200", 8}, {"\0\200\0", 3}, {"\1", 2}, {"\377", 2}, {"abcdefgh\0", 9},
        {"ABCDEFGHI", 10}, {"Abc", 4}, {"\0\0", 2},
    };
    const size_t count = sizeof keys / sizeof keys[0];
    size_t order, one, two;

    for (order = 0; order < sizeof orders / sizeof orders[0]; order++)
    {
        tidesdb_column_family_t *cf;
        tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
        tidesdb_iter_t *iter = NULL;
        char name[64];
        snprintf(name, sizeof name, "as %s", orders[order].name);
        cf = family_in(db, name, orders[order].name);
        for (one = 0; one < count; one++)
            CHECK_OK(tidesdb_txn_put(txn, cf, bytes(keys[one].bytes), keys[one].size, bytes("v"),
                                     1, 0));
        printf("%s\n", name);
        CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
        for (one = 0; one < count; one++)
            for (two = 0; two < count; two++)
            {
                uint8_t *found = NULL;
                size_t size = 0;
                const int expected =
                    orders[order].function(bytes(keys[one].bytes), keys[one].size,
                                           bytes(keys[two].bytes), keys[two].size, NULL);
                /* Forwards from one, the other is met or not. */
                int met = 0;
                CHECK_OK(tidesdb_iter_seek(iter, bytes(keys[one].bytes), keys[one].size));
                while (tidesdb_iter_valid(iter) && !met)
                {
                    CHECK_OK(tidesdb_iter_key(iter, &found, &size));
                    met = orders[order].function(found, size, bytes(keys[two].bytes),
                                                 keys[two].size, NULL) == 0;
                    if (!met) tidesdb_iter_next(iter);
                }
                CHECK(met == (expected <= 0));
            }
        tidesdb_iter_free(iter);
        tidesdb_txn_free(txn);
    }
}

/* By the last byte, whichever way round the context says. */
static int by_last(const uint8_t *key1, size_t size1, const uint8_t *key2, size_t size2, void *ctx)
{
    const int *sign = ctx;
    return *sign * ((int)key1[size1 - 1] - (int)key2[size2 - 1]);
}

/* As case_insensitive, but the program's own. */
static int folded(const uint8_t *key1, size_t size1, const uint8_t *key2, size_t size2, void *ctx)
{
    size_t n;
    (void)ctx;
    for (n = 0; n < size1 && n < size2; n++)
        if (tolower(key1[n]) != tolower(key2[n])) return tolower(key1[n]) - tolower(key2[n]);
    return (size1 > size2) - (size1 < size2);
}

static void registering(tidesdb_t *db, int *up)
{
    static const char *const keys[] = {"a3", "b1", "c2"};
    tidesdb_comparator_fn function = NULL;
    void *context = NULL;
    tidesdb_column_family_t *cf;
    char name[TDB_MAX_COMPARATOR_NAME + 1];

    CHECK_CODE(tidesdb_register_comparator(db, NULL, by_last, NULL, NULL), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_register_comparator(db, "last", NULL, NULL, NULL), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_register_comparator(db, "memcmp", by_last, NULL, up), TDB_ERR_INVALID_ARGS);
    CHECK_CODE(tidesdb_register_comparator(db, "", by_last, NULL, up), TDB_ERR_INVALID_ARGS);
    memset(name, 'n', sizeof name);
    name[TDB_MAX_COMPARATOR_NAME] = 0;
    CHECK_CODE(tidesdb_register_comparator(db, name, by_last, NULL, up), TDB_ERR_INVALID_ARGS);
    name[TDB_MAX_COMPARATOR_NAME - 1] = 0;
    CHECK_OK(tidesdb_register_comparator(db, name, by_last, NULL, up));
    CHECK_OK(tidesdb_register_comparator(db, "last", by_last, "context", up));
    CHECK_CODE(tidesdb_register_comparator(db, "last", by_last, NULL, up), TDB_ERR_INVALID_ARGS);
    CHECK_OK(tidesdb_get_comparator(db, "last", &function, &context));
    CHECK(function == by_last && context == up);
    cf = family_in(db, "last", "last");
    fill(db, cf, keys, 3);
    SHOWS("1", "b1 c2 a3 ");
    SHOWS("x2", "c2 a3 ");
}

/* Names that mean something elsewhere, or are no text, are names like others. */
static void odd_names(tidesdb_t *db, int first)
{
    static const char *const names[] = {"bytewise", "custom:x", " blanks ", "two\nlines",
                                        "\xff\xfe", "c-interface:6c"};
    static int up = 1;
    tidesdb_stats_t *stats = NULL;
    size_t n;

    for (n = 0; n < sizeof names / sizeof names[0]; n++)
    {
        tidesdb_column_family_t *cf;
        char family[16];
        snprintf(family, sizeof family, "odd %d", (int)n);
        CHECK(first || tidesdb_get_column_family(db, family) == NULL);
        CHECK_OK(tidesdb_register_comparator(db, names[n], by_last, NULL, &up));
        CHECK_OK(tidesdb_get_comparator(db, names[n], NULL, NULL));
        if (first) CHECK_OK(create(db, family, names[n]));
        cf = tidesdb_get_column_family(db, family);
        CHECK(cf != NULL);
        if (first) fill(db, cf, (const char *const[]){"a3", "b1", "c2"}, 3);
        SHOWS("1", "b1 c2 a3 ");
        CHECK_OK(tidesdb_get_stats(cf, &stats));
        CHECK(strcmp(stats->config->comparator_name, names[n]) == 0);
        CHECK(stats->config->comparator_fn_cached == by_last);
        tidesdb_free_stats(stats);
    }
}

/* Keys that the program's order calls equal are the same key. */
static void equal_keys(tidesdb_t *db)
{
    tidesdb_column_family_t *cf = family_in(db, "own", "folded");
    tidesdb_txn_t *txn, *other;

    fill(db, cf, (const char *const[]){"Key", "also", "zebra"}, 3);
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK(holds(txn, cf, "KEY", "Key") && holds(txn, cf, "key", "Key"));
    CHECK_OK(tidesdb_txn_contains(txn, cf, bytes("kEY"), 3));
    CHECK_OK(put(txn, cf, "KEY", "again"));
    CHECK(holds(txn, cf, "Key", "again"));
    CHECK_OK(put(txn, cf, "new", "1"));
    CHECK_OK(put(txn, cf, "NEW", "2"));
    CHECK(holds(txn, cf, "New", "2"));
    CHECK_OK(tidesdb_txn_delete(txn, cf, bytes("ALSO"), 4));
    CHECK_OK(tidesdb_txn_single_delete(txn, cf, bytes("ZEBRA"), 5));
    CHECK_OK(tidesdb_txn_commit(txn));
    SHOWS("A", "Key new ");
    CHECK_OK(tidesdb_compact(cf));
    SHOWS("A", "Key new ");

    /* So are those of transactions that conflict. */
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT));
    other = begin(db, TDB_ISOLATION_SNAPSHOT);
    CHECK_OK(put(txn, cf, "first", "1"));
    CHECK_OK(put(other, cf, "FIRST", "2"));
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK_CODE(tidesdb_txn_commit(other), TDB_ERR_CONFLICT);
    CHECK_OK(tidesdb_txn_rollback(other));
    CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_SERIALIZABLE));
    CHECK_OK(tidesdb_txn_reset(other, TDB_ISOLATION_SERIALIZABLE));
    CHECK(holds(txn, cf, "absent", NULL) && holds(other, cf, "ABSENT", NULL));
    CHECK_OK(put(txn, cf, "Absent", "1"));
    CHECK_OK(put(other, cf, "aBSENT", "2"));
    CHECK_OK(tidesdb_txn_commit(txn));
    CHECK_CODE(tidesdb_txn_commit(other), TDB_ERR_CONFLICT);
    tidesdb_txn_free(other);
    tidesdb_txn_free(txn);
}

static int by_eight(const uint8_t *key1, size_t size1, const uint8_t *key2, size_t size2, void *ctx)
{
    const size_t first = size1 < 8 ? size1 : 8, second = size2 < 8 ? size2 : 8;
    const int order = memcmp(key1, key2, first < second ? first : second);
    (void)ctx;
    return order != 0 ? order : (first > second) - (first < second);
}

/* A key shows bytes that were committed, not those of a call that came to nothing. */
static void uncommitted_spellings(tidesdb_t *db)
{
    static uint8_t long_key[70000];
    tidesdb_column_family_t *cf = family_in(db, "uncommitted", "folded");
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_SNAPSHOT);

    CHECK(holds(txn, cf, "ABC", NULL));
    tidesdb_txn_free(txn);
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK_OK(put(txn, cf, "DEF", "0"));
    CHECK_OK(tidesdb_txn_rollback(txn));
    tidesdb_txn_free(txn);
    fill(db, cf, (const char *const[]){"abc", "def"}, 2);
    SHOWS("a", "abc def ");

    CHECK_OK(tidesdb_register_comparator(db, "eight", by_eight, NULL, NULL));
    cf = family_in(db, "eight", "eight");
    memset(long_key, 'k', sizeof long_key);
    txn = begin(db, TDB_ISOLATION_SNAPSHOT);
    CHECK_CODE(tidesdb_txn_put(txn, cf, long_key, sizeof long_key, long_key, 1, -1),
               TDB_ERR_TOO_LARGE);
    CHECK_OK(put(txn, cf, "kkkkkkkk", "1"));
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
    SHOWS("k", "kkkkkkkk ");
}

/* Spellings of keys that have gone are dropped in the end, and not where they are needed. */
static void spellings_go(tidesdb_t *db)
{
    tidesdb_column_family_t *cf = family_in(db, "passing", "folded");
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED), *old;
    int pass, n;

    put_alone(db, cf, "Kept", "value");
    old = begin(db, TDB_ISOLATION_SNAPSHOT);
    for (pass = 0; pass < 2; pass++)
    {
        for (n = 0; n < 3000; n++)
        {
            char key[32];
            snprintf(key, sizeof key, "passing %d %d", pass, n);
            CHECK_OK(put(txn, cf, key, "v"));
            CHECK_OK(tidesdb_txn_delete(txn, cf, bytes(key), strlen(key)));
            CHECK_OK(tidesdb_txn_commit(txn));
            CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
            if (pass + n == 0)
            {
                CHECK_OK(tidesdb_txn_delete(txn, cf, bytes("Kept"), 4));
                CHECK_OK(tidesdb_txn_commit(txn));
                CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
            }
        }
        /* One that still reads what has gone keeps it by its name. */
        if (pass == 0) CHECK(holds(old, cf, "KEPT", "value"));
        CHECK_OK(put(txn, cf, "KEPT", "anew"));
        CHECK_OK(tidesdb_txn_commit(txn));
        SHOWS("k", pass == 0 ? "Kept " : "KEPT ");
        CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
        CHECK_OK(tidesdb_txn_delete(txn, cf, bytes("kept"), 4));
        CHECK_OK(tidesdb_txn_commit(txn));
        CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
        if (pass == 0)
        {
            CHECK(holds(old, cf, "kept", "value"));
            tidesdb_txn_free(old);
        }
    }
    tidesdb_txn_free(txn);
}

/* So are those of keys whose writes are taken back or refused, when a commit deletes the key or
   leaves it out. */
static void spellings_of_what_came_to_nothing(tidesdb_t *db, const char *directory)
{
    tidesdb_column_family_t *cf = family_in(db, "taken back", "folded");
    tidesdb_t *other;
    tidesdb_txn_t *txn;
    char path[4096];

    put_alone(db, cf, "Kept", "value");
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK_OK(tidesdb_txn_delete(txn, cf, bytes("kept"), 4));
    CHECK_OK(tidesdb_txn_savepoint(txn, "s"));
    CHECK_OK(put(txn, cf, "kept", "again"));
    CHECK_OK(tidesdb_txn_rollback_to_savepoint(txn, "s"));
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
    SHOWS("k", "");
    put_alone(db, cf, "KEPT", "anew");
    SHOWS("k", "KEPT ");

    snprintf(path, sizeof path, "%s/another", directory);
    other = open_in(path);
    txn = begin(other, TDB_ISOLATION_READ_COMMITTED);
    CHECK_CODE(put(txn, cf, "REFUSED", "of another database"), TDB_ERR_INVALID_ARGS);
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_close(other));
    put_alone(db, cf, "refused", "v");
    SHOWS("r", "refused ");
}

static long compared;

static int counting(const uint8_t *key1, size_t size1, const uint8_t *key2, size_t size2, void *ctx)
{
    compared++;
    return folded(key1, size1, key2, size2, ctx);
}

/* Keys that come and go leave no spellings behind, though no moment is without a transaction that
   writes and one that reads an old state. How many there are is told by the comparisons of a
   look. */
static void overlapping(tidesdb_t *db)
{
    tidesdb_column_family_t *cf = family_in(db, "overlapping", "counting");
    const tidesdb_isolation_level_t snapshot = TDB_ISOLATION_SNAPSHOT;
    tidesdb_txn_t *turns[2], *old, *reader = begin(db, TDB_ISOLATION_READ_COMMITTED);
    long all = 0;
    int n;

    old = begin(db, snapshot);
    turns[0] = begin(db, snapshot);
    turns[1] = begin(db, snapshot);
    for (n = 0; n < 20000; n++)
    {
        tidesdb_txn_t *txn = turns[n % 2];
        char key[32], before[32];
        snprintf(key, sizeof key, "Passing %d", n);
        snprintf(before, sizeof before, "passing %d", n - 2);
        CHECK_OK(put(txn, cf, key, "v"));
        CHECK_OK(tidesdb_txn_delete(txn, cf, bytes(before), strlen(before)));
        /* Looked for, and not there. */
        snprintf(key, sizeof key, "absent %d", n);
        CHECK(holds(txn, cf, key, NULL));
        if (n % 5 == 4)
        {
            CHECK_OK(put(txn, cf, key, "never committed"));
            CHECK_OK(tidesdb_txn_delete(txn, cf, bytes(key), strlen(key)));
        }
        CHECK_OK(tidesdb_txn_commit(txn));
        CHECK_OK(tidesdb_txn_reset(txn, snapshot));
        if (n % 7 == 6)
        {
            snprintf(key, sizeof key, "rolled back %d", n);
            CHECK_OK(put(txn, cf, key, "v"));
            CHECK_OK(tidesdb_txn_rollback(txn));
            CHECK_OK(tidesdb_txn_reset(txn, snapshot));
        }
        if (n < 19900) continue;
        compared = 0;
        CHECK(holds(reader, cf, "q", NULL));
        all += compared;
    }
    printf("comparisons of a hundred looks: %ld\n", all);
    CHECK(all < 1400);
    /* What is there is known by any spelling. */
    CHECK(holds(reader, cf, "PASSING 19999", "v") && holds(reader, cf, "passing 19998", "v"));
    CHECK(holds(reader, cf, "passing 19997", NULL) && holds(old, cf, "passing 0", NULL));
    tidesdb_txn_free(turns[0]);
    tidesdb_txn_free(turns[1]);
    tidesdb_txn_free(old);
    tidesdb_txn_free(reader);
}

/* Nor do keys that expire, which nobody deletes. */
static void expiring(tidesdb_t *db)
{
    tidesdb_column_family_t *cf = family_in(db, "expiring", "counting");
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    int n;
    for (n = 0; n < 20000; n++)
    {
        char key[32];
        snprintf(key, sizeof key, "Passing %d", n);
        CHECK_OK(tidesdb_txn_put(txn, cf, bytes(key), strlen(key), bytes("v"), 1, 1));
        CHECK_OK(tidesdb_txn_commit(txn));
        CHECK_OK(tidesdb_txn_reset(txn, TDB_ISOLATION_READ_COMMITTED));
    }
    /* Not more than a thousand of them at any time. */
    compared = 0;
    CHECK(holds(txn, cf, "Passing 7000", NULL));
    printf("comparisons of a look: %ld\n", compared);
    CHECK(compared < 40);
    tidesdb_txn_free(txn);
}

#define THREADS 8

static tidesdb_t *shared;

/* Each thread has spellings of its own. */
static void *spell(void *argument)
{
    tidesdb_column_family_t *cf = tidesdb_get_column_family(shared, "threads");
    const int number = *(int *)argument;
    int n;
    for (n = 0; n < 1000; n++)
    {
        tidesdb_txn_t *txn = begin(shared, TDB_ISOLATION_READ_COMMITTED);
        char key[] = "shared key 00";
        int at;
        for (at = 0; at < THREADS; at++)
            if ((number >> (at % 3)) & 1) key[at] = (char)toupper((unsigned char)key[at]);
        key[11] = (char)('0' + n / 10 % 10);
        key[12] = (char)('0' + n % 10);
        CHECK_OK(put(txn, cf, key, "v"));
        if (n % 3 == 0) CHECK_OK(tidesdb_txn_delete(txn, cf, bytes(key), strlen(key)));
        CHECK_OK(tidesdb_txn_commit(txn));
        tidesdb_txn_free(txn);
    }
    return NULL;
}

static void threads(tidesdb_t *db)
{
    tidesdb_column_family_t *cf = family_in(db, "threads", "folded");
    tidesdb_txn_t *txn;
    tidesdb_iter_t *iter = NULL;
    pthread_t workers[THREADS];
    int numbers[THREADS], n, count = 0;

    shared = db;
    for (n = 0; n < THREADS; n++)
    {
        numbers[n] = n;
        CHECK(pthread_create(&workers[n], NULL, spell, &numbers[n]) == 0);
    }
    for (n = 0; n < THREADS; n++) CHECK(pthread_join(workers[n], NULL) == 0);
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
    for (tidesdb_iter_seek_to_first(iter); tidesdb_iter_valid(iter); tidesdb_iter_next(iter))
    {
        static uint8_t last[32];
        static size_t last_size;
        uint8_t *key = NULL;
        size_t size = 0;
        CHECK_OK(tidesdb_iter_key(iter, &key, &size));
        CHECK(count == 0 || folded(last, last_size, key, size, NULL) < 0);
        memcpy(last, key, size);
        last_size = size;
        count++;
    }
    CHECK(count > 0 && count <= 100);
    tidesdb_iter_free(iter);
    tidesdb_txn_free(txn);
}

struct asked
{
    tidesdb_t *db;
    int asks;
};

/* Looks another family up, of which nobody has the handle yet. */
static void *look_up(void *argument)
{
    CHECK(tidesdb_get_column_family(((struct asked *)argument)->db, "not asked for yet") != NULL);
    return NULL;
}

/* The order of bytes, which waits for another thread when it is first asked. */
static int asking(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, void *ctx)
{
    struct asked *asked = ctx;
    pthread_t thread;
    if (asked->asks)
    {
        asked->asks = 0;
        CHECK(pthread_create(&thread, NULL, look_up, asked) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    return tidesdb_comparator_memcmp(a, a_size, b, b_size, NULL);
}

/* A first look at a family reads all of it: nobody waits for that but who asks for the family. */
static void first_looks(char *path)
{
    static const char *const keys[] = {"a", "b", "c"};
    struct asked asked = {NULL, 0};
    tidesdb_t *db = open_in(path);
    CHECK_OK(tidesdb_register_comparator(db, "asking", asking, NULL, &asked));
    fill(db, family_in(db, "asking", "asking"), keys, 3);
    CHECK_OK(create(db, "not asked for yet", "memcmp"));
    CHECK_OK(tidesdb_close(db));
    db = open_in(path);
    asked.db = db;
    asked.asks = 1;
    CHECK_OK(tidesdb_register_comparator(db, "asking", asking, NULL, &asked));
    CHECK(tidesdb_get_column_family(db, "asking") != NULL && !asked.asks);
    CHECK_OK(tidesdb_close(db));
}

int main(int count, char **arguments)
{
    int up = 1, down = -1;
    char path[4096];
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn;
    tidesdb_t *db;

    CHECK(count == 2);
    snprintf(path, sizeof path, "%s/orders", arguments[1]);
    db = open_in(path);
    built_in(db);
    functions_agree(db);
    registering(db, &up);
    odd_names(db, 1);
    CHECK_OK(tidesdb_register_comparator(db, "folded", folded, NULL, NULL));
    equal_keys(db);
    uncommitted_spellings(db);
    spellings_go(db);
    spellings_of_what_came_to_nothing(db, arguments[1]);
    CHECK_OK(tidesdb_register_comparator(db, "counting", counting, NULL, NULL));
    overlapping(db);
    expiring(db);
    threads(db);
    CHECK_OK(tidesdb_close(db));
    snprintf(path, sizeof path, "%s/first-looks", arguments[1]);
    first_looks(path);
    snprintf(path, sizeof path, "%s/orders", arguments[1]);

    db = open_in(path);
    CHECK(tidesdb_get_column_family(db, "last") == NULL);
    CHECK_CODE(create(db, "last", "memcmp"), TDB_ERR_EXISTS);
    CHECK_OK(tidesdb_register_comparator(db, "last", by_last, NULL, &down));
    cf = tidesdb_get_column_family(db, "last");
    CHECK(cf != NULL);
    SHOWS("9", "a3 c2 b1 ");
    odd_names(db, 0);
    /* What was read from the tables is known by any spelling. */
    CHECK_OK(tidesdb_register_comparator(db, "folded", folded, NULL, NULL));
    cf = tidesdb_get_column_family(db, "own");
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    CHECK(holds(txn, cf, "kEy", "again"));
    CHECK_OK(put(txn, cf, "keY", "once more"));
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
    SHOWS("j", "Key new ");
    CHECK_OK(tidesdb_close(db));
    puts("all checks hold");
    return 0;
}
