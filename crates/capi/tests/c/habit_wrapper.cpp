// Wrappers as a C++ program for TidesDB 9.3 has them: the header in an `extern "C"` block of the
// program's own, handles in unique pointers, errors as exceptions. The argument is an empty
// directory.
extern "C"
{
#define XXH_INLINE_ALL
#include <tidesdb/db.h>
#include <tidesdb/tidesdb_version.h>
#include <tidesdb/xxhash.h>
    extern tidesdb_objstore_t *tidesdb_objstore_s3_create(const char *endpoint, const char *bucket,
                                                          const char *prefix,
                                                          const char *access_key,
                                                          const char *secret_key,
                                                          const char *region, int use_ssl,
                                                          int use_path_style);
}

#include <atomic>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

class Error : public std::runtime_error
{
  public:
    Error(const char *what, int code) : std::runtime_error(what), code(code) {}
    const int code;
};

static void check(const char *what, int code)
{
    if (code != TDB_SUCCESS) throw Error(what, code);
}

static const uint8_t *bytes(const std::string &text)
{
    return reinterpret_cast<const uint8_t *>(text.data());
}

struct Free
{
    void operator()(tidesdb_txn_t *txn) const { tidesdb_txn_free(txn); }
    void operator()(tidesdb_iter_t *iter) const { tidesdb_iter_free(iter); }
    void operator()(tidesdb_t *db) const { tidesdb_close(db); }
    void operator()(uint8_t *value) const { tidesdb_free(value); }
    void operator()(tidesdb_stats_t *stats) const { tidesdb_free_stats(stats); }
};

class Transaction
{
  public:
    Transaction(tidesdb_t *db, tidesdb_isolation_level_t level)
    {
        tidesdb_txn_t *txn = nullptr;
        check("begin", tidesdb_txn_begin_with_isolation(db, level, &txn));
        handle.reset(txn);
    }

    void put(tidesdb_column_family_t *cf, const std::string &key, const std::string &value)
    {
        check("put", tidesdb_txn_put(handle.get(), cf, bytes(key), key.size(), bytes(value),
                                     value.size(), 0));
    }

    std::optional<std::string> get(tidesdb_column_family_t *cf, const std::string &key)
    {
        uint8_t *value = nullptr;
        size_t size = 0;
        const int code =
            tidesdb_txn_get(handle.get(), cf, bytes(key), key.size(), &value, &size);
        if (code == TDB_ERR_NOT_FOUND) return std::nullopt;
        check("get", code);
        std::unique_ptr<uint8_t, Free> owned(value);
        return std::string(reinterpret_cast<char *>(value), size);
    }

    std::map<std::string, std::string> all(tidesdb_column_family_t *cf)
    {
        tidesdb_iter_t *made = nullptr;
        check("iter_new", tidesdb_iter_new(handle.get(), cf, &made));
        std::unique_ptr<tidesdb_iter_t, Free> iter(made);
        std::map<std::string, std::string> found;
        for (int code = tidesdb_iter_seek_to_last(made); code == TDB_SUCCESS;
             code = tidesdb_iter_prev(made))
        {
            uint8_t *key = nullptr, *value = nullptr;
            size_t key_size = 0, size = 0;
            check("key_value", tidesdb_iter_key_value(made, &key, &key_size, &value, &size));
            found.emplace(std::string(reinterpret_cast<char *>(key), key_size),
                          std::string(reinterpret_cast<char *>(value), size));
        }
        return found;
    }

    int commit() { return tidesdb_txn_commit(handle.get()); }

  private:
    std::unique_ptr<tidesdb_txn_t, Free> handle;
};

static void count_up(tidesdb_t *db, tidesdb_column_family_t *cf, std::atomic<int> &conflicts)
{
    for (int done = 0; done < 50;)
    {
        Transaction txn(db, TDB_ISOLATION_SNAPSHOT);
        const auto before = txn.get(cf, "counter").value_or("0");
        txn.put(cf, "counter", std::to_string(std::stoi(before) + 1));
        const int code = txn.commit();
        if (code == TDB_SUCCESS)
            done++;
        else if (code == TDB_ERR_CONFLICT)
            conflicts++;
        else
            throw Error("commit", code);
    }
}

int main(int argc, char **argv)
try
{
    if (argc != 2) return 1;
    static_assert(sizeof(tidesdb_column_family_config_t) == 624, "the layout is the stated one");
    std::string path = std::string(argv[1]) + "/counters";
    tidesdb_config_t config = tidesdb_default_config();
    config.db_path = &path[0];
    config.log_level = TDB_LOG_WARN;
    tidesdb_t *opened = nullptr;
    check("open", tidesdb_open(&config, &opened));
    std::unique_ptr<tidesdb_t, Free> db(opened);

    tidesdb_column_family_config_t options = tidesdb_default_column_family_config();
    options.compression_algorithm = TDB_COMPRESS_LZ4;
    check("create", tidesdb_create_column_family(opened, "counters", &options));
    tidesdb_column_family_t *cf = tidesdb_get_column_family(opened, "counters");
    std::atomic<int> conflicts(0);
    std::vector<std::thread> threads;
    for (int n = 0; n < 4; n++) threads.emplace_back([&] { count_up(opened, cf, conflicts); });
    for (auto &thread : threads) thread.join();
    Transaction reader(opened, TDB_ISOLATION_READ_COMMITTED);
    const std::map<std::string, std::string> expected = {{"counter", "200"}};
    if (reader.all(cf) != expected) return 1;
    try
    {
        reader.put(cf, "", "no key");
        return 1;
    }
    catch (const Error &error)
    {
        if (error.code != TDB_ERR_INVALID_ARGS) return 1;
    }
    tidesdb_stats_t *stats = nullptr;
    check("get_stats", tidesdb_get_stats(cf, &stats));
    std::unique_ptr<tidesdb_stats_t, Free> owned(stats);
    std::cout << TIDESDB_VERSION << ", " << stats->config->name << ", hash "
              << XXH3_64bits(path.data(), 0) << "\n";
    std::cout << "all checks hold\n";
    return 0;
}
catch (const Error &error)
{
    std::cerr << error.what() << ": " << error.code << "\n";
    return 1;
}
