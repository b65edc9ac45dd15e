/* The engine's log: to stderr, to LOG, its levels, its bound. The argument is an empty
   directory. */
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

static char text[1 << 20];

/* The text of a file; "" when it is not there. */
static const char *contents(const char *path)
{
    FILE *file = fopen(path, "r");
    size_t size = 0;
    if (file != NULL)
    {
        size = fread(text, 1, sizeof text - 1, file);
        fclose(file);
    }
    text[size] = 0;
    return text;
}

static tidesdb_t *open_logged(char *path, tidesdb_log_level_t level, int to_file, size_t bound)
{
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_t *db = NULL;
    config.db_path = path;
    config.log_level = level;
    config.log_to_file = to_file;
    config.log_truncation_at = bound;
    if (tidesdb_open(&config, &db) != TDB_SUCCESS) CHECK(db == NULL);
    return db;
}

static int refuse(const tidesdb_commit_op_t *ops, int count, uint64_t sequence, void *context)
{
    (void)ops;
    (void)count;
    (void)sequence;
    return *(int *)context;
}

/* A line of a commit hook and one of a call that failed are in the database's own log. */
static void told(tidesdb_t *db, tidesdb_column_family_t *cf, const char *log)
{
    static int times;
    char expected[256], long_name[4096];
    int answer = 100 + ++times;
    CHECK_OK(tidesdb_cf_set_commit_hook(cf, refuse, &answer));
    put_alone(db, cf, "k", "v");
    CHECK_OK(tidesdb_cf_set_commit_hook(cf, NULL, NULL));
    snprintf(expected, sizeof expected, "the commit hook of 'told' answered %d", answer);
    CHECK(strstr(contents(log), expected) != NULL);
    /* A place for a copy whose name has something of its own. */
    snprintf(long_name, sizeof long_name, "/nowhere/at/all/%d", answer);
    CHECK(tidesdb_backup(db, long_name) != TDB_SUCCESS);
    snprintf(expected, sizeof expected, "/nowhere/at/all/%d", answer);
    CHECK(strstr(contents(log), expected) != NULL);
}

int main(int count, char **arguments)
{
    char path[1024], other[1024], log[2048], other_log[2048], errors[2048];
    char foreign[4096], file[8192];
    const char *found;
    char long_text[3000], longer_text[20000];
    struct stat status, before;
    tidesdb_column_family_t *cf;
    tidesdb_t *db, *second;
    int n, year, month, day, hour, minute, second_of, milliseconds;

    CHECK(count == 2);
    /* A line is held before the file is there: the limit is raised, and told of. */
    {
        tidesdb_config_t config = tidesdb_default_config();
        char small[1024], small_log[2048];
        snprintf(small, sizeof small, "%s/small", arguments[1]);
        snprintf(small_log, sizeof small_log, "%s/LOG", small);
        config.db_path = small;
        config.log_level = TDB_LOG_WARN;
        config.log_to_file = 1;
        config.max_memory_usage = 1;
        db = NULL;
        CHECK(tidesdb_open(&config, &db) == TDB_SUCCESS);
        CHECK(strstr(contents(small_log), "max_memory_usage is raised from 1") != NULL);
        CHECK(tidesdb_close(db) == TDB_SUCCESS);
    }
    snprintf(path, sizeof path, "%s/db", arguments[1]);
    snprintf(other, sizeof other, "%s/other", arguments[1]);
    snprintf(log, sizeof log, "%s/LOG", path);
    snprintf(other_log, sizeof other_log, "%s/LOG", other);
    snprintf(errors, sizeof errors, "%s/stderr", arguments[1]);
    CHECK(freopen(errors, "w", stderr) != NULL);

    /* Before any database there is no log. */
    tidesdb_log_write(TDB_LOG_FATAL, "file.c", 1, "nowhere");

    /* To a file, with the form of its lines. */
    db = open_logged(path, TDB_LOG_INFO, 1, 0);
    CHECK(db != NULL);
    TDB_DEBUG_LOG(TDB_LOG_WARN, "number %d and %s", 7, "text");
    TDB_DEBUG_LOG(TDB_LOG_DEBUG, "below the level");
    tidesdb_log_write(TDB_LOG_ERROR, NULL, 0, "without a place");
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    tidesdb_log_write(TDB_LOG_INFO, "long.c", 5, "%s", long_text);
    found = contents(log);
    CHECK(sscanf(found, "[%4d-%2d-%2dT%2d:%2d:%2d.%3dZ] [INFO] opened", &year, &month, &day, &hour,
                 &minute, &second_of, &milliseconds) == 7);
    CHECK(year >= 2020 && month >= 1 && month <= 12 && day >= 1 && day <= 31 && hour < 24);
    CHECK(strstr(found, "[WARN] ") != NULL && strstr(found, "logs.c:") != NULL);
    CHECK(strstr(found, "number 7 and text\n") != NULL && strstr(found, "below") == NULL);
    CHECK(strstr(found, "[ERROR] without a place\n") != NULL && strstr(found, "nowhere") == NULL);
    CHECK(strstr(found, long_text) != NULL);

    /* What the engine does is told at the level of information. */
    cf = small_family(db, "told");
    put_alone(db, cf, "k", "v");
    CHECK_OK(tidesdb_compact(cf));
    CHECK(strstr(contents(log), "[INFO] ") != NULL && strstr(text, "was written out") != NULL);

    /* So is what the engine does not take as it was asked for, when it is asked for. */
    CHECK(strstr(text, "beyond the limits") == NULL);
    {
        tidesdb_column_family_config_t config = tidesdb_default_column_family_config();
        config.klog_value_threshold = 3;
        CHECK_OK(tidesdb_create_column_family(db, "limits", &config));
        CHECK(strstr(contents(log), "[WARN] family 'limits': klog_value_threshold = 3 is beyond "
                                    "the limits, so klog_value_threshold = 16\n") != NULL);
        config.klog_value_threshold = 512;
        config.level_size_ratio = 1;
        CHECK_OK(tidesdb_cf_update_runtime_config(tidesdb_get_column_family(db, "limits"), &config,
                                                  1));
        CHECK(strstr(contents(log), "so level_size_ratio = 2\n") != NULL);
    }

    /* Each database has its own; lines of the program go to the one that was opened last. */
    second = open_logged(other, TDB_LOG_ERROR, 1, 4096);
    CHECK(second != NULL);
    tidesdb_log_write(TDB_LOG_WARN, "f.c", 1, "below the second's level");
    for (n = 0; n < 500; n++)
    {
        tidesdb_log_write(TDB_LOG_ERROR, "f.c", n, "line %d of many", n);
        CHECK(stat(other_log, &status) == 0 && status.st_size < 8192);
    }
    found = contents(other_log);
    CHECK(strstr(found, "LOG TRUNCATED") != NULL);
    CHECK(strchr(found, '\n') > strstr(found, "LOG TRUNCATED"));
    CHECK(strstr(found, "line 499 of many") != NULL && strstr(found, "second's level") == NULL);
    memset(longer_text, 'y', sizeof longer_text - 1);
    longer_text[sizeof longer_text - 1] = 0;
    for (n = 0; n < 5; n++)
    {
        tidesdb_log_write(TDB_LOG_ERROR, "f.c", n, "%s", longer_text);
        CHECK(stat(other_log, &status) == 0 && status.st_size < 8192);
    }
    tidesdb_log_write(TDB_LOG_NONE, "f.c", n, "of no level");
    CHECK(strstr(contents(other_log), "of no level") == NULL);
    CHECK(strstr(contents(log), "of many") == NULL);

    /* What fails in the first is told there, whatever was opened or closed since. */
    told(db, cf, log);
    CHECK(strstr(contents(other_log), "commit hook") == NULL);
    CHECK_OK(tidesdb_close(second));
    told(db, cf, log);
    tidesdb_log_write(TDB_LOG_ERROR, "f.c", 1, "after the second");
    CHECK(strstr(contents(log), "after the second") != NULL);
    second = open_logged(other, TDB_LOG_NONE, 0, 0);
    CHECK(second != NULL);
    told(db, cf, log);
    tidesdb_log_write(TDB_LOG_FATAL, "f.c", 1, "to a silent one");
    CHECK(strstr(contents(log), "to a silent one") == NULL);
    CHECK_OK(tidesdb_close(second));

    /* An opening that is refused says why on stderr, and leaves the log of whoever is there. */
    CHECK(stat(log, &before) == 0);
    CHECK(open_logged(path, TDB_LOG_INFO, 1, 0) == NULL);
    CHECK(stat(log, &status) == 0 && status.st_size == before.st_size);
    CHECK(strstr(contents(errors), "tidesdb_open") != NULL);
    CHECK(strstr(text, "is open in another process") != NULL);
    CHECK_OK(tidesdb_close(db));
    CHECK(strstr(contents(log), "closing") != NULL);

    /* A directory of another engine: named, and not touched. */
    snprintf(foreign, sizeof foreign, "%s/foreign", arguments[1]);
    CHECK(mkdir(foreign, 0755) == 0);
    snprintf(file, sizeof file, "%s/default", foreign);
    CHECK(mkdir(file, 0755) == 0);
    snprintf(file, sizeof file, "%s/default/config.ini", foreign);
    CHECK(fclose(fopen(file, "w")) == 0);
    CHECK(stat(foreign, &before) == 0);
    CHECK(open_logged(foreign, TDB_LOG_WARN, 1, 0) == NULL);
    CHECK(strstr(contents(errors), "default/config.ini") != NULL);
    CHECK(strstr(text, "TidesDB's C library") != NULL);
    snprintf(file, sizeof file, "%s/LOG", foreign);
    CHECK(access(file, F_OK) != 0);
    snprintf(file, sizeof file, "%s/LOCK", foreign);
    CHECK(access(file, F_OK) != 0);

    /* To stderr, and silence. */
    CHECK(freopen(errors, "w", stderr) != NULL);
    db = open_logged(other, TDB_LOG_INFO, 0, 0);
    CHECK(db != NULL && strstr(contents(errors), "[INFO] opened") != NULL);
    CHECK_OK(tidesdb_close(db));
    CHECK(freopen(errors, "w", stderr) != NULL);
    CHECK(open_logged(foreign, TDB_LOG_NONE, 1, 0) == NULL);
    CHECK(contents(errors)[0] == 0);
    puts("all checks hold");
    return 0;
}
