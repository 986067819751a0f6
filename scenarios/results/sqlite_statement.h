/// SQLite's connections and statements as C++ values. Errors are std::runtime_error with SQLite's
/// message.
#pragma once
#include <fmt/format.h>
#include <sqlite3.h>

#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sim/random.h"
#include "sim/units.h"

namespace baechi::sqlite {

/// An open database. Not thread-safe: SQLite's locks are off.
class Database {
 public:
  Database(const std::string& path, int flags) {
    sqlite3* raw = nullptr;
    const int rc = sqlite3_open_v2(path.c_str(), &raw, flags | SQLITE_OPEN_NOMUTEX, nullptr);
    db_.reset(raw);
    if (rc != SQLITE_OK) fail(path);
    // Views and triggers in files of others must not run.
    sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  }
  void run(const std::string& sql) {
    if (sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail(sql);
  }
  [[noreturn]] void fail(std::string_view what) const {
    throw std::runtime_error(fmt::format("{}: {}", what, sqlite3_errmsg(db_.get())));
  }
  sqlite3* get() const { return db_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close(db); }
  };
  std::unique_ptr<sqlite3, Close> db_;
};

/// Bytes that are bound unchanged.
struct Blob {
  const std::string& bytes;
};

/// A prepared statement. Values are bound, and columns read, from left to right.
class Statement {
 public:
  Statement(Database& db, const std::string& sql) : db_(db) {
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(db.get(), sql.c_str(), -1, &raw, nullptr) != SQLITE_OK) db.fail(sql);
    statement_.reset(raw);
  }

  /// Inserts a row. SQLite converts text to the type of a numeric column.
  template <class... Values>
  void insert(const Values&... values) {
    column_ = 0;
    (bind(values), ...);
    if (sqlite3_step(statement_.get()) != SQLITE_DONE) db_.fail("results.sqlite");
    sqlite3_reset(statement_.get());
  }
  void insert_cells(const std::vector<std::string>& cells) {
    column_ = 0;
    for (const std::string& cell : cells) {
      if (cell.empty())
        sqlite3_bind_null(statement_.get(), ++column_);
      else
        bind(cell);
    }
    if (sqlite3_step(statement_.get()) != SQLITE_DONE) db_.fail("results.sqlite");
    sqlite3_reset(statement_.get());
  }

  /// Goes to the next row; false at the end.
  bool next() {
    column_ = 0;
    const int rc = sqlite3_step(statement_.get());
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) db_.fail("results.sqlite");
    return rc == SQLITE_ROW;
  }
  std::string text() { return std::string(view()); }
  /// Adds all values of the row, with their types, to the hash.
  void add_to(Hash& hash) {
    for (column_ = 0; column_ < sqlite3_column_count(statement_.get());) {
      const int type = sqlite3_column_type(statement_.get(), column_);
      hash.add(std::int64_t{type});
      if (type == SQLITE_INTEGER)
        hash.add(whole());
      else if (type == SQLITE_FLOAT)
        hash.add(number());
      else
        hash.add(view());
    }
  }
  std::int64_t whole() { return sqlite3_column_int64(statement_.get(), column_++); }
  std::size_t count() { return static_cast<std::size_t>(whole()); }
  double number() { return sqlite3_column_double(statement_.get(), column_++); }
  std::optional<Duration> maybe_us() {
    if (sqlite3_column_type(statement_.get(), column_) == SQLITE_NULL)
      return ++column_, std::nullopt;
    return Duration{std::llround(number() * 1000.0)};
  }
  std::optional<double> maybe_number() {
    if (sqlite3_column_type(statement_.get(), column_) == SQLITE_NULL)
      return ++column_, std::nullopt;
    return number();
  }
  std::optional<std::int64_t> maybe_whole() {
    if (sqlite3_column_type(statement_.get(), column_) == SQLITE_NULL)
      return ++column_, std::nullopt;
    return whole();
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
  };

  /// A text or bytes, valid until the next row.
  std::string_view view() {
    const int c = column_++;
    const void* data = sqlite3_column_blob(statement_.get(), c);
    const int size = sqlite3_column_bytes(statement_.get(), c);
    return {static_cast<const char*>(data), data == nullptr ? 0 : static_cast<std::size_t>(size)};
  }
  void bind(const std::string& v) {
    sqlite3_bind_text(statement_.get(), ++column_, v.data(), static_cast<int>(v.size()),
                      SQLITE_STATIC);
  }
  void bind(std::size_t v) {
    sqlite3_bind_int64(statement_.get(), ++column_, static_cast<sqlite3_int64>(v));
  }
  void bind(double v) { sqlite3_bind_double(statement_.get(), ++column_, v); }
  void bind(const Blob& v) {
    sqlite3_bind_blob(statement_.get(), ++column_, v.bytes.data(), static_cast<int>(v.bytes.size()),
                      SQLITE_STATIC);
  }

  Database& db_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int column_ = 0;
};

}  // namespace baechi::sqlite
