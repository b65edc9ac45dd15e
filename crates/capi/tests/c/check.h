/* Checks of the C test programs: a check that fails says where and ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                \
    do                                                                                  \
    {                                                                                   \
        if (!(condition))                                                               \
        {                                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

#define CHECK_CODE(call, expected)                                                      \
    do                                                                                  \
    {                                                                                   \
        const int code_ = (call);                                                       \
        if (code_ != (expected))                                                        \
        {                                                                               \
            fprintf(stderr, "%s:%d: %s answered %d, expected %d\n", __FILE__, __LINE__, #call, \
                    code_, (expected));                                                 \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

#define CHECK_OK(call) CHECK_CODE(call, TDB_SUCCESS)

#endif
