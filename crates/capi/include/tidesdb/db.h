/*
 * TidesDB: the C interface, the part for bindings, self-contained.
 *
 * This header is for C and C++ programs and for generators of language bindings. It depends on
 * nothing but <stddef.h>, <stdint.h> and <time.h>, and defines no macros but the constants below.
 * <tidesdb/tidesdb.h> is a superset of it for native programs.
 *
 * Conventions:
 *  - A function of type int returns TDB_SUCCESS or one of the negative TDB_ERR_ codes. NULL for a
 *    required pointer is TDB_ERR_INVALID_ARGS.
 *  - Values, names and arrays of names that a function hands out belong to the caller and are
 *    released with tidesdb_free, or with the free of the C library as long as tidesdb_init has not
 *    installed another allocator. Databases, transactions, iterators, statistics and connectors
 *    have functions of their own for it. Handles of families belong to the database, keys and
 *    values of iterators to the iterator.
 *  - On an error the outputs are left as they were, unless a function says otherwise.
 *  - A key has at least one byte: without any it is TDB_ERR_INVALID_ARGS.
 *  - A database and its column families may be used from any number of threads. A transaction or
 *    an iterator may be used by one thread at a time.
 *  - A function of the program's that the library calls (a hook, a comparator, an allocator, what
 *    lists objects) must return: it throws no C++ exception and does no longjmp past the library,
 *    and its thread does not end in it. Nor is a thread cancelled by pthread_cancel while it is in
 *    a call: a program that cancels threads disables that around calls. Otherwise the process may
 *    end, or continue with locks that nothing opens any more. Several threads may be in it at once.
 *  - A forked child opens databases of its own. Calls with a handle of its parent's return
 *    TDB_ERR_INVALID_DB there, and freeing one does nothing. tidesdb_close is the exception: it
 *    leaves the parent's database alone, returns TDB_SUCCESS, and the handle is gone.
 *  - The library's own threads take no signals but those of their own faults.
 *  - No file of the library's has the descriptors 0 to 2, also when the program has closed them.
 */
#ifndef __TIDESDB_DB_H__
#define __TIDESDB_DB_H__

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C"
{
#endif

/* ------------------------------------------------------------------ return codes and limits */

/* The call did what it is documented to do. */
#define TDB_SUCCESS 0
/* An allocation failed. */
#define TDB_ERR_MEMORY -1
/* A pointer, size, name or state is not what the call needs. */
#define TDB_ERR_INVALID_ARGS -2
/* The key, family, savepoint or comparator does not exist; an iterator has no further entry. */
#define TDB_ERR_NOT_FOUND -3
/* A file could not be read or written. */
#define TDB_ERR_IO -4
/* A checksum or a format does not match; an INI file can't be parsed. */
#define TDB_ERR_CORRUPTION -5
/* The name is taken; the target directory is not empty. */
#define TDB_ERR_EXISTS -6
/* The transaction conflicts with one that committed before it. */
#define TDB_ERR_CONFLICT -7
/* A transaction holds more operations or bytes than one commit may. */
#define TDB_ERR_TOO_LARGE -8
/* One key and value are larger than the memory budget allows. */
#define TDB_ERR_MEMORY_LIMIT -9
/* The database is being opened or closed, or the handle is that of a forked process's parent. */
#define TDB_ERR_INVALID_DB -10
/* Transient contention at a commit, which may be repeated. No call of this version returns it. */
#define TDB_ERR_UNKNOWN -11
/* The directory is open elsewhere; another compaction of the family is under way. */
#define TDB_ERR_LOCKED -12
/* The database takes no writes. No call of a database returns it. */
#define TDB_ERR_READONLY -13
/* Writers are held back and nothing moved for a while, the disk is full, or the process has as many
   files open as it may; the same call may be repeated. */
#define TDB_ERR_BUSY -14
/* A conditional write to an object store lost against another writer. */
#ifndef TDB_ERR_PRECONDITION
#define TDB_ERR_PRECONDITION -15
#endif

/* Bytes of a comparator's name, the terminating NUL included. */
#define TDB_MAX_COMPARATOR_NAME 64
/* Bytes of a comparator's context string, the terminating NUL included. */
#define TDB_MAX_COMPARATOR_CTX 256
/* Bytes of a family's name, the terminating NUL included. */
#define TDB_MAX_CF_NAME_LEN 128

/* ------------------------------------------------------------------------------ enumerations */

/* Severity from which on log lines are written. */
typedef enum
{
    TDB_LOG_DEBUG = 0,
    TDB_LOG_INFO = 1,
    TDB_LOG_WARN = 2,
    TDB_LOG_ERROR = 3,
    TDB_LOG_FATAL = 4,
    TDB_LOG_NONE = 99
} tidesdb_log_level_t;

/* What a transaction sees of others, and what makes its commit conflict.
   - READ_UNCOMMITTED and READ_COMMITTED: each read sees what is committed by then, an iterator what
     was when it was made, or positioned at READ_UNCOMMITTED. Nothing conflicts.
   - REPEATABLE_READ: reads see what was committed when the transaction began. Its commit conflicts
     when a key that it has read and found has changed since.
   - SNAPSHOT: reads as before. Its commit conflicts when a key that it writes has changed since.
   - SERIALIZABLE: as SNAPSHOT, and the outcome is that of transactions one after the other. Ranges
     that were scanned and keys that were not found count as read. */
typedef enum
{
    TDB_ISOLATION_READ_UNCOMMITTED = 0,
    TDB_ISOLATION_READ_COMMITTED = 1,
    TDB_ISOLATION_REPEATABLE_READ = 2,
    TDB_ISOLATION_SNAPSHOT = 3,
    TDB_ISOLATION_SERIALIZABLE = 4
} tidesdb_isolation_level_t;

/* Codec of the blocks of a table. */
typedef enum compression_algorithm
{
    TDB_COMPRESS_NONE = 0,
    TDB_COMPRESS_SNAPPY = 1,
    TDB_COMPRESS_LZ4 = 2,
    TDB_COMPRESS_ZSTD = 3,
    TDB_COMPRESS_LZ4_FAST = 4
} compression_algorithm;

/* When a commit is on disk: whenever the kernel likes, before the call returns, or at most one
   interval later. */
typedef enum
{
    TDB_SYNC_NONE = 0,
    TDB_SYNC_FULL = 1,
    TDB_SYNC_INTERVAL = 2
} tidesdb_sync_mode_t;

/* ----------------------------------------------------------------------------------- handles */

typedef struct tidesdb_t tidesdb_t;
typedef struct tidesdb_column_family_t tidesdb_column_family_t;
typedef struct tidesdb_txn_t tidesdb_txn_t;
typedef struct tidesdb_iter_t tidesdb_iter_t;

/* ------------------------------------------------------------------------------ object stores */

/* objstore.h declares the same names; whichever header comes first defines them. */
#ifndef __OBJSTORE_H__

typedef enum
{
    TDB_BACKEND_FS = 0,
    TDB_BACKEND_S3 = 1,
    TDB_BACKEND_UNKNOWN = 99
} tidesdb_objstore_backend_t;

typedef struct tidesdb_objstore_t tidesdb_objstore_t;

/* Options of object store mode. See objstore.h. tidesdb_open refuses a database with an object
   store with TDB_ERR_INVALID_ARGS: this version does not support them. */
typedef struct
{
    const char *local_cache_path;
    size_t local_cache_max_bytes;
    int cache_on_read;
    int cache_on_write;
    int max_concurrent_uploads;
    int max_concurrent_downloads;
    size_t multipart_threshold;
    size_t multipart_part_size;
    int sync_manifest_to_object;
    int replicate_wal;
    int wal_upload_sync;
    size_t wal_sync_threshold_bytes;
    int wal_sync_on_commit;
    int replica_mode;
    uint64_t replica_sync_interval_us;
    int replica_replay_wal;
} tidesdb_objstore_config_t;

/* The defaults of object store mode. */
tidesdb_objstore_config_t tidesdb_objstore_default_config(void);

/* A connector whose objects are files below root_dir, which is made if it is missing (one level).
   NULL for a NULL path, when the directory can't be made, or without memory. */
tidesdb_objstore_t *tidesdb_objstore_fs_create(const char *root_dir);

#endif /* __OBJSTORE_H__ */

#ifndef __OBJSTORE_S3_H__

/* Where an S3 bucket is and how to reach it. See objstore_s3.h. */
typedef struct
{
    const char *endpoint;
    const char *bucket;
    const char *prefix;
    const char *access_key;
    const char *secret_key;
    const char *region;
    int use_ssl;
    int use_path_style;
    const char *tls_ca_path;
    int tls_insecure_skip_verify;
    size_t multipart_threshold;
    size_t multipart_part_size;
} tidesdb_objstore_s3_config_t;

/* S3 connectors. A library built without S3 support does not define these two symbols. */
tidesdb_objstore_t *tidesdb_objstore_s3_create(const char *endpoint, const char *bucket,
                                               const char *prefix, const char *access_key,
                                               const char *secret_key, const char *region,
                                               int use_ssl, int use_path_style);
tidesdb_objstore_t *tidesdb_objstore_s3_create_config(const tidesdb_objstore_s3_config_t *config);

#endif /* __OBJSTORE_S3_H__ */

/* --------------------------------------------------------------------------------- callbacks */

/* Orders two keys: negative, zero or positive. Must be a total order that never changes for a
   family, and must not call into the database. Keys that compare equal are the same key. Function
   and ctx are used until the database is closed. */
typedef int (*tidesdb_comparator_fn)(const uint8_t *key1, size_t key1_size, const uint8_t *key2,
                                     size_t key2_size, void *ctx);

/* One operation of a commit, as a commit hook sees it. Pointers are valid during the call. */
typedef struct tidesdb_commit_op_t
{
    const uint8_t *key;
    size_t key_size;
    const uint8_t *value; /* NULL for deletes */
    size_t value_size;    /* 0 for deletes */
    time_t ttl;           /* Unix second of expiry, as it was given to put; 0 for deletes and for
                             never */
    int is_delete;        /* 1 for both kinds of deletes */
} tidesdb_commit_op_t;

/* Called on the committing thread for each family with a hook, after the commit is visible and as
   durable as its sync mode says. Also when it could not be made durable: what is visible stays, the
   commit returns TDB_ERR_IO, and the hook is not called again when the commit is repeated.
   commit_seq grows from commit to commit and is the same for all families of one. Commits of
   several threads may be shown at the same time, and in another order than that of their numbers.
   The operations are in the order of the calls, so a key may come twice. A result other than 0 is
   logged and changes nothing. It may use the database, and set another hook or none; its own
   commits to the family call it again. It must not close the database. */
typedef int (*tidesdb_commit_hook_fn)(const tidesdb_commit_op_t *ops, int num_ops,
                                      uint64_t commit_seq, void *ctx);

typedef void *(*tidesdb_malloc_fn)(size_t size);
typedef void *(*tidesdb_calloc_fn)(size_t count, size_t size);
typedef void *(*tidesdb_realloc_fn)(void *ptr, size_t size);
typedef void (*tidesdb_free_fn)(void *ptr);

/* ------------------------------------------------------------------------------ configuration */

/* Options of a database. Begin with tidesdb_default_config. Zero is acceptable in every field. */
typedef struct tidesdb_config_t
{
    char *db_path;                      /* directory; copied by tidesdb_open */
    int num_flush_threads;              /* 0 or less: the processors, at most 4 */
    int num_compaction_threads;         /* 0 or less: 2; as many again idle until a family's
                                           runs slow writers */
    tidesdb_log_level_t log_level;      /* default TDB_LOG_INFO */
    size_t block_cache_size;            /* bytes, default 64 MiB; 0: no cache */
    size_t max_open_sstables;           /* default 256; 0: no bound */
    int log_to_file;                    /* 1: log to LOG in the directory, 0: to stderr */
    size_t log_truncation_at;           /* bytes after which LOG begins again; 0: never */
    size_t max_memory_usage;            /* bytes; 0: 75 % of memory; less than 5 % is raised to
                                           it */
    int unified_memtable;               /* 1: the two sync fields below hold instead of those of
                                           families, all families are in memcmp order, and
                                           tidesdb_flush_memtable flushes all of them. Each has its
                                           own memtable still */
    size_t unified_memtable_write_buffer_size;
    int unified_memtable_skip_list_max_level;
    float unified_memtable_skip_list_probability;
    int unified_memtable_sync_mode;     /* of every commit then: those of families do not count */
    uint64_t unified_memtable_sync_interval_us;
    tidesdb_objstore_t *object_store;   /* NULL: none */
    tidesdb_objstore_config_t *object_store_config; /* not looked at without an object store */
    int max_concurrent_flushes;         /* always the number of flush threads */
    int finish_compactions_on_close;    /* 1: close finishes those that run, 0: gives them up */
} tidesdb_config_t;

/* Options of a column family. Begin with tidesdb_default_column_family_config. */
typedef struct tidesdb_column_family_config_t
{
    char name[TDB_MAX_CF_NAME_LEN];      /* filled in by the engine */
    size_t write_buffer_size;            /* bytes, default 64 MiB */
    size_t level_size_ratio;             /* a family at rest: a run more than this many times as
                                            large as all newer ones is not compacted; default 10 */
    int min_levels;                      /* least num_levels of tidesdb_stats_t; default 1, at
                                            most 32; no other effect */
    int dividing_level_offset;           /* stored, without effect; default 1 */
    size_t klog_value_threshold;         /* values of this size on live in the value log; 512 */
#ifdef __cplusplus
    enum compression_algorithm compression_algorithm; /* default LZ4; the same type in C++ */
#else
    compression_algorithm compression_algorithm;     /* default LZ4; the name that bindings see */
#endif
    int enable_bloom_filter;             /* default 1 */
    double bloom_fpr;                    /* default 0.01 */
    int enable_block_indexes;            /* default 1 */
    int index_sample_ratio;              /* default 1 */
    int block_index_prefix_len;          /* stored, without effect; default 16, from 4 to 256 */
    int sync_mode;                       /* tidesdb_sync_mode_t, default TDB_SYNC_NONE */
    uint64_t sync_interval_us;           /* default 128000 */
    char comparator_name[TDB_MAX_COMPARATOR_NAME];   /* "" is memcmp */
    char comparator_ctx_str[TDB_MAX_COMPARATOR_CTX]; /* stored with the family */
#ifdef __TIDESDB_H__
    tidesdb_comparator_fn comparator_fn_cached;      /* filled in by the engine */
#else
    void *comparator_fn_cached;                      /* filled in by the engine */
#endif
    void *comparator_ctx_cached;         /* filled in by the engine */
    int skip_list_max_level;             /* stored, without effect; default 12 */
    float skip_list_probability;         /* stored, without effect; default 0.25 */
    tidesdb_isolation_level_t default_isolation_level; /* stored and reported only */
    uint64_t min_disk_space;             /* bytes; the default, 100 MiB, is a twentieth of small
                                            volumes */
    int l1_file_count_trigger;           /* sorted runs aimed at: twice as many of one size are
                                            compacted, and two less of a family at rest;
                                            default 4 */
    int l0_queue_stall_threshold;        /* frozen memtables at which writers wait; default 10,
                                            never reached with the default buffer */
    double tombstone_density_trigger;    /* share of tombstones; 0: off */
    uint64_t tombstone_density_min_entries; /* default 1024 */
    int use_btree;                       /* 1: tables are B+trees; results are the same */
    tidesdb_commit_hook_fn commit_hook_fn; /* not stored */
    void *commit_hook_ctx;               /* not stored */
    size_t object_target_file_size;      /* this and the next two: without effect, not in INI */
    int object_lazy_compaction;          /* default 0 */
    int object_prefetch_compaction;      /* default 1 */
} tidesdb_column_family_config_t;

/* --------------------------------------------------------------------------------- statistics */

/* Statistics of one family. One object: release it with tidesdb_free_stats. What was written counts
   from the opening on. */
typedef struct tidesdb_stats_t
{
    int num_levels;           /* length of the arrays; at least min_levels */
    size_t memtable_size;     /* bytes of memory, what waits to be flushed included */
    size_t *level_sizes;      /* bytes of tables */
    int *level_num_sstables;
    tidesdb_column_family_config_t *config;
    uint64_t total_keys;      /* of memtables and all tables: a key counts wherever it is */
    uint64_t total_data_size; /* bytes of tables and value logs; 0 while there is no table */
    double avg_key_size;      /* estimates: three tenths of what tables and memtables take, */
    double avg_value_size;    /* and the rest with the value logs; 0 without keys */
    uint64_t *level_key_counts; /* entries, tombstones included */
    double read_amp;          /* places where a get without filters searches */
    double hit_rate;          /* of the block cache, from 0 to 1; all families share it */
    int use_btree;
    uint64_t btree_total_nodes; /* this and the heights: 0 unless tables are B+trees */
    uint32_t btree_max_height;
    double btree_avg_height;
    uint64_t total_tombstones;  /* in tables */
    double tombstone_ratio;     /* to total_keys */
    uint64_t *level_tombstone_counts;
    double max_sst_density;     /* largest share of tombstones in a table */
    int max_sst_density_level;  /* where that is, from 1; 0: nowhere */
    uint64_t wal_bytes_written; /* 0 with a unified memtable */
    uint64_t flush_bytes_written;
    uint64_t compaction_bytes_written;
    uint64_t compaction_bytes_read;
    uint64_t user_bytes_written; /* keys and values of committed operations */
    uint64_t flush_count;        /* tables that flushes have written */
    uint64_t compaction_count;   /* tables that compactions have written */
} tidesdb_stats_t;

/* Statistics of the block cache. All zero when there is none. */
typedef struct tidesdb_cache_stats_t
{
    int enabled;
    size_t total_entries;
    size_t total_bytes;
    uint64_t hits;
    uint64_t misses;
    double hit_rate;
    size_t num_partitions;
} tidesdb_cache_stats_t;

/* Statistics of a database. */
typedef struct tidesdb_db_stats_t
{
    int num_column_families;
    uint64_t total_memory;        /* bytes of the machine, or of its control group */
    uint64_t available_memory;    /* bytes of the machine that were available at the opening */
    size_t resolved_memory_limit; /* bytes: max_memory_usage as it is in force */
    int memory_pressure_level; /* 0 normal, 1 elevated, 2 high, 3 critical */
    int flush_pending_count;      /* frozen memtables, or families that are flushed, if these
                                     are more */
    int64_t total_memtable_bytes; /* bytes of active and frozen memtables */
    int total_immutable_count;    /* frozen memtables */
    int total_sstable_count;
    uint64_t total_data_size_bytes; /* sum of total_data_size */
    int num_open_sstables;
    uint64_t global_seq;          /* position up to which all commits are visible; at least 1 */
    int64_t txn_memory_bytes;     /* bytes of open transactions */
    size_t compaction_queue_size; /* families with a compaction that is queued or running */
    size_t flush_queue_size;      /* as total_immutable_count */
    int unified_memtable_enabled; /* as configured. Of the next five all but unified_next_cf_index,
                                     the number of families, are 0 without it */
    int64_t unified_memtable_bytes;  /* as total_memtable_bytes, without frozen ones */
    int unified_immutable_count;     /* as total_immutable_count */
    int unified_is_flushing;         /* 1 while a family is flushed */
    uint32_t unified_next_cf_index;
    uint64_t unified_wal_generation; /* grows by one when a memtable is frozen */
    int object_store_enabled;     /* this and all to seen_epoch: 0 or NULL, as there is no object
                                     store */
    const char *object_store_connector; /* "fs", "s3", "unknown" or NULL; static */
    size_t local_cache_bytes_used;
    size_t local_cache_bytes_max;
    int local_cache_num_files;
    uint64_t last_uploaded_generation;
    size_t upload_queue_depth;
    uint64_t total_uploads;
    uint64_t total_upload_failures;
    int replica_mode;
    uint64_t primary_epoch;
    uint64_t seen_epoch;
    uint64_t uwal_bytes_written;  /* bytes of log with a unified memtable, otherwise 0: records,
                                     and values of 1 MiB and more, which go to value logs. This
                                     and the following count from the opening on */
    uint64_t wal_bytes_written;   /* the same without a unified memtable, otherwise 0 */
    uint64_t flush_bytes_written;
    uint64_t compaction_bytes_written;
    uint64_t compaction_bytes_read;
    uint64_t user_bytes_written;  /* keys and values of committed operations */
    uint64_t flush_count;         /* tables that flushes have written */
    uint64_t compaction_count;    /* tables that compactions have written */
} tidesdb_db_stats_t;

/* ----------------------------------------------------------------------------------- process */

/* Installs the allocator of everything that is handed out; NULL takes that of the C library for
   the function concerned. Memory inside of the engine stays with the engine's own allocator. The
   library itself does not call realloc_fn: nothing that is handed out changes its size. Like malloc
   the functions align to 16 bytes and are called by several threads at once. Call it before the
   first tidesdb_open and before connectors are made, and beside no other call. Returns 0, or -1
   when an allocator is in use already: one was installed, or a database was opened. */
int tidesdb_init(tidesdb_malloc_fn malloc_fn, tidesdb_calloc_fn calloc_fn,
                 tidesdb_realloc_fn realloc_fn, tidesdb_free_fn free_fn);

/* Goes back to the allocator of the C library; another tidesdb_init is possible then. Call it when
   every database is closed and all that was handed out is freed, beside no other call: what is left
   would go to the wrong free. */
void tidesdb_finalize(void);

/* Releases what a function of this interface handed out. NULL is allowed. */
void tidesdb_free(void *ptr);

/* Raises the soft limit of descriptors towards the hard one, never lowers it, and returns the
   limit in force. 0 or less only asks. */
long tidesdb_raise_open_file_limit(long desired);

/* The defaults of a database and of a family. */
tidesdb_config_t tidesdb_default_config(void);
tidesdb_column_family_config_t tidesdb_default_column_family_config(void);

/* ---------------------------------------------------------------------------------- database */

/* Opens the database in config->db_path, or creates it (one directory level, mode 0755). On an
   error *db is NULL, and the log says why.
   TDB_ERR_LOCKED: it is open in this or another process.
   TDB_ERR_IO: the directory or a file can't be created, read or written; an internal error.
   TDB_ERR_CORRUPTION: the directory holds something else, another engine's files for example, or a
   damaged database. Nothing was changed, unless the log says otherwise. The lost+found of a volume
   does not count. A database
   whose manifest is destroyed, with nothing of others in its directory, is repaired instead. A new
   one of everything that can be read takes its place, and the old one is kept beside it as
   DIRECTORY.damaged. All that is lost is written to the log as errors. Families have the names and
   options that their newest tables have then: a later rename is lost, and options set with
   persist_to_disk 0 may have come back.
   TDB_ERR_INVALID_ARGS: an option is out of range, or there is an object store.
   TDB_ERR_MEMORY: no memory for the handle, or no path was given. */
int tidesdb_open(const tidesdb_config_t *config, tidesdb_t **db);

/* Writes what is in memory to tables, ends the background work, and frees the handle. Compactions
   that run are finished when finish_compactions_on_close is 1, unless they get nowhere; otherwise
   they are stopped, which loses nothing. Queued compactions do not start. Free iterators and
   transactions first; those that are left can be freed later, and nothing else. No call of another
   thread may be under way with this handle or one of its families, or begin: the handle is gone at
   the end. Those that begin while this waits find the database closed (TDB_ERR_INVALID_DB), which
   helps to find the mistake and is not to be relied on. Returns TDB_SUCCESS also when the last
   flush fails: the handle is freed, the failure is in the log, and the next tidesdb_open reads from
   the log what was not flushed.
   TDB_ERR_INVALID_ARGS: db is NULL.
   TDB_ERR_INVALID_DB: another thread closes it. */
int tidesdb_close(tidesdb_t *db);

/* Copies the database into dir, which must be empty or absent, while reads and writes continue.
   The copy opens as a database that holds at least what was committed before the call.
   TDB_ERR_INVALID_ARGS: dir is the database's own directory, or below it, or a file.
   One directory level is created.
   TDB_ERR_EXISTS: it is not empty.
   TDB_ERR_LOCKED: another process uses it.
   TDB_ERR_BUSY: flushes or compactions that it waits for get nowhere.
   TDB_ERR_IO: it can't be made or written; nothing is left of the copy. */
int tidesdb_backup(tidesdb_t *db, char *dir);

/* As tidesdb_backup, with hard links to tables where the file system can. */
int tidesdb_checkpoint(tidesdb_t *db, const char *checkpoint_dir);

/* Flushes and compacts every family and waits until nothing is queued. After
   tidesdb_cancel_background_work this and the other functions that compact return TDB_SUCCESS
   without having compacted. Errors as tidesdb_compact, of the first family that has one; the others
   are compacted all the same. */
int tidesdb_purge(tidesdb_t *db);

/* Stops compactions until the database is opened again. Flushes continue, and so do reads and
   writes; the more tables there are, the slower writes become. Waits until those that run have
   ended.
   TDB_ERR_BUSY: they have not within 30 seconds. They are stopped all the same. */
int tidesdb_cancel_background_work(tidesdb_t *db);

/* Statistics of the whole database and of its block cache, into structures of the caller's. */
int tidesdb_get_db_stats(tidesdb_t *db, tidesdb_db_stats_t *stats);
int tidesdb_get_cache_stats(tidesdb_t *db, tidesdb_cache_stats_t *stats);

/* Makes a replica the primary. TDB_ERR_INVALID_ARGS: it is no replica, as no database is in this
   version. */
int tidesdb_promote_to_primary(tidesdb_t *db);

/* Makes a key order known under a name, for families that are created with it or that were: until
   then tidesdb_get_column_family returns NULL for those, and all that is in them is kept.
   TDB_ERR_INVALID_ARGS: the name is taken, by a built-in order for one, empty, or too long.

   The function is called on any thread that uses the family. Its keys are held in memory, next to
   the cache: tidesdb_get_column_family reads them, and the first positioning of an iterator sorts
   those that it sees, after which each step looks one key up. A key that is written again in other
   bytes keeps the bytes that it was first written in. Positioning an iterator counts as reading
   every key. The built-in orders cost nothing of that, and show the bytes that were written last.
   ctx_str is not used: the one that is stored with a family is that of its options. */
int tidesdb_register_comparator(tidesdb_t *db, const char *name, tidesdb_comparator_fn fn,
                                const char *ctx_str, void *ctx);

/* Looks up a key order by name. fn and ctx may be NULL. */
int tidesdb_get_comparator(tidesdb_t *db, const char *name, tidesdb_comparator_fn *fn, void **ctx);

/* --------------------------------------------------------------------------- column families */

/* Creates a family. Its name has 1 to 127 bytes of UTF-8, without control characters, and nothing
   that could be a path: no slash of either kind, not "." and not "..". The options are copied and
   stored.
   TDB_ERR_EXISTS: the name is taken.
   TDB_ERR_INVALID_ARGS: a name, codec or sync mode that is none, TDB_SYNC_INTERVAL with an interval
   of 0, min_levels above 32, a write_buffer_size of more than half of the memory limit, or another
   order than memcmp with unified_memtable.
   TDB_ERR_TOO_LARGE: there are 1,048,576 families.
   TDB_ERR_NOT_FOUND: no key order of this name is registered. */
int tidesdb_create_column_family(tidesdb_t *db, const char *name,
                                 const tidesdb_column_family_config_t *config);

/* Removes a family and its data. Its handle is not to be used any more; free its iterators first.
   Calls with it may be under way in other threads: they end as always, or return TDB_ERR_NOT_FOUND,
   and so does a commit to it. A call that comes too late returns that as well: the memory of the
   handle is kept until 256 more families were dropped and a minute has passed, or 4096 more were
   dropped, or the database is closed.
   TDB_ERR_NOT_FOUND: there is none. */
int tidesdb_drop_column_family(tidesdb_t *db, const char *name);

/* As tidesdb_drop_column_family, by handle. TDB_ERR_NOT_FOUND: it was dropped before, of which the
   handle must still be one that is kept: see there. */
int tidesdb_delete_column_family(tidesdb_t *db, tidesdb_column_family_t *cf);

/* Gives a family another name. Handles stay valid. Two equal names are TDB_SUCCESS, also where
   there is no such family.
   TDB_ERR_NOT_FOUND: there is no family of the old name.
   TDB_ERR_EXISTS: the new one is taken. */
int tidesdb_rename_column_family(tidesdb_t *db, const char *old_name, const char *new_name);

/* Makes an independent copy of a family as it is now, with its options but its commit hook.
   TDB_ERR_INVALID_ARGS: both names are the same.
   TDB_ERR_EXISTS: the name of the copy is taken; asked before the source.
   TDB_ERR_NOT_FOUND: there is no source. */
int tidesdb_clone_column_family(tidesdb_t *db, const char *src_name, const char *dst_name);

/* The handle of a family, which belongs to the database; NULL when there is none of this name.
   So it is when the database is being closed, without memory, and when the keys of a family in an
   order of the program's can't be read; the log says which. */
tidesdb_column_family_t *tidesdb_get_column_family(tidesdb_t *db, const char *name);

/* The names of all families: an array of strings, each to be freed, and the array as well. Without
   any, *names is NULL and *count 0. */
int tidesdb_list_column_families(tidesdb_t *db, char ***names, int *count);

/* Takes over all options but name, comparator_*, use_btree and object_*, which stay as they are.
   Existing tables keep the form that they have. A NULL hook removes the hook. With persist_to_disk
   0 they are in force until the database is closed or its process ends, and the next opening finds
   those that were stored last; otherwise all of them are stored. Where TDB_SYNC_INTERVAL comes with
   an interval of 0 the family keeps its own, and more than 32 min_levels are 32.
   TDB_ERR_INVALID_ARGS: an unknown codec or sync mode. */
int tidesdb_cf_update_runtime_config(tidesdb_column_family_t *cf,
                                     const tidesdb_column_family_config_t *new_config,
                                     int persist_to_disk);

/* Reads the options in a section of an INI file. The whole structure is written: an option that is
   not in the section gets its default, and the hook is NULL.
   TDB_ERR_IO: the file can't be read.
   TDB_ERR_CORRUPTION: it can't be parsed, or has a value that is none of the option's. */
int tidesdb_cf_config_load_from_ini(const char *ini_file, const char *section_name,
                                    tidesdb_column_family_config_t *config);

/* Replaces an INI file by one section with these options, as a whole or not at all. Where the file
   is a link, that to which it leads is replaced; permissions stay. A device or a pipe is written
   to.
   TDB_ERR_IO: it can't be written.
   TDB_ERR_INVALID_ARGS: the name of the section or a text has control characters. */
int tidesdb_cf_config_save_to_ini(const char *ini_file, const char *section_name,
                                  const tidesdb_column_family_config_t *config);

/* Sets the commit hook of a family; NULL removes it. Commits that begin later do not call the one
   before. Those under way in other threads may, and this does not wait for them: what ctx points at
   must be there until they have returned. The same holds when a family is dropped. */
int tidesdb_cf_set_commit_hook(tidesdb_column_family_t *cf, tidesdb_commit_hook_fn fn, void *ctx);

/* Statistics of a family, in a new object that tidesdb_free_stats releases. */
int tidesdb_get_stats(tidesdb_column_family_t *cf, tidesdb_stats_t **stats);
void tidesdb_free_stats(tidesdb_stats_t *stats);

/* Estimates the number of distinct keys. */
int tidesdb_cf_estimate_cardinality(tidesdb_column_family_t *cf, uint64_t *out_estimate);

/* Estimates what reading the keys between two bounds costs, without reading. A number without a
   unit, to be compared with others of the same family. The bounds may come in any order. In an
   order that the program registers every range costs the same. */
int tidesdb_range_cost(tidesdb_column_family_t *cf, const uint8_t *key_a, size_t key_a_size,
                       const uint8_t *key_b, size_t key_b_size, double *cost);

/* Freezes the memtable and has it written in the background; with unified_memtable those of all
   families. */
int tidesdb_flush_memtable(tidesdb_column_family_t *cf);

/* Flushes and compacts the whole family, and waits.
   TDB_ERR_CORRUPTION: a table can't be read, which each such call returns; all above it is
   compacted.
   TDB_ERR_BUSY: flushes, or compactions that it waits for, have got nowhere for 10 seconds.
   TDB_ERR_IO: a file can't be written or read.
   TDB_ERR_NOT_FOUND: the family was dropped. */
int tidesdb_compact(tidesdb_column_family_t *cf);

/* Flushes and compacts the tables that overlap [start, end), and waits. One bound may be NULL. It
   costs as much as these tables have, however large the family is; where the oldest of them come
   from flushes, as much as everything has that is as new.
   TDB_ERR_LOCKED: another one of the family was under way for a second; nothing was compacted.
   Other errors as tidesdb_compact. */
int tidesdb_compact_range(tidesdb_column_family_t *cf, const uint8_t *start_key,
                          size_t start_key_size, const uint8_t *end_key, size_t end_key_size);

/* Flushes and compacts the family and waits until nothing of it is queued. */
int tidesdb_purge_cf(tidesdb_column_family_t *cf);

/* 1 while work of the kind is queued or under way, otherwise 0. */
int tidesdb_is_flushing(tidesdb_column_family_t *cf);
int tidesdb_is_compacting(tidesdb_column_family_t *cf);

/* Returns when everything that was committed so far, to any family, is on disk.
   TDB_ERR_IO: the log can neither be synced nor repaired. */
int tidesdb_sync_wal(tidesdb_column_family_t *cf);

/* -------------------------------------------------------------------------------- transactions */

/* Begins a transaction at TDB_ISOLATION_READ_COMMITTED. */
int tidesdb_txn_begin(tidesdb_t *db, tidesdb_txn_t **txn);
int tidesdb_txn_begin_with_isolation(tidesdb_t *db, tidesdb_isolation_level_t isolation,
                                     tidesdb_txn_t **txn);

/* Buffers a put; key and value are copied. ttl is the time of expiry in Unix seconds; 0 or less
   means never. The value may be empty, its pointer not NULL.
   TDB_ERR_TOO_LARGE: the key has more than 65,535 bytes, or the transaction would hold more than 1
   GiB, values of 1 MiB and more aside.
   TDB_ERR_MEMORY_LIMIT: key and value have more than 1 MiB and take more than three quarters of the
   memory limit.
   TDB_ERR_INVALID_ARGS: also for a transaction that is committed or rolled back, and for a value of
   4 GiB and more. */
int tidesdb_txn_put(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const uint8_t *key,
                    size_t key_size, const uint8_t *value, size_t value_size, time_t ttl);

/* Reads a key, the transaction's own writes first. *value is a new buffer of the caller's, also
   for an empty value. TDB_ERR_NOT_FOUND: there is no such key, or it has expired. */
int tidesdb_txn_get(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const uint8_t *key,
                    size_t key_size, uint8_t **value, size_t *value_size);

/* As tidesdb_txn_get, but the key does not become part of the read set: the commit does not check
   it. */
int tidesdb_txn_get_notrack(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const uint8_t *key,
                            size_t key_size, uint8_t **value, size_t *value_size);

/* TDB_SUCCESS or TDB_ERR_NOT_FOUND. The key does not become part of the read set: the commit does
   not check it. */
int tidesdb_txn_contains(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const uint8_t *key,
                         size_t key_size);

/* Buffers a deletion; the key need not be there. */
int tidesdb_txn_delete(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const uint8_t *key,
                       size_t key_size);

/* As delete, for a key that was put at most once since it was last deleted. */
int tidesdb_txn_single_delete(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const uint8_t *key,
                              size_t key_size);

/* Makes the buffered operations visible, all or nothing. After an error other than TDB_ERR_IO
   nothing has changed and the transaction is as it was: commit again, roll back, or free it.
   TDB_ERR_CONFLICT: another transaction was quicker; roll back and begin again.
   TDB_ERR_BUSY: writers are held back, and nothing moved for 10 seconds, or there is no room on the
   disk or no descriptor for a file; try again, which works once there is one.
   TDB_ERR_NOT_FOUND: a family was dropped meanwhile.
   TDB_ERR_IO: the log can't be written or synced. In sync mode FULL the operations may be visible
   all the same, and lost with the power: rolling back does not undo them. Such a transaction can be
   committed again, rolled back or freed; reads and writes of it return TDB_ERR_INVALID_ARGS, as
   what is visible gets no further operations. */
int tidesdb_txn_commit(tidesdb_txn_t *txn);

/* Discards what is buffered. Returns TDB_SUCCESS for a transaction that was rolled back, and
   TDB_ERR_INVALID_ARGS for one that was committed.
   TDB_ERR_IO: a commit had failed with its operations visible, and they stay; see
   tidesdb_txn_commit. The transaction has ended all the same. */
int tidesdb_txn_rollback(tidesdb_txn_t *txn);

/* Begins again after a commit or rollback, with a new snapshot. TDB_ERR_INVALID_ARGS: the
   transaction is active. */
int tidesdb_txn_reset(tidesdb_txn_t *txn, tidesdb_isolation_level_t isolation);

/* Frees a transaction in any state; what it had not committed is dropped. NULL is allowed. */
void tidesdb_txn_free(tidesdb_txn_t *txn);

/* Marks the buffered operations so far. A name that is in use is moved. A commit, a rollback and a
   reset end all savepoints. */
int tidesdb_txn_savepoint(tidesdb_txn_t *txn, const char *name);

/* Drops the operations since the savepoint, the savepoint itself and all later ones.
   TDB_ERR_NOT_FOUND: there is none of this name.
   TDB_ERR_INVALID_ARGS: there is none at all. */
int tidesdb_txn_rollback_to_savepoint(tidesdb_txn_t *txn, const char *name);

/* Forgets a savepoint; operations and other savepoints stay. Errors as above. */
int tidesdb_txn_release_savepoint(tidesdb_txn_t *txn, const char *name);

/* ---------------------------------------------------------------------------------- iterators */

/* An iterator over a family, not positioned. It shows the transaction's writes so far, and may be
   used after the transaction was committed or rolled back. Free it before its transaction is freed
   or reset. On an error *iter is NULL.
   TDB_ERR_INVALID_ARGS: also for a transaction that is committed or rolled back.

   What moves an iterator, and what reads its value, may also return TDB_ERR_IO, TDB_ERR_CORRUPTION
   or TDB_ERR_BUSY (no descriptor for a file). After a movement that failed it stands on no entry
   until it is positioned again. */
int tidesdb_iter_new(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, tidesdb_iter_t **iter);

/* To the first key at or after the one given; TDB_ERR_NOT_FOUND when there is none. */
int tidesdb_iter_seek(tidesdb_iter_t *iter, const uint8_t *key, size_t key_size);

/* To the last key at or before the one given; TDB_ERR_NOT_FOUND when there is none. */
int tidesdb_iter_seek_for_prev(tidesdb_iter_t *iter, const uint8_t *key, size_t key_size);

/* To the first or the last key; TDB_ERR_NOT_FOUND when nothing is visible. */
int tidesdb_iter_seek_to_first(tidesdb_iter_t *iter);
int tidesdb_iter_seek_to_last(tidesdb_iter_t *iter);

/* One step. TDB_ERR_NOT_FOUND past the end; TDB_ERR_INVALID_ARGS when not on an entry. */
int tidesdb_iter_next(tidesdb_iter_t *iter);
int tidesdb_iter_prev(tidesdb_iter_t *iter);

/* 1 while on an entry, otherwise 0. */
int tidesdb_iter_valid(tidesdb_iter_t *iter);

/* Key and value of the entry. They belong to the iterator and live until it moves. */
int tidesdb_iter_key(tidesdb_iter_t *iter, uint8_t **key, size_t *key_size);
int tidesdb_iter_value(tidesdb_iter_t *iter, uint8_t **value, size_t *value_size);
int tidesdb_iter_key_value(tidesdb_iter_t *iter, uint8_t **key, size_t *key_size, uint8_t **value,
                           size_t *value_size);

/* Frees an iterator. NULL is allowed. */
void tidesdb_iter_free(tidesdb_iter_t *iter);

/* -------------------------------------------------------------------------------- comparators */

/* "memcmp", the default: bytes, then the shorter key first. */
int tidesdb_comparator_memcmp(const uint8_t *key1, size_t key1_size, const uint8_t *key2,
                              size_t key2_size, void *ctx);

/* "lexicographic": keys as C strings with a terminating NUL; sizes are not looked at. */
int tidesdb_comparator_lexicographic(const uint8_t *key1, size_t key1_size, const uint8_t *key2,
                                     size_t key2_size, void *ctx);

/* "uint64": integers of 8 bytes in the machine's byte order. Keys of other lengths come behind all
   integers, as memcmp has them; with memcmp between the two kinds it would be no order. */
int tidesdb_comparator_uint64(const uint8_t *key1, size_t key1_size, const uint8_t *key2,
                              size_t key2_size, void *ctx);

/* "int64": as uint64, signed. */
int tidesdb_comparator_int64(const uint8_t *key1, size_t key1_size, const uint8_t *key2,
                             size_t key2_size, void *ctx);

/* "reverse": the opposite of memcmp. */
int tidesdb_comparator_reverse_memcmp(const uint8_t *key1, size_t key1_size, const uint8_t *key2,
                                      size_t key2_size, void *ctx);

/* "case_insensitive": as memcmp with ASCII letters in lower case. */
int tidesdb_comparator_case_insensitive(const uint8_t *key1, size_t key1_size, const uint8_t *key2,
                                        size_t key2_size, void *ctx);

#ifdef __cplusplus
}
#endif

#endif /* __TIDESDB_DB_H__ */
