#include <fmt/compile.h>
#include <sqlite3.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "scenarios/results/results.h"
#include "sim/random.h"

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
    insert_bound();
  }
  void insert_cells(const std::vector<std::string>& cells) {
    column_ = 0;
    for (const std::string& cell : cells) {
      if (cell.empty())
        sqlite3_bind_null(statement_.get(), ++column_);
      else
        bind(cell);
    }
    insert_bound();
  }

  /// Goes to the next row; false at the end.
  bool next() {
    column_ = 0;
    const int rc = sqlite3_step(statement_.get());
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) db_.fail("results.sqlite");
    return rc == SQLITE_ROW;
  }
  std::string text() { return std::string(view()); }
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
    return unless_null([&] { return Duration{std::llround(number() * 1000.0)}; });
  }
  std::optional<double> maybe_number() {
    return unless_null([&] { return number(); });
  }
  std::optional<std::int64_t> maybe_whole() {
    return unless_null([&] { return whole(); });
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
  };

  auto unless_null(auto read) -> std::optional<decltype(read())> {
    if (sqlite3_column_type(statement_.get(), column_) != SQLITE_NULL) return read();
    ++column_;
    return std::nullopt;
  }
  void insert_bound() {
    if (sqlite3_step(statement_.get()) != SQLITE_DONE) db_.fail("results.sqlite");
    sqlite3_reset(statement_.get());
  }

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

namespace baechi {

namespace {

using JsonValue = nlohmann::json;

constexpr int most_nested = 8;

using sqlite::Blob;
using sqlite::Database;
using sqlite::Statement;

constexpr const char* format_name = "baechi-results 6";

/// Throws std::runtime_error if `picture` is no JSON object, or is nested more deeply than pictures
/// are.
void check_picture(const std::string& picture) {
  // Parsing stops at this depth: freeing deeply nested values would overflow the stack.
  const auto shallow = [](int depth, JsonValue::parse_event_t /*event*/, JsonValue& /*value*/) {
    if (depth > most_nested) throw std::runtime_error("the picture of a step is nested too deeply");
    return true;
  };
  const JsonValue parsed = JsonValue::parse(picture, shallow, /*allow_exceptions=*/false);
  if (!parsed.is_object()) throw std::runtime_error("the picture of a step is malformed");
}

std::string_view sql_type(ColumnType type) {
  constexpr std::string_view types[] = {"INTEGER PRIMARY KEY", "INTEGER", "REAL", "TEXT"};
  return types[static_cast<std::size_t>(type)];
}

/// Columns of the table results, with SQLite's types.
std::string column_definitions(const ResultsHeader& header) {
  std::string out;
  for (const ResultColumn& column : result_columns(header))
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", doubled_quotes(column.name),
                       sql_type(column.type));
  return out;
}

std::string places(std::size_t n) {
  std::string out = "?";
  for (std::size_t i = 1; i < n; ++i) out += ", ?";
  return out;
}

template <NamedEnum E>
E value_called(const std::string& word) {
  if (const auto value = parse<E>(word)) return *value;
  throw std::runtime_error(not_one_of<E>(word));
}

std::int64_t times_1000(double thousandths) { return std::llround(thousandths * 1000.0); }

/// The memory at the peak; nothing if the run was not simulated.
std::optional<PeakMemory> peak_of_row(Statement& in) {
  const auto weights = in.maybe_whole(), gradients = in.maybe_whole(),
             optimizer_state = in.maybe_whole(), activations = in.maybe_whole(),
             workspace = in.maybe_whole(), copies = in.maybe_whole();
  if (!weights) return std::nullopt;
  return PeakMemory{.weights = {*weights},
                    .gradients = {gradients.value_or(0)},
                    .optimizer_state = {optimizer_state.value_or(0)},
                    .activations = {activations.value_or(0)},
                    .workspace = {workspace.value_or(0)},
                    .copies = {copies.value_or(0)},
                    .distinguished = gradients.has_value()};
}

RunResult read_row(Statement& in, const Results& results) {
  RunResult row;
  row.id = in.count();
  const std::string key = in.text();
  std::from_chars(key.data(), key.data() + key.size(), row.key, 16);
  row.scenario = in.count();
  row.graph = in.count();
  if (row.scenario >= results.scenarios.size() || row.graph >= results.graphs.size())
    throw std::runtime_error("a run of a scenario or graph that is not there");
  const std::string seed = in.text();
  std::from_chars(seed.data(), seed.data() + seed.size(), row.seed);
  row.placer = in.text();
  row.devices = in.count();
  row.memory_fraction = in.number();
  row.memory = {in.whole()};
  row.transfers = value_called<Transfers>(in.text());
  row.status = value_called<Status>(in.text());
  row.value = in.maybe_us();
  row.lower_bound = in.maybe_us();
  row.placing = std::chrono::microseconds{times_1000(in.number())};
  if (const auto peak = in.maybe_whole()) row.peak = Bytes{*peak};
  if (const auto moved = in.maybe_whole()) row.moved = Bytes{*moved};
  row.detail = in.text();
  row.measure = in.text();
  row.unit = in.text();
  row.at_peak = peak_of_row(in);
  Utilisation utilisation;
  for (const auto& [word, part] : utilisation_parts) utilisation.*part = in.maybe_number();
  if (utilisation.busy) row.utilisation = utilisation;
  row.placed_by = in.text();
  const std::string point = in.text();
  std::from_chars(point.data(), point.data() + point.size(), row.point, 16);
  row.at.resize(results.axes.size());
  return row;
}

void read_rows(Database& db, Results& results) {
  Statement rows(
      db,
      "SELECT r.id, r.key, r.scenario, r.graph, r.seed, placer, devices, memory_fraction, "
      "memory_bytes, transfers, status, value, lower_bound_us, placing_ms, peak_bytes, "
      "moved_bytes, detail, measure, unit, weights_bytes, gradients_bytes, optimizer_state_bytes, "
      "activations_bytes, workspace_bytes, copies_bytes, busy, flops, traffic_bytes, "
      "flops_utilisation, busy_flops_utilisation, memory_utilisation, compute_bound, memory_bound, "
      "launch_bound, placed_by, point FROM runs r JOIN results USING (id) ORDER BY r.id");
  std::map<std::size_t, std::size_t> position;  // by id
  while (rows.next()) {
    results.rows.push_back(read_row(rows, results));
    position.emplace(results.rows.back().id, results.rows.size() - 1);
  }
  const auto row = [&](std::size_t id) -> RunResult& {
    const auto it = position.find(id);
    if (it == position.end()) throw std::runtime_error("a detail of a run that is not there");
    return results.rows[it->second];
  };
  Statement sweep(db, "SELECT id, axis, value FROM run_axes");
  while (sweep.next()) {
    RunResult& r = row(sweep.count());
    const std::size_t axis = sweep.count();
    if (axis < r.at.size()) r.at[axis] = sweep.text();
  }
  Statement facts(db, "SELECT id, name, value FROM facts");
  while (facts.next()) {
    RunResult& r = row(facts.count());
    const std::string name = facts.text();
    r.facts[name] = facts.number();
  }
  Statement placements(db, "SELECT id, devices FROM placements");
  while (placements.next()) {
    RunResult& r = row(placements.count());
    r.placement = placements.text();
  }
  Statement pictures(db, "SELECT id, step FROM pictures");
  while (pictures.next()) {
    RunResult& r = row(pictures.count());
    r.picture = pictures.text();
    check_picture(r.picture);
  }
}

void make_tables(Database& db, const ResultsHeader& header) {
  db.run(
      "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);CREATE TABLE scenarios (id INTEGER "
      "PRIMARY KEY, name TEXT, path TEXT, text TEXT, sets TEXT);CREATE TABLE graphs (id INTEGER "
      "PRIMARY KEY, name TEXT, label TEXT, hash TEXT, ops INTEGER, edges INTEGER, source TEXT, "
      "format TEXT, op_names TEXT, batch INTEGER);CREATE TABLE axes (id INTEGER PRIMARY KEY, key "
      "TEXT);CREATE TABLE runs (id INTEGER PRIMARY KEY, key TEXT, scenario INTEGER, graph INTEGER, "
      "seed TEXT);CREATE TABLE run_axes (id INTEGER, axis INTEGER, value TEXT);CREATE TABLE facts "
      "(id INTEGER, name TEXT, value REAL);CREATE TABLE placements (id INTEGER PRIMARY KEY, "
      "devices BLOB);CREATE TABLE pictures (id INTEGER PRIMARY KEY, step TEXT)");
  db.run(fmt::format("CREATE TABLE results ({})", column_definitions(header)));
}

void fill_header(Database& db, const ResultsHeader& header) {
  Statement meta(db, "INSERT INTO meta VALUES (?, ?)");
  meta.insert(std::string("format"), std::string(format_name));
  meta.insert(std::string("version"), header.version);
  meta.insert(std::string("hash"), header.hash);
  meta.insert(std::string("planned"), fmt::format("{}", header.planned));
  meta.insert(std::string("missing"), fmt::format("{}", header.missing));
  if (!header.shard.empty()) meta.insert(std::string("shard"), header.shard);
  Statement scenarios(db, "INSERT INTO scenarios VALUES (?, ?, ?, ?, ?)");
  for (std::size_t i = 0; i < header.scenarios.size(); ++i) {
    const ScenarioRecord& s = header.scenarios[i];
    scenarios.insert(i, s.name, s.path, s.text, s.sets);
  }
  Statement graphs(db, "INSERT INTO graphs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  for (std::size_t i = 0; i < header.graphs.size(); ++i) {
    const GraphRecord& g = header.graphs[i];
    graphs.insert(i, g.name, g.label, g.hash, g.ops, g.edges, g.source, g.format, g.op_names,
                  fmt::to_string(g.batch));
  }
  Statement axes(db, "INSERT INTO axes VALUES (?, ?)");
  for (std::size_t i = 0; i < header.axes.size(); ++i) axes.insert(i, header.axes[i]);
}

/// Adds the values of `rows`, "columns FROM table ...", to the hash.
void add_rows(Database& db, const std::string& rows, Hash& hash) {
  Statement all(db, "SELECT " + rows);
  while (all.next()) all.add_to(hash);
}

/// A hash of every value of every table, except the checksums and the placing times: equal runs
/// have equal checksums.
std::string checksum(Database& db) {
  Statement columns(db,
                    "SELECT group_concat('\"' || replace(name, '\"', '\"\"') || '\"') FROM "
                    "pragma_table_info('results') WHERE name <> 'placing_ms'");
  columns.next();
  Hash hash;
  for (const char* rows :
       {"* FROM meta WHERE key NOT IN ('checksum', 'checksum of times') ORDER BY key",
        "* FROM scenarios ORDER BY id", "* FROM graphs ORDER BY id", "* FROM axes ORDER BY id",
        "* FROM runs ORDER BY id"})
    add_rows(db, rows, hash);
  add_rows(db, columns.text() + " FROM results ORDER BY id", hash);
  for (const char* rows : {"* FROM run_axes ORDER BY rowid", "* FROM facts ORDER BY rowid",
                           "* FROM placements ORDER BY id", "* FROM pictures ORDER BY id"})
    add_rows(db, rows, hash);
  return fmt::format("{:016x}", hash.value());
}

std::string checksum_of_times(Database& db) {
  Hash hash;
  add_rows(db, "placing_ms FROM results ORDER BY id", hash);
  return fmt::format("{:016x}", hash.value());
}

void read_meta(Database& db, Results& results) {
  Statement meta(db, "SELECT key, value FROM meta");
  std::map<std::string, std::string> values;
  while (meta.next()) {
    std::string key = meta.text();
    values[std::move(key)] = meta.text();
  }
  if (values["format"] != format_name)
    throw std::runtime_error(
        fmt::format("its format is '{}', not '{}'", values["format"], format_name));
  if (values["checksum"] != checksum(db) || values["checksum of times"] != checksum_of_times(db))
    throw std::runtime_error("it is damaged: its checksum does not match");
  results.version = values["version"];
  results.hash = values["hash"];
  const auto number = [&](const char* key) {
    std::size_t n = 0;
    const std::string& text = values[key];
    std::from_chars(text.data(), text.data() + text.size(), n);
    return n;
  };
  results.planned = number("planned");
  results.missing = number("missing");
  results.shard = values["shard"];
}

void read_header(Database& db, Results& results) {
  Statement scenarios(db, "SELECT name, path, text, sets FROM scenarios ORDER BY id");
  while (scenarios.next()) {
    ScenarioRecord s;
    s.name = scenarios.text();
    s.path = scenarios.text();
    s.text = scenarios.text();
    s.sets = scenarios.text();
    results.scenarios.push_back(std::move(s));
  }
  Statement graphs(db,
                   "SELECT name, label, hash, ops, edges, source, format, op_names, batch FROM "
                   "graphs ORDER BY id");
  while (graphs.next()) {
    GraphRecord g;
    g.name = graphs.text();
    g.label = graphs.text();
    g.hash = graphs.text();
    g.ops = graphs.count();
    g.edges = graphs.count();
    g.source = graphs.text();
    g.format = graphs.text();
    g.op_names = graphs.text();
    g.batch = graphs.whole();
    results.graphs.push_back(std::move(g));
  }
  Statement axes(db, "SELECT key FROM axes ORDER BY id");
  while (axes.next()) results.axes.push_back(axes.text());
  std::set<std::string> names;
  for (ResultColumn& column : result_columns(results))
    if (!names.insert(std::move(column.name)).second)
      throw std::runtime_error("two of its columns have the same name");
}

}  // namespace

/// An open transaction, and the statements that add a row.
struct SqliteRows::Tables {
  Tables(const std::string& path, const ResultsHeader& header)
      : db(created(path, header)),
        results(db, fmt::format("INSERT INTO results VALUES ({})",
                                places(result_columns(header).size()))),
        runs(db, "INSERT INTO runs VALUES (?, ?, ?, ?, ?)"),
        axes(db, "INSERT INTO run_axes VALUES (?, ?, ?)"),
        facts(db, "INSERT INTO facts VALUES (?, ?, ?)"),
        placements(db, "INSERT INTO placements VALUES (?, ?)"),
        pictures(db, "INSERT INTO pictures VALUES (?, ?)") {}

  Database db;
  Statement results, runs, axes, facts, placements, pictures;

 private:
  static Database created(const std::string& path, const ResultsHeader& header) {
    std::filesystem::remove(path);
    Database db(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    db.run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN");
    make_tables(db, header);
    fill_header(db, header);
    return db;
  }
};

SqliteRows::SqliteRows(const std::string& path, const ResultsHeader& header)
    : tables_(std::make_unique<Tables>(path, header)) {}
SqliteRows::~SqliteRows() = default;

void SqliteRows::add(const RunResult& row, const std::vector<std::string>& cells) {
  Tables& t = *tables_;
  t.results.insert_cells(cells);
  t.runs.insert(row.id, fmt::format(FMT_COMPILE("{:016x}"), row.key), row.scenario, row.graph,
                fmt::to_string(row.seed));
  for (std::size_t a = 0; a < row.at.size(); ++a) t.axes.insert(row.id, a, row.at[a]);
  for (const auto& [name, value] : row.facts) t.facts.insert(row.id, name, value);
  if (!row.placement.empty()) t.placements.insert(row.id, Blob{row.placement});
  if (!row.picture.empty()) t.pictures.insert(row.id, row.picture);
}

void SqliteRows::end() {
  Database& db = tables_->db;
  const std::string times = checksum_of_times(db);
  Statement(db, "INSERT INTO meta VALUES (?, ?)").insert(std::string("checksum"), checksum(db));
  Statement(db, "INSERT INTO meta VALUES (?, ?)").insert(std::string("checksum of times"), times);
  db.run("COMMIT");
}

Results read_sqlite(const std::string& path) {
  if (!std::filesystem::is_regular_file(path))
    throw InputError(fmt::format("{}: no such file", path));
  try {
    Database db(path, SQLITE_OPEN_READONLY);
    Results results;
    read_meta(db, results);
    read_header(db, results);
    read_rows(db, results);
    return results;
  } catch (const std::exception& e) {
    throw InputError(fmt::format("{}: not results of this program: {}", path, e.what()));
  }
}

}  // namespace baechi
