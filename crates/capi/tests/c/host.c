/* Loads a shared object while it runs, and calls it. The arguments are the object, and a directory
   that is not there. */
#include <dlfcn.h>

#include "check.h"

int main(int count, char **arguments)
{
    int (*use)(char *path) = NULL;
    void *plugin, *found;

    CHECK(count == 3);
    /* The program does not have the library itself. */
    CHECK(dlsym(RTLD_DEFAULT, "tidesdb_open") == NULL);
    plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL) fprintf(stderr, "%s\n", dlerror());
    CHECK(plugin != NULL);
    found = dlsym(plugin, "use_database");
    CHECK(found != NULL);
    memcpy(&use, &found, sizeof use);
    CHECK(use(arguments[2]) == 0);
    puts("all checks hold");
    return 0;
}
