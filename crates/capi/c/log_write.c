/* The body of tidesdb_log_write, which takes a variable number of arguments. Stable Rust can't
   define such a function: src/engine_log.rs jumps here, and is called with the finished line. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

typedef int (*wants_fn)(int level);
typedef void (*line_fn)(int level, const char *file, int line, const char *text);

/* Set when the first database is opened; always to the same functions. */
static _Atomic(wants_fn) wants;
static _Atomic(line_fn) write_line;

void tdb_log_connect(wants_fn wants_to, line_fn line_to);
void tdb_log_formatted(int level, const char *file, int line, const char *fmt, ...);

void tdb_log_connect(wants_fn wants_to, line_fn line_to)
{
    atomic_store(&write_line, line_to);
    atomic_store(&wants, wants_to);
}

void tdb_log_formatted(int level, const char *file, int line, const char *fmt, ...)
{
    const wants_fn asked = atomic_load(&wants);
    char text[1024];
    char *whole = text;
    va_list arguments, again;
    int length;

    if (fmt == NULL || asked == NULL || !asked(level)) return;
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
    if (length >= 0) atomic_load(&write_line)(level, file, line, whole);
    if (whole != text) free(whole);
}
