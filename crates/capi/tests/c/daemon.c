/* What daemons do to their process: they close the standard descriptors, and have one thread of
   their own wait for signals. The argument is an empty directory. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

#define KEYS 3000

static char directory[1024];

static tidesdb_t *open_logged(char *path, int to_file)
{
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_t *db = NULL;
    config.db_path = path;
    config.log_level = TDB_LOG_DEBUG;
    config.log_to_file = to_file;
    CHECK_OK(tidesdb_open(&config, &db));
    return db;
}

/* No file has a standard descriptor, not even for a moment: nothing that the program reads or
   writes there by mistake meets one. */
static void none_is_standard(void)
{
    char byte;
    int number;
    for (number = 0; number < 3; number++)
    {
        CHECK(read(number, &byte, 1) == -1 && errno == EBADF);
        CHECK(write(number, "x", 1) == -1 && errno == EBADF);
    }
}

static volatile int is_over;

/* Looks while the library opens files in threads of its own. */
static void *look_all_the_time(void *nothing)
{
    while (!is_over) none_is_standard();
    return nothing;
}

/* Lines for people and files of the library must not meet. */
static void without_standard_descriptors(void)
{
    tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
    char path[2048], file[2048], key[16];
    tidesdb_column_family_t *cf;
    tidesdb_txn_t *txn;
    pthread_t looking;
    tidesdb_t *db;
    int n, round;

    for (n = 0; n < 3; n++) close(n);
    CHECK(pthread_create(&looking, NULL, look_all_the_time, NULL) == 0);
    snprintf(path, sizeof path, "%s/db", directory);
    for (round = 0; round < 2; round++)
    {
        db = open_logged(path, round);
        none_is_standard();
        cf = round == 0 ? small_family(db, "f") : tidesdb_get_column_family(db, "f");
        for (n = 0; n < KEYS; n++)
        {
            snprintf(key, sizeof key, "%d %04d", round, n);
            put_alone(db, cf, key, key);
            tidesdb_log_write(TDB_LOG_ERROR, "daemon.c", n, "a line of the program");
            if (n % 500 == 0) none_is_standard();
        }
        CHECK_OK(tidesdb_compact(cf));
        snprintf(file, sizeof file, "%s/%d.ini", directory, round);
        CHECK_OK(tidesdb_cf_config_save_to_ini(file, "f", &config));
        snprintf(file, sizeof file, "%s/copy %d", directory, round);
        CHECK_OK(tidesdb_backup(db, file));
        none_is_standard();
        CHECK_OK(tidesdb_close(db));
    }
    db = open_logged(path, 0);
    cf = tidesdb_get_column_family(db, "f");
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    for (round = 0; round < 2; round++)
    {
        for (n = 0; n < KEYS; n++)
        {
            snprintf(key, sizeof key, "%d %04d", round, n);
            CHECK(holds(txn, cf, key, key));
        }
    }
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_close(db));
    is_over = 1;
    CHECK(pthread_join(looking, NULL) == 0);
}

static volatile int handled;

static void handle(int signal)
{
    (void)signal;
    handled++;
}

/* A line of a thread's status, in hexadecimal; 0 when there is none. */
static unsigned long long blocked_by(const char *thread, char *name, size_t size)
{
    char path[300], line[256];
    unsigned long long blocked = 0;
    FILE *status;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    status = fopen(path, "r");
    name[0] = 0;
    if (status == NULL) return 0;
    while (fgets(line, sizeof line, status) != NULL)
    {
        if (strncmp(line, "Name:\t", 6) == 0) snprintf(name, size, "%s", line + 6);
        sscanf(line, "SigBlk:\t%llx", &blocked);
    }
    fclose(status);
    return blocked;
}

/* How many threads the library has. They take no signals but what they bring upon themselves. */
static int count_threads_of_library(void)
{
    static const int of_program[] = {SIGTERM, SIGHUP, SIGINT, SIGUSR1, SIGALRM, SIGCHLD, SIGPIPE};
    static const int of_thread[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    struct dirent *thread;
    char name[64];
    size_t n;
    int found = 0;
    DIR *threads = opendir("/proc/self/task");
    CHECK(threads != NULL);
    while ((thread = readdir(threads)) != NULL)
    {
        const unsigned long long blocked = blocked_by(thread->d_name, name, sizeof name);
        if (strncmp(name, "tidesdb", 7) != 0) continue;
        found++;
        for (n = 0; n < sizeof of_program / sizeof *of_program; n++)
            CHECK(blocked >> (of_program[n] - 1) & 1);
        for (n = 0; n < sizeof of_thread / sizeof *of_thread; n++)
            CHECK(!(blocked >> (of_thread[n] - 1) & 1));
    }
    closedir(threads);
    return found;
}

/* A signal that the program's threads block waits for the one that they wait with; the library's
   threads are not there for it. What a thread does wrong itself kills as ever. */
static void signals_are_the_programs(void)
{
    struct sigaction action;
    struct timespec moment = {0, 1000000}, second = {1, 0};
    char path[2048];
    sigset_t wanted, before, after;
    tidesdb_t *db;
    size_t n;
    int found = 0;

    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &before) == 0);
    snprintf(path, sizeof path, "%s/signals", directory);
    db = open_logged(path, 1);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &after) == 0);
    for (n = 1; n < 32; n++) CHECK(sigismember(&before, (int)n) == sigismember(&after, (int)n));

    /* A thread has its name a moment after it was started. */
    for (n = 0; n < 10000 && found < 4; n++)
    {
        found = count_threads_of_library();
        nanosleep(&moment, NULL);
    }
    CHECK(found >= 4);

    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &wanted, NULL) == 0);
    for (n = 0; n < 50; n++)
    {
        CHECK(kill(getpid(), SIGUSR1) == 0);
        nanosleep(&moment, NULL);
        CHECK(sigtimedwait(&wanted, NULL, &second) == SIGUSR1);
    }
    CHECK(handled == 0);
    CHECK_OK(tidesdb_close(db));
}

int main(int count, char **arguments)
{
    FILE *out;
    CHECK(count >= 2);
    snprintf(directory, sizeof directory, "%s", arguments[1]);
    out = fdopen(fcntl(1, F_DUPFD, 100), "w");
    stderr = fdopen(fcntl(2, F_DUPFD, 100), "w");
    CHECK(out != NULL && stderr != NULL);
    setvbuf(stderr, NULL, _IONBF, 0);
    signals_are_the_programs();
    without_standard_descriptors();
    fputs("all checks hold\n", out);
    return fclose(out);
}
