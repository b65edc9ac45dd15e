/* A database whose manifest is destroyed opens with everything that can be read of it, and the old
   one is kept. The argument is an empty directory. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

static char path[2048];

/* The path of the database with something behind its name. */
static const char *beside(const char *suffix)
{
    static char name[4][2100];
    static int next;
    next = (next + 1) % 4;
    snprintf(name[next], sizeof name[next], "%s%s", path, suffix);
    return name[next];
}

static int is_there(const char *name)
{
    struct stat status;
    return stat(name, &status) == 0;
}

/* Where a repair dies: before or behind the moment when the directories change places. */
static volatile enum at_exchange { LIVE, BEFORE, BEHIND } at_exchange;

/* The library calls this one for the exchange. */
long syscall(long number, ...)
{
    static long (*theirs)(long, ...);
    long arguments[6], result;
    va_list list;
    int n;
    va_start(list, number);
    for (n = 0; n < 6; n++) arguments[n] = va_arg(list, long);
    va_end(list);
    if (number == SYS_renameat2 && at_exchange == BEFORE) kill(getpid(), SIGKILL);
    if (theirs == NULL) *(void **)&theirs = dlsym(RTLD_NEXT, "syscall");
    CHECK(theirs != NULL);
    result = theirs(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                    arguments[5]);
    if (number == SYS_renameat2 && at_exchange == BEHIND) kill(getpid(), SIGKILL);
    return result;
}

/* Another process opens the database, which repairs it. */
static volatile int other_comes_first;
static int open_and_close(void);

/* The library calls this one before it begins a repair, when it has seen the damage. */
char *getcwd(char *into, size_t size)
{
    static char *(*theirs)(char *, size_t);
    if (other_comes_first)
    {
        int status;
        pid_t child;
        other_comes_first = 0;
        child = fork();
        CHECK(child >= 0);
        if (child == 0) _exit(open_and_close());
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    if (theirs == NULL) *(void **)&theirs = dlsym(RTLD_NEXT, "getcwd");
    CHECK(theirs != NULL);
    return theirs(into, size);
}

/* What happens at a read while a repair is under way. */
enum at_read { NOTHING, DIE, WAIT };
static volatile enum at_read at_read;
static volatile int reads_left, held;

/* The library calls this one for reads of tables. */
ssize_t pread64(int file, void *into, size_t size, off_t at)
{
    if (at_read != NOTHING && is_there(beside(".repaired.unfinished")) && reads_left-- == 0)
    {
        if (at_read == DIE) kill(getpid(), SIGKILL);
        held = 1;
        while (held == 1)
        {
            struct timespec pause = {0, 1000000};
            nanosleep(&pause, NULL);
        }
    }
    return (ssize_t)syscall(SYS_pread64, file, into, size, at);
}

static int open_code(tidesdb_t **db)
{
    tidesdb_config_t config = tidesdb_default_config();
    config.db_path = path;
    config.log_level = TDB_LOG_WARN;
    config.log_to_file = 1;
    return tidesdb_open(&config, db);
}

static int open_and_close(void)
{
    tidesdb_t *db = NULL;
    return open_code(&db) != TDB_SUCCESS || tidesdb_close(db) != TDB_SUCCESS;
}

/* Calls a function with each file of the database whose name has a text in it; how many. */
static int for_each(const char *text, void (*act)(const char *file, long argument), long argument)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    int found = 0;
    CHECK(dir != NULL);
    while ((entry = readdir(dir)) != NULL)
    {
        char name[4096];
        if (entry->d_name[0] == '.' || strstr(entry->d_name, text) == NULL) continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        act(name, argument);
        found++;
    }
    closedir(dir);
    return found;
}

static char largest_file[4096];
static off_t largest_size;

static void keep_larger(const char *file, long argument)
{
    struct stat status;
    (void)argument;
    if (stat(file, &status) != 0 || status.st_size <= largest_size) return;
    strcpy(largest_file, file);
    largest_size = status.st_size;
}

/* The largest file of the database whose name has this in it. */
static const char *largest(const char *text)
{
    largest_size = 0;
    CHECK(for_each(text, keep_larger, 0) > 0 && largest_size > 0);
    return largest_file;
}

static void overwrite(const char *file, long at)
{
    FILE *out = fopen(file, "r+");
    int n;
    CHECK(out != NULL && fseek(out, at, SEEK_SET) == 0);
    for (n = 0; n < 200; n++) CHECK(fputs("garbage ", out) >= 0);
    CHECK(fclose(out) == 0);
}

static void write_file(const char *name, const char *text)
{
    char file[4096];
    FILE *out;
    snprintf(file, sizeof file, "%s/%s", path, name);
    out = fopen(file, "w");
    CHECK(out != NULL && fputs(text, out) >= 0 && fclose(out) == 0);
}

/* A number for all names and contents of the database's files but those that openings write. */
static uint64_t sum_of(const char *directory)
{
    DIR *dir = opendir(directory);
    struct dirent *entry;
    uint64_t sum = 0;
    CHECK(dir != NULL);
    while ((entry = readdir(dir)) != NULL)
    {
        char name[4096];
        uint64_t one = 14695981039346656037u;
        FILE *file;
        int byte, n;
        if (entry->d_name[0] == '.' || strncmp(entry->d_name, "LO", 2) == 0) continue;
        snprintf(name, sizeof name, "%s/%s", directory, entry->d_name);
        for (n = 0; entry->d_name[n] != 0; n++)
            one = (one ^ (uint8_t)entry->d_name[n]) * 1099511628211u;
        file = fopen(name, "r");
        CHECK(file != NULL);
        while ((byte = getc(file)) != EOF) one = (one ^ (uint8_t)byte) * 1099511628211u;
        fclose(file);
        sum += one;
    }
    closedir(dir);
    return sum;
}

#define KEYS 300

static size_t value_of(int n, char *value)
{
    /* Small ones, and ones for value logs. */
    const size_t size = n % 3 == 0 ? 5000 : 20;
    uint32_t noise = (uint32_t)n * 2654435761u;
    size_t at;
    for (at = 0; at < size; at++)
    {
        noise = noise * 1664525u + 1013904223u;
        value[at] = (char)(noise >> 24);
    }
    return size;
}

static void put_keys(tidesdb_t *db, const char *name, int from)
{
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    static char value[5000];
    int n;
    for (n = from; n < KEYS; n += 2)
    {
        char key[16];
        const size_t size = value_of(n, value);
        snprintf(key, sizeof key, "k%05d", n);
        CHECK_OK(tidesdb_txn_put(txn, tidesdb_get_column_family(db, name), bytes(key), 6,
                                 bytes(value), size, 0));
    }
    CHECK_OK(tidesdb_txn_commit(txn));
    tidesdb_txn_free(txn);
}

/* How many of the keys are there, each with its value. */
static int keys_in(tidesdb_t *db, const char *name)
{
    tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    static char value[5000];
    int n, there = 0;
    CHECK(tidesdb_get_column_family(db, name) != NULL);
    for (n = 0; n < KEYS; n++)
    {
        uint8_t *found = NULL;
        char key[16];
        size_t size = 0;
        int code;
        snprintf(key, sizeof key, "k%05d", n);
        code = tidesdb_txn_get(txn, tidesdb_get_column_family(db, name), bytes(key), 6, &found,
                               &size);
        CHECK(code == TDB_SUCCESS || code == TDB_ERR_NOT_FOUND);
        if (code != TDB_SUCCESS) continue;
        CHECK(size == value_of(n, value) && memcmp(found, value, size) == 0);
        tidesdb_free(found);
        there++;
    }
    tidesdb_txn_free(txn);
    return there;
}

/* Whether the process that made a database died, perhaps with its log on disk, and another one
   closed it or none did. */
enum closed { KILLED, SYNCED, CLOSED, CLOSED_AT_ONCE };

/* Two families, half of whose keys are in tables and the rest in the log of a process that died. */
static void make(const char *directory, const char *name, enum closed closed)
{
    int status;
    pid_t child;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
    {
        const char *names[2] = {"one", "two"};
        tidesdb_t *db = open_in(path);
        int n;
        for (n = 0; n < 2; n++)
        {
            small_family(db, names[n]);
            put_keys(db, names[n], 0);
            CHECK_OK(tidesdb_compact(tidesdb_get_column_family(db, names[n])));
            put_keys(db, names[n], 1);
        }
        put_alone(db, tidesdb_get_column_family(db, "one"), "gone", "v");
        CHECK_OK(tidesdb_compact(tidesdb_get_column_family(db, "one")));
        {
            tidesdb_txn_t *txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
            CHECK_OK(tidesdb_txn_delete(txn, tidesdb_get_column_family(db, "one"), bytes("gone"),
                                        4));
            CHECK_OK(tidesdb_txn_commit(txn));
            tidesdb_txn_free(txn);
        }
        if (closed == SYNCED) CHECK_OK(tidesdb_sync_wal(tidesdb_get_column_family(db, "one")));
        if (closed == CLOSED_AT_ONCE) _exit(tidesdb_close(db) != TDB_SUCCESS);
        kill(getpid(), SIGKILL);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(closed == CLOSED_AT_ONCE ? status == 0 : WIFSIGNALED(status));
    /* What was closed has no log in which anything is a second time. */
    if (closed == CLOSED) CHECK_OK(tidesdb_close(open_in(path)));
}

/* The same, whose manifest is destroyed then. Returns the sum of what is there. */
static uint64_t make_and_destroy(const char *directory, const char *name, enum closed closed)
{
    make(directory, name, closed);
    overwrite(largest("MANIFEST-"), 0);
    return sum_of(path);
}

/* Everything is there, and the database is one like any other. */
static void check_whole(void)
{
    tidesdb_t *db = NULL;
    tidesdb_txn_t *txn;
    int round;
    for (round = 0; round < 2; round++)
    {
        CHECK_OK(open_code(&db));
        CHECK(keys_in(db, "one") == KEYS && keys_in(db, "two") == KEYS);
        txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
        CHECK(holds(txn, tidesdb_get_column_family(db, "one"), "gone", NULL));
        if (round == 1) CHECK(holds(txn, tidesdb_get_column_family(db, "two"), "new", "v"));
        tidesdb_txn_free(txn);
        put_alone(db, tidesdb_get_column_family(db, "two"), "new", "v");
        CHECK_OK(tidesdb_close(db));
    }
}

/* Whether a line of the log at this level has the text. */
static int is_logged(const char *level, const char *text)
{
    char line[4096];
    FILE *log;
    int found = 0;
    snprintf(line, sizeof line, "%s/LOG", path);
    log = fopen(line, "r");
    CHECK(log != NULL);
    while (fgets(line, sizeof line, log) != NULL)
        found |= strstr(line, level) != NULL && strstr(line, text) != NULL;
    fclose(log);
    return found;
}

/* Each way of losing it. */
static void destroyed(const char *directory)
{
    const char *ways[3] = {"manifest", "no name", "wrong name"};
    int way;
    for (way = 0; way < 3; way++)
    {
        char current[2200];
        const char *manifest;
        uint64_t sum;
        make(directory, ways[way], way == 1 ? CLOSED : KILLED);
        snprintf(current, sizeof current, "%s/CURRENT", path);
        /* Once with nothing left of it. */
        manifest = largest("MANIFEST-");
        if (way == 0) CHECK(truncate(manifest, 0) == 0);
        overwrite(manifest, 0);
        if (way == 1) CHECK(remove(current) == 0);
        if (way == 2) overwrite(current, 0);
        sum = sum_of(path);
        check_whole();
        CHECK(sum_of(beside(".damaged")) == sum && !is_there(beside(".repaired")));
        CHECK(!is_there(beside(".repaired.unfinished")) && !is_there(beside(".damaged-1")));
        CHECK(is_logged("[ERROR]", "is being repaired") && is_logged("[ERROR]", "is kept at"));
        CHECK(is_logged("[ERROR]", "uncertain: ") && !is_logged("[ERROR]", "lost: "));
    }
    /* The same again: another name for the one that is kept. */
    overwrite(largest("MANIFEST-"), 0);
    check_whole();
    CHECK(is_there(beside(".damaged")) && is_there(beside(".damaged-1")));
}

/* What can't be read is lost, and the log says so; everything else is there. */
static void with_losses(const char *directory)
{
    tidesdb_t *db = NULL;
    uint64_t sum;
    int there;
    make_and_destroy(directory, "losses", CLOSED);
    overwrite(largest(".vlog"), 8192);
    overwrite(largest(".klog"), 1000);
    sum = sum_of(path);
    CHECK_OK(open_code(&db));
    there = keys_in(db, "one") + keys_in(db, "two");
    CHECK(there > KEYS / 2 && there < 2 * KEYS);
    put_alone(db, tidesdb_get_column_family(db, "one"), "new", "v");
    CHECK_OK(tidesdb_close(db));
    CHECK(is_logged("[ERROR]", "lost: ") && sum_of(beside(".damaged")) == sum);
    CHECK_OK(open_code(&db));
    CHECK(keys_in(db, "one") + keys_in(db, "two") == there);
    CHECK_OK(tidesdb_close(db));
}

/* A repair that can't be done leaves all as it was. */
static void refused(const char *directory)
{
    const uint64_t sum = make_and_destroy(directory, "refused", KILLED);
    const char *workshop = beside(".repaired.unfinished");
    const struct rlimit little = {100000, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
    tidesdb_t *db = (tidesdb_t *)&db;
    char of_user[2200];

    /* The user's own directory of that name. */
    snprintf(of_user, sizeof of_user, "%s/mine", workshop);
    CHECK(mkdir(workshop, 0755) == 0 && mkdir(of_user, 0755) == 0);
    CHECK_CODE(open_code(&db), TDB_ERR_CORRUPTION);
    CHECK(db == NULL && sum_of(path) == sum && is_there(of_user));
    CHECK(rmdir(of_user) == 0 && rmdir(workshop) == 0);
    /* A directory in which nothing may be made, unless we may do everything. */
    if (geteuid() != 0)
    {
        CHECK(chmod(directory, 0555) == 0);
        CHECK_CODE(open_code(&db), TDB_ERR_CORRUPTION);
        CHECK(chmod(directory, 0755) == 0 && sum_of(path) == sum);
    }
    /* A process that works in it would go on in the damaged one. */
    CHECK(chdir(path) == 0);
    CHECK_CODE(open_code(&db), TDB_ERR_CORRUPTION);
    CHECK(chdir("/") == 0 && sum_of(path) == sum && !is_there(beside(".damaged")));
    /* No room for the copy. */
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &little) == 0);
    CHECK_CODE(open_code(&db), TDB_ERR_CORRUPTION);
    CHECK(setrlimit(RLIMIT_FSIZE, &all) == 0);
    CHECK(db == NULL && sum_of(path) == sum && !is_there(beside(".repaired")));
    CHECK(!is_there(workshop) && !is_there(beside(".damaged")));
    check_whole();
}

/* Killed at one read after the other: the next opening begins anew. */
static void killed(const char *directory)
{
    const uint64_t sum = make_and_destroy(directory, "killed", KILLED);
    int status, n, deaths = 0;
    for (n = 0; n < 200; n += 40)
    {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
        {
            tidesdb_t *db = NULL;
            reads_left = n;
            at_read = DIE;
            _exit(open_code(&db) != TDB_SUCCESS);
        }
        CHECK(waitpid(child, &status, 0) == child);
        if (!WIFSIGNALED(status)) break;
        CHECK(sum_of(path) == sum && !is_there(beside(".damaged")));
        deaths++;
    }
    CHECK(deaths > 1);
    check_whole();
    CHECK(sum_of(beside(".damaged")) == sum && !is_there(beside(".repaired.unfinished")));
}

/* Opens the database in a process that dies there. */
static void die_at(enum at_exchange moment)
{
    int status;
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
    {
        tidesdb_t *db = NULL;
        at_exchange = moment;
        _exit(open_code(&db) != TDB_SUCCESS);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

/* A directory that the user has removed is a new database, whatever lies beside it. */
static void check_begins_empty(void)
{
    tidesdb_t *db = NULL;
    CHECK(rename(path, beside(".mine")) == 0);
    CHECK_OK(open_code(&db));
    CHECK(tidesdb_get_column_family(db, "one") == NULL);
    CHECK_OK(tidesdb_close(db));
}

/* Killed in its last moments, with what lies there then. */
static void killed_at_the_end(const char *directory)
{
    uint64_t sum = make_and_destroy(directory, "before", KILLED);
    /* Between two renames, where names can't be exchanged: nothing has the name. */
    die_at(BEFORE);
    CHECK(sum_of(path) == sum && is_there(beside(".repaired")));
    CHECK(rename(path, beside(".damaged")) == 0);
    /* A script that starts the program makes the directory. */
    CHECK(mkdir(path, 0755) == 0);
    check_whole();
    CHECK(!is_there(beside(".repaired")) && is_logged("[ERROR]", "was killed before that"));
    CHECK(is_logged("[ERROR]", "is being repaired") && is_logged("[ERROR]", "is kept at"));
    CHECK(!is_there(beside("/REPAIRED")) && sum_of(beside(".damaged")) == sum);

    /* Before the exchange: the copy is whole, and the next opening makes another. */
    sum = make_and_destroy(directory, "again", KILLED);
    die_at(BEFORE);
    check_whole();
    CHECK(sum_of(beside(".damaged")) == sum && is_there(beside(".repaired")));
    check_begins_empty();

    /* Behind it: the damaged one still has the other name, and the log says everything. */
    sum = make_and_destroy(directory, "behind", KILLED);
    die_at(BEHIND);
    CHECK(is_logged("[ERROR]", "is being repaired") && is_logged("[ERROR]", "is kept at"));
    check_whole();
    CHECK(sum_of(beside(".repaired")) == sum && !is_there(beside("/REPAIRED")));
    check_begins_empty();
}

/* A torn end of the manifest, which a power cut leaves, explains no other damage; and what is not
   the engine's would be missing in a new directory. */
static void not_repaired(const char *directory)
{
    tidesdb_t *db = NULL;
    char file[2200];
    FILE *out;
    uint64_t sum;
    make(directory, "torn", SYNCED);
    out = fopen(largest("MANIFEST-"), "a");
    CHECK(out != NULL && fputs("torn", out) >= 0 && fclose(out) == 0);
    /* Behind the marks that say what was on disk: what they don't know of may end anywhere. Which
       of several is still needed depends on when the last process removed what was not. */
    CHECK(for_each("wal-", overwrite, 128) > 0);
    sum = sum_of(path);
    CHECK_CODE(open_code(&db), TDB_ERR_CORRUPTION);
    CHECK(sum_of(path) == sum && !is_there(beside(".damaged")));

    make_and_destroy(directory, "foreign", KILLED);
    snprintf(file, sizeof file, "%s/notes.txt", path);
    out = fopen(file, "w");
    CHECK(out != NULL && fputs("mine", out) >= 0 && fclose(out) == 0);
    sum = sum_of(path);
    CHECK_CODE(open_code(&db), TDB_ERR_CORRUPTION);
    CHECK(sum_of(path) == sum && !is_there(beside(".damaged")));
    CHECK(remove(file) == 0);
    check_whole();
    CHECK(is_logged("[ERROR]", "family 'one' has the name that it has in table"));
}

static void *open_it(void *code)
{
    tidesdb_t *db = NULL;
    *(int *)code = open_code(&db);
    if (db != NULL) CHECK_OK(tidesdb_close(db));
    return NULL;
}

/* An opening beside a repair finds the directory locked. */
static void beside_another(const char *directory)
{
    pthread_t first;
    tidesdb_t *db = NULL;
    int code = 1, status;
    pid_t child;
    make_and_destroy(directory, "beside another", KILLED);
    reads_left = 10;
    at_read = WAIT;
    CHECK(pthread_create(&first, NULL, open_it, &code) == 0);
    WAIT_FOR(held == 1);
    at_read = NOTHING;
    CHECK_CODE(open_code(&db), TDB_ERR_LOCKED);
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
    {
        CHECK_CODE(open_code(&db), TDB_ERR_LOCKED);
        /* An exit would have valgrind look for what the thread that is not here holds. */
        kill(getpid(), SIGKILL);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGKILL);
    held = 2;
    CHECK(pthread_join(first, NULL) == 0 && code == TDB_SUCCESS);
    check_whole();
    CHECK(!is_there(beside(".damaged-1")));
}

/* A repair that was about to begin when another one had ended repairs nothing again. */
static void behind_another(const char *directory)
{
    tidesdb_t *db = NULL;
    const uint64_t sum = make_and_destroy(directory, "behind another", KILLED);
    other_comes_first = 1;
    CHECK_CODE(open_code(&db), TDB_ERR_LOCKED);
    CHECK(db == NULL && !other_comes_first);
    check_whole();
    CHECK(sum_of(beside(".damaged")) == sum && !is_there(beside(".damaged-1")));
}

static void set_mode(const char *file, long mode)
{
    CHECK(chmod(file, (mode_t)mode) == 0);
}

/* Only the owner of the files looked into the old ones: that holds for the new ones, and for what
   the log says of them. */
static void modes_are_kept(const char *directory)
{
    /* Not the manifest: the opening that follows writes another one. */
    const char *names[] = {".vlog", ".klog", "LOG"};
    struct stat status;
    tidesdb_t *db = NULL;
    int n;
    make_and_destroy(directory, "modes", KILLED);
    CHECK(chmod(path, 0700) == 0);
    CHECK(for_each("", set_mode, 0600) > 0);
    CHECK_OK(open_code(&db));
    CHECK(stat(path, &status) == 0 && (status.st_mode & 0777) == 0700);
    for (n = 0; n < 3; n++)
        CHECK(stat(largest(names[n]), &status) == 0 && (status.st_mode & 0777) == 0600);
    CHECK_OK(tidesdb_close(db));
    check_whole();
}

/* What may be another's, or has nothing to be saved, is left alone. */
static void nothing_to_save(const char *directory)
{
    tidesdb_t *db = NULL;
    char current[2200];
    uint64_t sum;
    FILE *out;
    snprintf(path, sizeof path, "%s/nothing", directory);
    snprintf(current, sizeof current, "%s/CURRENT", path);
    CHECK(mkdir(path, 0755) == 0);
    out = fopen(current, "w");
    CHECK(out != NULL && fputs("MANIFEST-000004\n", out) >= 0 && fclose(out) == 0);
    sum = sum_of(path);
    CHECK_CODE(open_code(&db), TDB_ERR_CORRUPTION);
    CHECK(db == NULL && sum_of(path) == sum && !is_there(beside(".damaged")));

    /* Another program's files, one of which has the name of a repair's mark. */
    snprintf(path, sizeof path, "%s/other", directory);
    CHECK(mkdir(path, 0755) == 0);
    write_file("REPAIRED", "other.damaged");
    write_file("other", "mine");
    sum = sum_of(path);
    CHECK_CODE(open_code(&db), TDB_ERR_CORRUPTION);
    CHECK(db == NULL && sum_of(path) == sum && is_there(beside("/REPAIRED")));

    /* The same name in a database. */
    snprintf(path, sizeof path, "%s/marked", directory);
    CHECK(open_and_close() == 0);
    write_file("REPAIRED", "mine");
    CHECK(open_and_close() == 0 && is_there(beside("/REPAIRED")));
    write_file("REPAIRED", "marked.damaged-2");
    CHECK(open_and_close() == 0 && !is_there(beside("/REPAIRED")));
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    destroyed(arguments[1]);
    with_losses(arguments[1]);
    refused(arguments[1]);
    killed(arguments[1]);
    killed_at_the_end(arguments[1]);
    not_repaired(arguments[1]);
    beside_another(arguments[1]);
    behind_another(arguments[1]);
    modes_are_kept(arguments[1]);
    nothing_to_save(arguments[1]);
    puts("all checks hold");
    return 0;
}
