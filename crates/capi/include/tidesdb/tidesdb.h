/*
 * TidesDB: the C interface for native programs. Everything of db.h and objstore.h, the defaults
 * as macros, the engine's log, and the allocator.
 */
#ifndef __TIDESDB_H__
#define __TIDESDB_H__

#include <stdint.h>
#include <stdlib.h>

#include "objstore.h"
#include "tidesdb_version.h"

#include "db.h"

#ifdef __cplusplus
extern "C"
{
#endif

/* ------------------------------------------------------------------------------------ defaults */

/* Kept for programs written for 9.3. tidesdb_default_config has 0 for the flush threads and for
   max_concurrent_flushes, by which the library chooses. */

#define TDB_DEFAULT_WRITE_BUFFER_SIZE 67108864
#define TDB_DEFAULT_BLOCK_CACHE_SIZE 67108864
#define TDB_DEFAULT_LEVEL_SIZE_RATIO 10
#define TDB_DEFAULT_MIN_LEVELS 1
#define TDB_DEFAULT_DIVIDING_LEVEL_OFFSET 1
#define TDB_DEFAULT_COMPACTION_THREAD_POOL_SIZE 2
#define TDB_DEFAULT_FLUSH_THREAD_POOL_SIZE 2
#define TDB_DEFAULT_MAX_CONCURRENT_FLUSHES 2
#define TDB_DEFAULT_BLOOM_FPR 0.01
#define TDB_DEFAULT_KLOG_VALUE_THRESHOLD 512
#define TDB_DEFAULT_INDEX_SAMPLE_RATIO 1
#define TDB_DEFAULT_BLOCK_INDEX_PREFIX_LEN 16
#define TDB_DEFAULT_MIN_DISK_SPACE 104857600
#define TDB_DEFAULT_MAX_OPEN_SSTABLES 256
#define TDB_DEFAULT_SYNC_INTERVAL_US 128000
#define TDB_DEFAULT_LOG_FILE_TRUNCATION 25165824

#define TDB_FLUSH_THREADS_AUTO_CAP 4
#define TDB_SKIP_LIST_MAX_LEVEL 12
#define TDB_SKIP_LIST_PROBABILITY 0.25f
#define TDB_MAX_LEVELS 32
#define TDB_DIR_PERMISSIONS 0755
#define TDB_NODE_ID_MAX 64
#define TDB_DISTINCT_KEYS_UNKNOWN UINT64_MAX

/* ---------------------------------------------------------------------------------- engine log */

/* Writes a line to the engine's log, if the level is at least the one in force:
   [YYYY-MM-DDTHH:MM:SS.mmmZ] [LEVEL] file:line: text
   The log is that of the database that was opened last and is still open. While none is, there is
   no level in force, and nothing is written. */
#if defined(__GNUC__) || defined(__clang__)
__attribute__((format(printf, 4, 5)))
#endif
void tidesdb_log_write(int level, const char *file, int line, const char *fmt, ...);

/* Writes a line to the engine's log with the place of the call. */
#define TDB_DEBUG_LOG(level, ...) tidesdb_log_write((level), __FILE__, __LINE__, __VA_ARGS__)

/* -------------------------------------------------------------------------- background work */

/* Waits until no flush and no compaction is queued or running, and has those done as well that
   otherwise begin when no commits come for a while (see l1_file_count_trigger). Not in TidesDB 9.3.
   What is in memtables stays there: tidesdb_flush_memtable. */
int tidesdb_wait_idle(tidesdb_t *db);

/* ------------------------------------------------------------------------------------- codecs */

/* 1 when the library can write and read the codec, otherwise 0. */
int tidesdb_compression_available(compression_algorithm algorithm);

/* ----------------------------------------------------------------------------------- allocator */

/* The functions that allocate what is handed out. */
typedef struct tidesdb_allocator_t
{
    tidesdb_malloc_fn malloc_fn;
    tidesdb_calloc_fn calloc_fn;
    tidesdb_realloc_fn realloc_fn;
    tidesdb_free_fn free_fn;
} tidesdb_allocator_t;

/* The allocator in force. Set it with tidesdb_init, never by hand. */
extern tidesdb_allocator_t tidesdb_allocator;

/* Takes the allocator of the C library unless tidesdb_init has installed one. */
void tidesdb_ensure_initialized(void);

#ifdef __cplusplus
}
#endif

#endif /* __TIDESDB_H__ */
