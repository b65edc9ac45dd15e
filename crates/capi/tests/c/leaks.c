/* Opens, uses and closes a database a thousand times, and looks at what the process has. The
   argument is an empty directory, and a second one, if there is one, the number of rounds. */
#define _GNU_SOURCE
#include <dirent.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

#define ROUNDS 1000

/* The library calls these two. Each opening reserves a segment of the log and has its pages there,
   which takes nine tenths of the time where files lie in memory, and is no part of what is looked
   at here. */
int fallocate(int file, int mode, off_t at, off_t size);
int fallocate64(int file, int mode, off_t at, off_t size);

int fallocate(int file, int mode, off_t at, off_t size)
{
    struct stat found;
    if (mode != 0 || fstat(file, &found) != 0) return -1;
    return at + size > found.st_size ? ftruncate(file, at + size) : 0;
}

int fallocate64(int file, int mode, off_t at, off_t size)
{
    return fallocate(file, mode, at, size);
}

int madvise(void *start, size_t size, int advice)
{
    const int populates = advice == 22 || advice == 23;
    return populates ? 0 : (int)syscall(SYS_madvise, start, size, advice);
}

static int entries(const char *directory)
{
    DIR *dir = opendir(directory);
    int found = 0;
    CHECK(dir != NULL);
    while (readdir(dir) != NULL) found++;
    closedir(dir);
    return found;
}

/* Resident memory in bytes. */
static long resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long all = 0, pages = 0;
    CHECK(file != NULL && fscanf(file, "%ld %ld", &all, &pages) == 2 && fclose(file) == 0);
    return pages * sysconf(_SC_PAGESIZE);
}

/* Threads that were told to end need a moment to be gone. */
static void wait_for_threads(int threads)
{
    WAIT_FOR(entries("/proc/self/task") <= threads);
}

static void use(char *path, int round)
{
    tidesdb_t *db = open_in(path), *second = NULL;
    tidesdb_column_family_t *cf = tidesdb_get_column_family(db, "default");
    tidesdb_txn_t *txn;
    tidesdb_iter_t *iter = NULL;
    tidesdb_stats_t *stats = NULL;
    tidesdb_config_t config = tidesdb_default_config();
    char key[32], **names = NULL;
    int count = 0;

    if (cf == NULL) cf = small_family(db, "default");
    snprintf(key, sizeof key, "key%d", round % 50);
    put_alone(db, cf, key, "value");
    txn = begin(db, TDB_ISOLATION_SERIALIZABLE);
    CHECK(holds(txn, cf, key, "value"));
    CHECK_OK(tidesdb_txn_savepoint(txn, "s"));
    CHECK_OK(put(txn, cf, "never", "committed"));
    CHECK_OK(tidesdb_iter_new(txn, cf, &iter));
    CHECK_OK(tidesdb_iter_seek_to_first(iter));
    tidesdb_iter_free(iter);
    CHECK_OK(tidesdb_get_stats(cf, &stats));
    tidesdb_free_stats(stats);
    CHECK_OK(tidesdb_list_column_families(db, &names, &count));
    while (count > 0) tidesdb_free(names[--count]);
    tidesdb_free(names);
    config.db_path = path;
    config.log_level = TDB_LOG_NONE;
    config.log_to_file = 1;
    CHECK_CODE(tidesdb_open(&config, &second), TDB_ERR_LOCKED);
    /* Every other transaction outlives its database. */
    if (round % 2 == 0) tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_close(db));
    if (round % 2 != 0) tidesdb_txn_free(txn);
}

int main(int count, char **arguments)
{
    char path[4096];
    int round, descriptors = 0, threads = 0;
    long memory = 0;
    size_t allocated = 0;
    const int rounds = count > 2 ? atoi(arguments[2]) : ROUNDS;
    /* The first ones fill what is kept for the whole life of the process. */
    const int warm_up = rounds / 2;

    CHECK(count >= 2 && rounds > 1);
    snprintf(path, sizeof path, "%s/db", arguments[1]);
    for (round = 0; round < rounds; round++)
    {
        use(path, round);
        if (round + 1 == warm_up)
        {
            threads = entries("/proc/self/task");
            wait_for_threads(threads);
            threads = entries("/proc/self/task");
            descriptors = entries("/proc/self/fd");
            memory = resident();
            allocated = mallinfo2().uordblks;
        }
    }
    wait_for_threads(threads);
    CHECK(entries("/proc/self/fd") == descriptors);
    /* Less than anything that a round would keep. */
    printf("allocated %ld, resident %ld more\n", (long)mallinfo2().uordblks - (long)allocated,
           resident() - memory);
    CHECK((long)mallinfo2().uordblks - (long)allocated < 64L * (rounds - warm_up));
    CHECK(resident() - memory < 8L << 20);
    puts("all checks hold");
    return 0;
}
