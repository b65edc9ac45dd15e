/* Moves money between two accounts, with a conflict and another try, and shows savepoints.
   usage: transactions DIRECTORY */
#include <string.h>

#include <tidesdb/tidesdb.h>

#include "check.h"

static tidesdb_t *db;
static tidesdb_column_family_t *accounts;

static int64_t balance(tidesdb_txn_t *txn, const char *name)
{
    uint8_t *value = NULL;
    size_t size = 0;
    int64_t amount = 0;
    int code = tidesdb_txn_get(txn, accounts, (const uint8_t *)name, strlen(name), &value, &size);
    if (code == TDB_ERR_NOT_FOUND) return 0;
    check(code, "get");
    memcpy(&amount, value, sizeof amount);
    tidesdb_free(value);
    return amount;
}

static void set_balance(tidesdb_txn_t *txn, const char *name, int64_t amount)
{
    check(tidesdb_txn_put(txn, accounts, (const uint8_t *)name, strlen(name),
                          (const uint8_t *)&amount, sizeof amount, 0),
          "put");
}

/* Repeats the transfer until no other transaction was quicker. */
static void transfer(const char *from, const char *to, int64_t amount, int disturb)
{
    tidesdb_txn_t *txn = NULL, *other = NULL;
    int code;
    check(tidesdb_txn_begin_with_isolation(db, TDB_ISOLATION_SNAPSHOT, &txn), "begin");
    for (;;)
    {
        set_balance(txn, from, balance(txn, from) - amount);
        set_balance(txn, to, balance(txn, to) + amount);
        if (disturb)
        {
            /* Another transaction changes one of the accounts meanwhile. */
            check(tidesdb_txn_begin(db, &other), "begin");
            set_balance(other, from, balance(other, from) + 1);
            check(tidesdb_txn_commit(other), "commit");
            tidesdb_txn_free(other);
            disturb = 0;
        }
        code = tidesdb_txn_commit(txn);
        if (code == TDB_SUCCESS) break;
        if (code != TDB_ERR_CONFLICT) check(code, "commit");
        printf("conflict, another try\n");
        check(tidesdb_txn_rollback(txn), "rollback");
        check(tidesdb_txn_reset(txn, TDB_ISOLATION_SNAPSHOT), "reset");
    }
    tidesdb_txn_free(txn);
}

int main(int count, char **arguments)
{
    tidesdb_config_t config = tidesdb_default_config();
    tidesdb_column_family_config_t family = tidesdb_default_column_family_config();
    tidesdb_txn_t *txn = NULL;
    int code;

    if (count != 2) return 2;
    config.db_path = arguments[1];
    config.log_level = TDB_LOG_WARN;
    check(tidesdb_open(&config, &db), "open");
    code = tidesdb_create_column_family(db, "accounts", &family);
    if (code != TDB_ERR_EXISTS) check(code, "create");
    accounts = tidesdb_get_column_family(db, "accounts");

    check(tidesdb_txn_begin(db, &txn), "begin");
    set_balance(txn, "alice", 100);
    check(tidesdb_txn_savepoint(txn, "before bob"), "savepoint");
    set_balance(txn, "bob", 1000000);
    check(tidesdb_txn_rollback_to_savepoint(txn, "before bob"), "rollback to savepoint");
    set_balance(txn, "bob", 50);
    check(tidesdb_txn_commit(txn), "commit");
    tidesdb_txn_free(txn);

    transfer("alice", "bob", 30, 1);
    check(tidesdb_txn_begin(db, &txn), "begin");
    printf("alice: %lld\n", (long long)balance(txn, "alice"));
    printf("bob: %lld\n", (long long)balance(txn, "bob"));
    tidesdb_txn_free(txn);
    check(tidesdb_close(db), "close");
    return 0;
}
