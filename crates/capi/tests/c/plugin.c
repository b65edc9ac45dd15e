/* A shared object that has the library's archive within it, as a server's storage engine may be. */
#include "helpers.h"

/* Uses a database in a directory; 0 when it holds what was put. */
int use_database(char *path);

int use_database(char *path)
{
    tidesdb_t *db = open_in(path);
    tidesdb_column_family_t *cf = small_family(db, "cf");
    tidesdb_txn_t *txn;
    int found;
    put_alone(db, cf, "k", "v");
    CHECK_OK(tidesdb_compact(cf));
    txn = begin(db, TDB_ISOLATION_READ_COMMITTED);
    found = holds(txn, cf, "k", "v");
    tidesdb_txn_free(txn);
    CHECK_OK(tidesdb_close(db));
    return !found;
}
