// The same as first_steps.c, with handles that free themselves. usage: first_steps DIRECTORY
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

#include <tidesdb/db.h>

namespace
{
void check(int code)
{
    if (code != TDB_SUCCESS) throw std::runtime_error("TidesDB: error " + std::to_string(code));
}

struct Free
{
    void operator()(tidesdb_t *db) const { tidesdb_close(db); }
    void operator()(tidesdb_txn_t *txn) const { tidesdb_txn_free(txn); }
    void operator()(tidesdb_iter_t *iter) const { tidesdb_iter_free(iter); }
    void operator()(std::uint8_t *value) const { tidesdb_free(value); }
};

template <typename T>
using Owned = std::unique_ptr<T, Free>;

const std::uint8_t *bytes(const std::string &text)
{
    return reinterpret_cast<const std::uint8_t *>(text.data());
}

Owned<tidesdb_t> open(std::string path)
{
    tidesdb_config_t config = tidesdb_default_config();
    config.db_path = path.data();
    config.log_level = TDB_LOG_WARN;
    tidesdb_t *db = nullptr;
    check(tidesdb_open(&config, &db));
    return Owned<tidesdb_t>(db);
}

Owned<tidesdb_txn_t> begin(tidesdb_t *db)
{
    tidesdb_txn_t *txn = nullptr;
    check(tidesdb_txn_begin(db, &txn));
    return Owned<tidesdb_txn_t>(txn);
}

std::string get(tidesdb_txn_t *txn, tidesdb_column_family_t *cf, const std::string &key)
{
    std::uint8_t *value = nullptr;
    std::size_t size = 0;
    check(tidesdb_txn_get(txn, cf, bytes(key), key.size(), &value, &size));
    const Owned<std::uint8_t> owned(value);
    return std::string(reinterpret_cast<const char *>(value), size);
}
}  // namespace

int main(int count, char **arguments)
try
{
    if (count != 2) return 2;
    const auto db = open(arguments[1]);
    const auto options = tidesdb_default_column_family_config();
    const int code = tidesdb_create_column_family(db.get(), "users", &options);
    if (code != TDB_ERR_EXISTS) check(code);
    tidesdb_column_family_t *users = tidesdb_get_column_family(db.get(), "users");
    {
        const auto txn = begin(db.get());
        for (const std::string name : {"ada", "grace"})
            check(tidesdb_txn_put(txn.get(), users, bytes(name), name.size(), bytes(name), 1, 0));
        check(tidesdb_txn_commit(txn.get()));
    }
    const auto txn = begin(db.get());
    std::cout << "ada: " << get(txn.get(), users, "ada") << '\n';
    tidesdb_iter_t *made = nullptr;
    check(tidesdb_iter_new(txn.get(), users, &made));
    const Owned<tidesdb_iter_t> iter(made);
    for (int at = tidesdb_iter_seek_to_first(made); at == TDB_SUCCESS; at = tidesdb_iter_next(made))
    {
        std::uint8_t *key = nullptr;
        std::size_t size = 0;
        check(tidesdb_iter_key(made, &key, &size));
        std::cout << std::string(reinterpret_cast<const char *>(key), size) << '\n';
    }
    return 0;
}
catch (const std::exception &error)
{
    std::cerr << error.what() << '\n';
    return 1;
}
