/* The connector to a directory, by its functions. The argument is an empty directory. */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

static void write_file(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");
    CHECK(out != NULL && fputs(text, out) >= 0 && fclose(out) == 0);
}

static int reads(const char *path, const char *expected)
{
    char text[64];
    size_t size;
    FILE *in = fopen(path, "r");
    if (in == NULL) return 0;
    size = fread(text, 1, sizeof text - 1, in);
    fclose(in);
    text[size] = 0;
    return strcmp(text, expected) == 0;
}

static void functions(const char *directory)
{
    char root[4096], file[4096], copy[4096], text[16], tag[TDB_OBJSTORE_ETAG_MAX];
    tidesdb_objstore_t *store;
    size_t size = 0;
    uint64_t epoch = 0;

    snprintf(root, sizeof root, "%s/store", directory);
    snprintf(file, sizeof file, "%s/object", directory);
    snprintf(copy, sizeof copy, "%s/deep/copy", directory);
    CHECK(tidesdb_objstore_fs_create(NULL) == NULL);
    store = tidesdb_objstore_fs_create(root);
    CHECK(store != NULL && strcmp(tidesdb_objstore_backend_name(store->backend), "fs") == 0);
    write_file(file, "0123456789");
    CHECK(store->put(store->ctx, "cf/MANIFEST", "/nowhere") == -1);
    CHECK(store->put(store->ctx, "../escape", file) == -1);
    CHECK(store->put(store->ctx, "cf/MANIFEST", file) == 0);
    CHECK(store->exists(store->ctx, "cf/MANIFEST", &size) == 1 && size == 10);
    CHECK(store->range_get(store->ctx, "cf/MANIFEST", 8, text, 5) == 2);
    CHECK(memcmp(text, "89", 2) == 0);
    CHECK(store->get(store->ctx, "cf/MANIFEST", copy) == 0);
    CHECK(store->get(store->ctx, "absent", copy) == -1);
    CHECK(store->put_if(store->ctx, "lease", file, TDB_PUT_IF_NONE_MATCH, NULL, 4, tag, sizeof tag,
                        3) == 0);
    CHECK(store->exists(store->ctx, "lease", &size) == 1 && size == 3);
    CHECK(store->put_if(store->ctx, "lease", file, TDB_PUT_IF_NONE_MATCH, NULL, 0, NULL, 0, 0) ==
          TDB_ERR_PRECONDITION);
    CHECK(store->put_if(store->ctx, "lease", file, TDB_PUT_IF_MATCH, "other", 0, NULL, 0, 0) ==
          TDB_ERR_PRECONDITION);
    CHECK(store->head(store->ctx, "lease", NULL, 0, &epoch) == 1 && epoch == 4);
    CHECK(store->put_if(store->ctx, "lease", file, TDB_PUT_IF_MATCH, tag, 5, NULL, 0, 0) == 0);
    CHECK(store->list(store->ctx, "", NULL, NULL) == -1);
    CHECK(store->delete_object(store->ctx, "lease") == 0);
    CHECK(store->delete_object(store->ctx, "lease") == 0);
    CHECK(store->head(store->ctx, "lease", NULL, 0, NULL) == 0);
    store->destroy(store->ctx);
    tidesdb_free(store);
}

static void count_object(const char *key, size_t size, void *ctx)
{
    (void)size;
    CHECK(strstr(key, ".tdb_objmeta") == NULL);
    ++*(int *)ctx;
}

static int listed(tidesdb_objstore_t *store, const char *prefix)
{
    int seen = 0;
    const int answered = store->list(store->ctx, prefix, count_object, &seen);
    CHECK(answered == seen);
    return seen;
}

/* A prefix is one of bytes, which a key may go on behind within a name; overwriting changes the
   size, and deleting makes room for what is to be put only once. */
static void prefixes_and_sizes(const char *directory)
{
    static const char *const keys[] = {"uwal_1.log", "uwal_2.log", "uwal/x",
                                       "uw",         "cf/MANIFEST", "cf2/MANIFEST"};
    char root[2048], longer[4096], shorter[4096], text[16], first[128], second[128];
    tidesdb_objstore_t *store;
    uint64_t epoch = 9;
    size_t size = 0, n;

    snprintf(root, sizeof root, "%s/prefixes", directory);
    snprintf(longer, sizeof longer, "%s/longer", directory);
    snprintf(shorter, sizeof shorter, "%s/shorter", directory);
    write_file(longer, "0123456789");
    write_file(shorter, "abc");
    store = tidesdb_objstore_fs_create(root);
    CHECK(store != NULL);
    for (n = 0; n < sizeof keys / sizeof keys[0]; n++)
        CHECK(store->put(store->ctx, keys[n], longer) == 0);
    CHECK(listed(store, "") == 6 && listed(store, "uwal_") == 2 && listed(store, "uw") == 4);
    CHECK(listed(store, "uwal_1.log") == 1 && listed(store, "uwal/") == 1);
    CHECK(listed(store, "cf") == 2 && listed(store, "cf/") == 1 && listed(store, "cf/MAN") == 1);
    CHECK(listed(store, "cf3") == 0 && listed(store, "cf/MANIFEST/") == 0);

    CHECK(store->put(store->ctx, "uw", shorter) == 0);
    CHECK(store->exists(store->ctx, "uw", &size) == 1 && size == 3);
    CHECK(store->range_get(store->ctx, "uw", 0, text, sizeof text) == 3);
    CHECK(memcmp(text, "abc", 3) == 0 && listed(store, "uw") == 4);
    CHECK(store->put_if(store->ctx, "uw", longer, TDB_PUT_OVERWRITE, NULL, 3, first, sizeof first,
                        0) == 0);
    CHECK(store->exists(store->ctx, "uw", &size) == 1 && size == 10);

    CHECK(store->delete_object(store->ctx, "uw") == 0);
    CHECK(store->put_if(store->ctx, "uw", shorter, TDB_PUT_IF_MATCH, first, 0, NULL, 0, 0) ==
          TDB_ERR_PRECONDITION);
    CHECK(store->put_if(store->ctx, "uw", shorter, TDB_PUT_IF_NONE_MATCH, NULL, 0, second,
                        sizeof second, 0) == 0);
    CHECK(strcmp(first, second) != 0);
    CHECK(store->head(store->ctx, "uw", text, sizeof text, &epoch) == 1 && epoch == 0);
    CHECK(store->put_if(store->ctx, "uw", longer, TDB_PUT_IF_NONE_MATCH, NULL, 0, NULL, 0, 0) ==
          TDB_ERR_PRECONDITION);
    CHECK(store->exists(store->ctx, "uw", &size) == 1 && size == 3);
    store->destroy(store->ctx);
    tidesdb_free(store);
}

/* Keys whose path leads over a file, a folder or a link. */
static void paths(const char *directory)
{
    char root[2048], outside[2048], link_path[4096], file[4096], copy[4096], tag[128] = "x";
    tidesdb_objstore_t *store;
    size_t size = 7;
    uint64_t epoch = 9;

    snprintf(root, sizeof root, "%s/paths", directory);
    snprintf(outside, sizeof outside, "%s/outside", directory);
    snprintf(file, sizeof file, "%s/source", directory);
    snprintf(copy, sizeof copy, "%s/got", directory);
    write_file(file, "object");
    store = tidesdb_objstore_fs_create(root);
    CHECK(store != NULL);
    /* Below an object there is nothing. */
    CHECK(store->put(store->ctx, "a", file) == 0);
    CHECK(store->exists(store->ctx, "a/b", &size) == 0 && size == 7);
    CHECK(store->get(store->ctx, "a/b", copy) == -1);
    CHECK(store->delete_object(store->ctx, "a/b") == 0);
    CHECK(store->head(store->ctx, "a/b", tag, sizeof tag, &epoch) == 0);
    CHECK(strcmp(tag, "x") == 0 && epoch == 9);
    CHECK(store->put(store->ctx, "a/b", file) == -1);
    CHECK(store->exists(store->ctx, "a", NULL) == 1);
    /* A folder is no object, and goes with its last one. */
    CHECK(store->delete_object(store->ctx, "a") == 0);
    CHECK(store->put(store->ctx, "a/b/c", file) == 0 && store->put(store->ctx, "a/d", file) == 0);
    CHECK(store->exists(store->ctx, "a/b", NULL) == 0 && store->put(store->ctx, "a/b", file) == -1);
    CHECK(store->exists(store->ctx, "a/d", NULL) == 1);
    CHECK(store->exists(store->ctx, "a/./d", NULL) == -1);
    CHECK(store->put(store->ctx, "a/./d", file) == -1);
    CHECK(store->delete_object(store->ctx, "a/d/.") == -1);
    CHECK(store->delete_object(store->ctx, "a/b") == 0 && listed(store, "") == 2);
    CHECK(store->delete_object(store->ctx, "a/b/c") == 0 && listed(store, "") == 1);
    CHECK(store->put(store->ctx, "a/b", file) == 0 && listed(store, "") == 2);
    CHECK(store->delete_object(store->ctx, "a/b") == 0);
    CHECK(store->delete_object(store->ctx, "a/d") == 0 && listed(store, "") == 0);
    CHECK(store->put(store->ctx, "a", file) == 0);
    /* Links are not followed, to files or to folders, and are no objects. */
    CHECK(mkdir(outside, 0700) == 0);
    snprintf(link_path, sizeof link_path, "%s/folder", root);
    CHECK(symlink(outside, link_path) == 0);
    snprintf(link_path, sizeof link_path, "%s/link", root);
    CHECK(symlink(file, link_path) == 0);
    CHECK(store->put(store->ctx, "folder/x", file) == -1);
    CHECK(store->put(store->ctx, "link", file) == -1);
    CHECK(store->get(store->ctx, "link", copy) == -1);
    CHECK(store->range_get(store->ctx, "link", 0, tag, 4) == -1);
    CHECK(store->delete_object(store->ctx, "link") == -1);
    CHECK(store->exists(store->ctx, "folder/x", NULL) == -1);
    CHECK(reads(file, "object") && access(copy, F_OK) != 0 && listed(store, "") == 1);
    store->destroy(store->ctx);
    tidesdb_free(store);
}

/* Tags belong to the very file that is there. */
static void tags(const char *directory)
{
    char root[2048], file[4096], object[4096], one[128], two[128], now[128];
    tidesdb_objstore_t *store;
    uint64_t epoch = 0;

    snprintf(root, sizeof root, "%s/tags", directory);
    snprintf(file, sizeof file, "%s/tagged", directory);
    snprintf(object, sizeof object, "%s/key", root);
    write_file(file, "first");
    store = tidesdb_objstore_fs_create(root);
    CHECK(store != NULL);
    CHECK(store->put_if(store->ctx, "key", file, TDB_PUT_OVERWRITE, NULL, 5, one, sizeof one, 0) ==
          0);
    /* A put that fails half way leaves object, tag and epoch as they were. */
    CHECK(store->put_if(store->ctx, "key", directory, TDB_PUT_IF_MATCH, one, 6, two, sizeof two,
                        0) == -1);
    CHECK(store->head(store->ctx, "key", now, sizeof now, &epoch) == 1);
    CHECK(strcmp(now, one) == 0 && epoch == 5);
    CHECK(store->put_if(store->ctx, "key", file, TDB_PUT_IF_MATCH, one, 6, two, sizeof two, 0) ==
          0);
    CHECK(store->put_if(store->ctx, "key", file, TDB_PUT_IF_MATCH, one, 7, NULL, 0, 0) ==
          TDB_ERR_PRECONDITION);
    CHECK(store->head(store->ctx, "key", now, sizeof now, &epoch) == 1);
    CHECK(strcmp(now, two) == 0 && epoch == 6);
    /* What came by other means has none. */
    CHECK(unlink(object) == 0);
    write_file(object, "foreign");
    CHECK(store->head(store->ctx, "key", now, sizeof now, &epoch) == 1);
    CHECK(strcmp(now, "") == 0 && epoch == 0);
    CHECK(store->put_if(store->ctx, "key", file, TDB_PUT_IF_MATCH, two, 7, NULL, 0, 0) ==
          TDB_ERR_PRECONDITION);
    CHECK(reads(object, "foreign"));
    store->destroy(store->ctx);
    tidesdb_free(store);
}

#define ROUNDS 300

static char shared_root[2048], shared_files[2][4096];
static volatile int writing;

/* Puts one of two files, in turn, under a condition that only one thread at a time can meet. */
static void *put_in_turn(void *argument)
{
    tidesdb_objstore_t *store = tidesdb_objstore_fs_create(shared_root);
    int round, *won = argument;
    CHECK(store != NULL);
    for (round = 0; round < ROUNDS; round++)
    {
        char tag[128];
        uint64_t epoch = 0;
        int code;
        CHECK(store->head(store->ctx, "shared", tag, sizeof tag, &epoch) == 1);
        CHECK(tag[0] != 0 && epoch > 0);
        code = store->put_if(store->ctx, "shared", shared_files[epoch % 2], TDB_PUT_IF_MATCH, tag,
                             epoch + 1, NULL, 0, 0);
        CHECK(code == 0 || code == TDB_ERR_PRECONDITION);
        *won += code == 0;
    }
    store->destroy(store->ctx);
    tidesdb_free(store);
    return NULL;
}

/* Always sees one file or the other. */
static void *get_whole(void *argument)
{
    tidesdb_objstore_t *store = tidesdb_objstore_fs_create(shared_root);
    CHECK(store != NULL);
    while (writing)
    {
        char text[64];
        CHECK(store->get(store->ctx, "shared", argument) == 0);
        CHECK(reads(argument, "the first") || reads(argument, "and the second"));
        memset(text, 0, sizeof text);
        CHECK(store->range_get(store->ctx, "shared", 0, text, sizeof text) > 0);
        CHECK(strcmp(text, "the first") == 0 || strcmp(text, "and the second") == 0);
    }
    store->destroy(store->ctx);
    tidesdb_free(store);
    return NULL;
}

static void turns(const char *directory)
{
    tidesdb_objstore_t *store;
    pthread_t writers[2], reader;
    char got[4096];
    int won[2] = {0, 0}, n;
    uint64_t epoch = 0;

    snprintf(shared_root, sizeof shared_root, "%s/turns", directory);
    snprintf(got, sizeof got, "%s/read", directory);
    for (n = 0; n < 2; n++)
    {
        snprintf(shared_files[n], sizeof shared_files[n], "%s/turn%d", directory, n);
        write_file(shared_files[n], n == 0 ? "the first" : "and the second");
    }
    store = tidesdb_objstore_fs_create(shared_root);
    CHECK(store != NULL);
    CHECK(store->put_if(store->ctx, "shared", shared_files[0], TDB_PUT_IF_NONE_MATCH, NULL, 1, NULL,
                        0, 0) == 0);
    writing = 1;
    CHECK(pthread_create(&reader, NULL, get_whole, got) == 0);
    for (n = 0; n < 2; n++) CHECK(pthread_create(&writers[n], NULL, put_in_turn, &won[n]) == 0);
    for (n = 0; n < 2; n++) CHECK(pthread_join(writers[n], NULL) == 0);
    writing = 0;
    CHECK(pthread_join(reader, NULL) == 0);
    /* Each that was told that it won moved the epoch on by one. */
    CHECK(store->head(store->ctx, "shared", NULL, 0, &epoch) == 1);
    CHECK(epoch == 1 + (uint64_t)(won[0] + won[1]));
    CHECK(listed(store, "") == 1);
    store->destroy(store->ctx);
    tidesdb_free(store);
}

/* What a process that was killed has left goes; what one that lives is writing stays. */
static void left_over(const char *directory)
{
    char root[2048], dead[4096], alive[4096];
    tidesdb_objstore_t *store;
    int file;

    snprintf(root, sizeof root, "%s/left over", directory);
    store = tidesdb_objstore_fs_create(root);
    CHECK(store != NULL);
    store->destroy(store->ctx);
    tidesdb_free(store);
    snprintf(dead, sizeof dead, "%s/.tdb_objmeta/tmp-1-2-3", root);
    snprintf(alive, sizeof alive, "%s/.tdb_objmeta/tmp-4-5-6", root);
    write_file(dead, "dead");
    write_file(alive, "alive");
    file = open(alive, O_RDONLY);
    CHECK(file >= 0 && flock(file, LOCK_EX) == 0);
    store = tidesdb_objstore_fs_create(root);
    CHECK(store != NULL);
    CHECK(access(dead, F_OK) != 0 && reads(alive, "alive"));
    store->destroy(store->ctx);
    tidesdb_free(store);
    close(file);
    store = tidesdb_objstore_fs_create(root);
    CHECK(store != NULL);
    CHECK(access(alive, F_OK) != 0);
    store->destroy(store->ctx);
    tidesdb_free(store);
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    functions(arguments[1]);
    prefixes_and_sizes(arguments[1]);
    paths(arguments[1]);
    tags(arguments[1]);
    turns(arguments[1]);
    left_over(arguments[1]);
    puts("all checks hold");
    return 0;
}
