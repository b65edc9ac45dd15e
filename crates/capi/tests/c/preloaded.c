/* An allocator for LD_PRELOAD: new memory and released memory hold garbage, and the allocations of
   each thread are counted. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stddef.h>
#include <string.h>

/* In the thread's own block, so that reaching it allocates nothing. */
static _Thread_local long allocations __attribute__((tls_model("initial-exec")));

long preloaded_allocations(void);

/* Allocations of the calling thread so far. */
long preloaded_allocations(void)
{
    return allocations;
}

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *pointer, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *pointer);

static void *filled(void *pointer)
{
    allocations++;
    if (pointer != NULL) memset(pointer, 0xa5, malloc_usable_size(pointer));
    return pointer;
}

void *malloc(size_t size)
{
    return filled(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    allocations++;
    return __libc_calloc(count, size);
}

void *realloc(void *pointer, size_t size)
{
    allocations++;
    return __libc_realloc(pointer, size);
}

void *memalign(size_t alignment, size_t size)
{
    return filled(__libc_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return filled(__libc_memalign(alignment, size));
}

int posix_memalign(void **place, size_t alignment, size_t size)
{
    void *pointer = filled(__libc_memalign(alignment, size));
    if (pointer == NULL) return 12;
    *place = pointer;
    return 0;
}

void free(void *pointer)
{
    if (pointer != NULL) memset(pointer, 0x5a, malloc_usable_size(pointer));
    __libc_free(pointer);
}
