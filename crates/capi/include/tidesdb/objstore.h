/*
 * TidesDB: object stores. The interface that a connector implements, and the connector to a
 * directory.
 */
#ifndef __OBJSTORE_H__
#define __OBJSTORE_H__

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C"
{
#endif

/* A conditional write lost against another writer. */
#ifndef TDB_ERR_PRECONDITION
#define TDB_ERR_PRECONDITION -15
#endif

/* Bytes of an entity tag, the terminating NUL included. */
#define TDB_OBJSTORE_ETAG_MAX 128

/* When a conditional put takes place: always, if there is no object, if it has the expected tag. */
typedef enum
{
    TDB_PUT_OVERWRITE = 0,
    TDB_PUT_IF_NONE_MATCH = 1,
    TDB_PUT_IF_MATCH = 2
} tidesdb_put_cond_t;

/* db.h declares the same names; whichever header comes first defines them. */
#ifndef __TIDESDB_DB_H__

typedef enum
{
    TDB_BACKEND_FS = 0,
    TDB_BACKEND_S3 = 1,
    TDB_BACKEND_UNKNOWN = 99
} tidesdb_objstore_backend_t;

typedef struct tidesdb_objstore_t tidesdb_objstore_t;

/* Options of object store mode. tidesdb_open refuses a database with an object store with
   TDB_ERR_INVALID_ARGS: this version does not support them. */
typedef struct
{
    const char *local_cache_path;    /* NULL: the database's directory */
    size_t local_cache_max_bytes;    /* 0: no bound */
    int cache_on_read;               /* default 1 */
    int cache_on_write;              /* default 1 */
    int max_concurrent_uploads;      /* default 4 */
    int max_concurrent_downloads;    /* default 8 */
    size_t multipart_threshold;      /* bytes, default 64 MiB */
    size_t multipart_part_size;      /* bytes, default 8 MiB */
    int sync_manifest_to_object;     /* default 1 */
    int replicate_wal;               /* default 1 */
    int wal_upload_sync;             /* default 0 */
    size_t wal_sync_threshold_bytes; /* bytes, default 1 MiB; 0: off */
    int wal_sync_on_commit;          /* default 0 */
    int replica_mode;                /* 1: read-only */
    uint64_t replica_sync_interval_us; /* default 5000000 */
    int replica_replay_wal;          /* default 1 */
} tidesdb_objstore_config_t;

/* The defaults of object store mode. */
tidesdb_objstore_config_t tidesdb_objstore_default_config(void);

/* A connector whose objects are files below root_dir, which is made if it is missing (one level).
   NULL for a NULL path, when the directory can't be made, or without memory. */
tidesdb_objstore_t *tidesdb_objstore_fs_create(const char *root_dir);

#endif /* __TIDESDB_DB_H__ */

/* A connector. All functions may be called from any number of threads; ctx is their first
   argument. Keys are relative paths with '/'. Both the connector and this struct belong to the
   caller, who calls destroy and then tidesdb_free: no database can be opened with one in this
   version. */
struct tidesdb_objstore_t
{
    /* Which kind of store this is. */
    tidesdb_objstore_backend_t backend;

    /* Uploads a whole file in place of the object. 0 or -1. */
    int (*put)(void *ctx, const char *key, const char *local_path);

    /* Downloads an object and makes the directories above local_path. 0, or -1, also if absent. */
    int (*get)(void *ctx, const char *key, const char *local_path);

    /* Reads a piece of an object. Bytes read, fewer at its end, or -1. */
    ssize_t (*range_get)(void *ctx, const char *key, uint64_t offset, void *buf, size_t size);

    /* Removes an object. 0, also if absent, or -1. */
    int (*delete_object)(void *ctx, const char *key);

    /* 1, 0 or -1. size_out may be NULL. */
    int (*exists)(void *ctx, const char *key, size_t *size_out);

    /* Calls cb for each object whose key begins with the bytes of prefix. Their number, or -1. */
    int (*list)(void *ctx, const char *prefix,
                void (*cb)(const char *key, size_t size, void *cb_ctx), void *cb_ctx);

    /* Uploads under a condition. 0, TDB_ERR_PRECONDITION or -1. meta_epoch other than 0 is stored
       with the object; max_bytes other than 0 uploads that many leading bytes. May be NULL. */
    int (*put_if)(void *ctx, const char *key, const char *local_path, tidesdb_put_cond_t cond,
                  const char *expected_etag, uint64_t meta_epoch, char *etag_out,
                  size_t etag_out_sz, size_t max_bytes);

    /* Entity tag and epoch of an object: "" and 0 where there are none. 1, 0 or -1. May be NULL. */
    int (*head)(void *ctx, const char *key, char *etag_out, size_t etag_out_sz,
                uint64_t *meta_epoch_out);

    /* Frees ctx. */
    void (*destroy)(void *ctx);

    void *ctx;
};

/* "fs", "s3", or "unknown". */
static inline const char *tidesdb_objstore_backend_name(tidesdb_objstore_backend_t backend)
{
    switch (backend)
    {
        case TDB_BACKEND_FS:
            return "fs";
        case TDB_BACKEND_S3:
            return "s3";
        default:
            return "unknown";
    }
}

#ifdef __cplusplus
}
#endif

#ifdef TIDESDB_WITH_S3
#include "objstore_s3.h"
#endif

#endif /* __OBJSTORE_H__ */
