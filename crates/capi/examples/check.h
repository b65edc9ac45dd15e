/* Ends the program with a message when a call fails. Programs of your own will want to do
   better. */
#ifndef EXAMPLE_CHECK_H
#define EXAMPLE_CHECK_H

#include <stdio.h>
#include <stdlib.h>

static inline void check(int code, const char *what)
{
    if (code == 0) return;
    fprintf(stderr, "%s: error %d\n", what, code);
    exit(1);
}

#endif
