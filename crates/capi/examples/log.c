/* Writes the engine's log, and lines of the program, to a file. usage: log DIRECTORY */
#include <string.h>

#include <tidesdb/tidesdb.h>

#include "check.h"

int main(int count, char **arguments)
{
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_t *db = NULL;
    char path[4096], line[1024];
    FILE *file;

    if (count != 2) return 2;
    config.db_path = arguments[1];
    config.log_to_file = 1;               /* DIRECTORY/LOG; 0 is stderr */
    config.log_level = TDB_LOG_INFO;      /* this and more severe ones */
    config.log_truncation_at = 16 << 20;  /* begins anew at 16 MiB */
    check(tidesdb_open(&config, &db), "open");
    TDB_DEBUG_LOG(TDB_LOG_WARN, "the program says %d", 42);
    TDB_DEBUG_LOG(TDB_LOG_DEBUG, "not written at this level");
    check(tidesdb_close(db), "close");

    snprintf(path, sizeof path, "%s/LOG", arguments[1]);
    file = fopen(path, "r");
    check(file == NULL, "opening the log");
    while (fgets(line, sizeof line, file) != NULL)
    {
        const char *time_ends = strchr(line, ']');
        /* A long line comes in parts, of which only the first has the time. */
        printf("%s", time_ends != NULL ? time_ends + 2 : line);
    }
    fclose(file);
    return 0;
}
