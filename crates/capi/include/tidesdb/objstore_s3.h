/*
 * TidesDB: connectors to S3. Part of a library that is built with S3 support; without it the two
 * functions are declared and not defined.
 */
#ifndef __OBJSTORE_S3_H__
#define __OBJSTORE_S3_H__

#include "objstore.h"

#ifdef __cplusplus
extern "C"
{
#endif

/* db.h declares the same names; whichever header comes first defines them. */
#ifndef __TIDESDB_DB_H__

/* Where an S3 bucket is and how to reach it. Strings are copied. */
typedef struct
{
    const char *endpoint;   /* host or host:port; required */
    const char *bucket;     /* required */
    const char *prefix;     /* put in front of every key; NULL: nothing */
    const char *access_key; /* required */
    const char *secret_key; /* required */
    const char *region;     /* NULL: "us-east-1" */
    int use_ssl;            /* 1: https */
    int use_path_style;     /* 1: bucket in the path, 0: in the host name */
    const char *tls_ca_path;      /* NULL: the system's certificates */
    int tls_insecure_skip_verify; /* 1: certificates are not checked */
    size_t multipart_threshold;   /* bytes; 0: 64 MiB */
    size_t multipart_part_size;   /* bytes; 0: 8 MiB */
} tidesdb_objstore_s3_config_t;

tidesdb_objstore_t *tidesdb_objstore_s3_create(const char *endpoint, const char *bucket,
                                               const char *prefix, const char *access_key,
                                               const char *secret_key, const char *region,
                                               int use_ssl, int use_path_style);
tidesdb_objstore_t *tidesdb_objstore_s3_create_config(const tidesdb_objstore_s3_config_t *config);

#endif /* __TIDESDB_DB_H__ */

#ifdef __cplusplus
}
#endif

#endif /* __OBJSTORE_S3_H__ */
