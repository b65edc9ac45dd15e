/* A get allocates once, whatever the engine does inside, and the first lookup of a new family does
   not allocate: counted by the preloaded allocator. The argument is an empty directory. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

#include "helpers.h"

#define ROUNDS 100

static long (*counter)(void);

static void gets(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const char *key, size_t expected)
{
    int round;
    for (round = 0; round < ROUNDS; round++)
    {
        uint8_t *value = NULL;
        size_t size = 0;
        const long before = counter();
        CHECK_OK(tidesdb_txn_get(txn, cf, bytes(key), strlen(key), &value, &size));
        /* The first ones may grow what the thread keeps for later ones. */
        if (round > 10) CHECK(counter() - before == 1);
        CHECK(size == expected);
        tidesdb_free(value);
    }
}

/* Creating a family makes its handle, so that the program's first lookup only finds it. */
static void lookups(tidesdb_t *db)
{
    const tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    int round;
    for (round = 0; round < 20; round++)
    {
        char name[16];
        long before;
        snprintf(name, sizeof name, "new %d", round);
        CHECK_OK(tidesdb_create_column_family(db, name, &config));
        before = counter();
        CHECK(tidesdb_get_column_family(db, name) != NULL);
        /* The thread's first one may allocate what it keeps. */
        if (round > 0) CHECK(counter() == before);
    }
}

int main(int count, char **arguments)
{
    static char large[4000];
    char path[4096];
    tidesdb_t *db;
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn;

    CHECK(count == 2);
    *(void **)&counter = dlsym(RTLD_DEFAULT, "preloaded_allocations");
    CHECK(counter != NULL);
    snprintf(path, sizeof path, "%s/db", arguments[1]);
    db = open_in(path);
    cf = small_family(db, "default");
    memset(large, 'l', sizeof large - 1);
    put_alone(db, cf, "small", "value");
    put_alone(db, cf, "large", large);
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    gets(txn, cf, "small", 5);
    gets(txn, cf, "large", sizeof large - 1);
    /* From tables, and from a value log. */
    CHECK_OK(tidesdb_compact(cf));
    gets(txn, cf, "small", 5);
    gets(txn, cf, "large", sizeof large - 1);
    tidesdb_txn_free(txn);
    lookups(db);
    CHECK_OK(tidesdb_close(db));
    puts("all checks hold");
    return 0;
}
