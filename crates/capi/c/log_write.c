/* The body of tidesdb_log_write, which takes a variable number of arguments. Stable Rust can't
   define such a function: src/engine_log.rs jumps here, and is called with the finished line. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

extern void tdb_log_line(int level, const char *file, int line, const char *text);
extern int tdb_log_wants(int level);

void tdb_log_formatted(int level, const char *file, int line, const char *fmt, ...);

void tdb_log_formatted(int level, const char *file, int line, const char *fmt, ...)
{
    char text[1024];
    char *whole = text;
    va_list arguments, again;
    int length;

    if (fmt == NULL || !tdb_log_wants(level)) return;
    va_start(arguments, fmt);
    va_copy(again, arguments);
    length = vsnprintf(text, sizeof text, fmt, arguments);
    if (length >= (int)sizeof text)
    {
        whole = malloc((size_t)length + 1);
        if (whole != NULL)
            vsnprintf(whole, (size_t)length + 1, fmt, again);
        else
            whole = text;
    }
    va_end(again);
    va_end(arguments);
    if (length >= 0) tdb_log_line(level, file, line, whole);
    if (whole != text) free(whole);
}
