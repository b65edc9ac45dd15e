/* Lookups of families wait for no other family's change, nor do lookups of names that no family
   has. The argument is an empty directory. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

/* The first sync of the thread that changes makes this 1 and waits until it is 2. */
static volatile int held;
static __thread int changes;

static void wait_if_held(void)
{
    int expected = 0;
    if (!changes ||
        !__atomic_compare_exchange_n(&held, &expected, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return;
    while (held != 2)
    {
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
    }
}

int fsync(int file)
{
    wait_if_held();
    return (int)syscall(SYS_fsync, file);
}

int fdatasync(int file)
{
    wait_if_held();
    return (int)syscall(SYS_fdatasync, file);
}

static tidesdb_t *db;
static tidesdb_column_family_t *there;
static volatile int looked_up;

static int hook(const tidesdb_commit_op_t *ops, int num_ops, uint64_t commit_seq, void *ctx)
{
    (void)ops;
    (void)num_ops;
    (void)commit_seq;
    (void)ctx;
    return 0;
}

static void *create(void *unused)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    config.commit_hook_fn = hook;
    changes = 1;
    CHECK_OK(tidesdb_create_column_family(db, "created", &config));
    return unused;
}

static void *drop(void *unused)
{
    changes = 1;
    CHECK_OK(tidesdb_drop_column_family(db, "changed"));
    return unused;
}

static void *rename_it(void *unused)
{
    changes = 1;
    CHECK_OK(tidesdb_rename_column_family(db, "changed", "renamed"));
    return unused;
}

static void *look_up(void *unused)
{
    CHECK(tidesdb_get_column_family(db, "there") == there);
    CHECK(tidesdb_get_column_family(db, "nowhere") == NULL);
    looked_up = 1;
    return unused;
}

int main(int count, char **arguments)
{
    static void *(*const all[])(void *) = {create, rename_it, drop};
    size_t n;

    CHECK(count == 2);
    db = open_in(arguments[1]);
    there = small_family(db, "there");
    for (n = 0; n < 3; n++)
    {
        pthread_t changer, reader;
        if (n != 0) CHECK(small_family(db, "changed") != NULL);
        held = looked_up = 0;
        CHECK(pthread_create(&changer, NULL, all[n], NULL) == 0);
        WAIT_FOR(held == 1);
        CHECK(pthread_create(&reader, NULL, look_up, NULL) == 0);
        WAIT_FOR(looked_up);
        held = 2;
        CHECK(pthread_join(changer, NULL) == 0 && pthread_join(reader, NULL) == 0);
        CHECK(tidesdb_get_column_family(db, n == 0 ? "created" : "renamed") != NULL);
    }
    CHECK(tidesdb_get_column_family(db, "changed") == NULL);
    CHECK_OK(tidesdb_close(db));
    puts("all checks hold");
    return 0;
}
