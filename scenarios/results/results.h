/// Results of runs: plain values.
#pragma once

#include "sim/measure/measure.h"

namespace baechi {

/// The result of one (point, placer, seed, measure).
struct RunResult {
  std::size_t id = 0;     ///< index among all runs of the sweep, also in a shard
  std::uint64_t key = 0;  ///< Sweep::key(): a hash of everything that determines the row
  /// hash_of_point(): a hash of graph, cluster, engine and profile.
  std::uint64_t point = 0;
  std::size_t scenario = 0;  ///< into Results::scenarios
  std::size_t graph = 0;     ///< into Results::graphs
  std::string placer;
  /// The placer whose algorithm found the placement: the placer's name, or Placement::placed_by; ""
  /// if there is none.
  std::string placed_by;
  std::uint64_t seed = 0;
  std::string measure{default_measure};  ///< with its options: "pipeline:micro_batches=8"
  std::string unit;                      ///< of value and lower_bound: "us per step"
  std::size_t devices = 0;
  double memory_fraction = 1.0;
  Bytes memory{};  ///< of the largest device, after the fraction
  Transfers transfers{};
  Status status{};
  std::optional<Duration> value;        ///< the measure's value; if ok
  std::optional<Duration> lower_bound;  ///< of the value; nothing if unknown
  /// Wall-clock time: the only field in the files that is not reproducible.
  std::chrono::nanoseconds placing{};
  /// The processor time of all threads of the placer; not stored in files.
  std::chrono::nanoseconds placing_processor{};
  std::optional<Bytes> peak, moved;        ///< if simulated; if oom, up to the failure
  std::optional<PeakMemory> at_peak;       ///< if simulated: of the device with the highest peak
  std::optional<Utilisation> utilisation;  ///< of a step that completed, by the measure step_time
  std::vector<Bytes> device_peaks;         ///< per device; not in the files
  std::string detail;           ///< the reason why the status is not ok, or the placer's remark
  std::vector<std::string> at;  ///< [axes]: the value of each swept key
  std::map<std::string, double> facts;
  std::string
      placement;  ///< device per op, one byte each (two, low byte first, for more than 256 devices)
  std::string picture;  ///< of the step (sim/report/timeline.h); "" for most runs

  /// Whether the placer found nothing that fits, and the option `fallback` found a placement.
  bool fell_back() const { return placed_by.starts_with("fallback:"); }
  bool is_step_time() const { return measure == default_measure; }
};

/// The mark of RunResult::fell_back(), and its meaning.
inline constexpr const char* fallback_mark = "†";
inline constexpr const char* fallback_meaning =
    "†: placed by another algorithm (option fallback), because the placer found nothing that fits";

struct GraphRecord {
  std::string name;  ///< of the trace
  std::string
      label;         ///< the name, followed by the section `graph` if several graphs share the name
  std::string hash;  ///< of everything visible to placers and engine
  std::size_t ops = 0, edges = 0;
  std::int64_t batch = 0;  ///< samples per step; 0 if unknown
  std::string source, format;
  std::string op_names;  ///< one line per op, by id; "" if no placements are kept
};

struct ScenarioRecord {
  std::string name, path, text;
  std::string sets;  ///< --set arguments, one per line
};

struct ResultsHeader {
  std::string version;  ///< of the program
  std::string hash;     ///< of everything that determines the rows: equal hashes mean equal rows
  std::size_t planned = 0;  ///< runs of the scenarios; more than rows if interrupted or a shard
  std::size_t missing = 0;  ///< runs that an interruption prevented
  std::string shard;        ///< "2/8" if the rows are one shard of several, else ""
  std::vector<ScenarioRecord> scenarios;
  std::vector<GraphRecord> graphs;
  std::vector<std::string> axes;  ///< swept keys
};

struct Results : ResultsHeader {
  std::vector<RunResult> rows;  ///< by id
};

/// Visits all rows in the order of their ids, without holding them all in memory.
using VisitRow = std::function<void(const RunResult&)>;
using EachRow = std::function<void(const VisitRow&)>;
EachRow each_row(const Results& results);  ///< `results` must outlive it

/// Reads results.sqlite in `folder`. Throws InputError as read_sqlite() does.
Results read_results(const std::string& folder);

enum class ColumnType : std::uint8_t { id, whole, real, text };  ///< id: whole, the primary key

struct Column {
  std::string_view name;
  ColumnType type;
  /// May be "".
  std::string (*cell)(const ResultsHeader&, const RunResult&);
  std::string_view shows_axis{};  ///< the swept key that this column replaces
};
std::span<const Column> fixed_columns();

/// A column of some results: the fixed ones first, then, as text, the axes that no fixed column
/// shows.
struct ResultColumn {
  std::string name;
  ColumnType type;
};
std::vector<ResultColumn> result_columns(const ResultsHeader& header);
/// One cell per column.
std::vector<std::string> result_cells(const ResultsHeader& header, const RunResult& row);

/// RunResult::point as 16 digits.
std::string point_text(std::uint64_t point);

/// Samples of the graph per second; nothing if the row has no step time, or the graph no batch.
std::optional<double> throughput(const ResultsHeader& header, const RunResult& row);

using Print = std::function<void(std::string_view)>;

class CsvRows {
 public:
  CsvRows(const ResultsHeader& header, Print print);
  void add(const std::vector<std::string>& cells);  ///< cells of result_cells()
  void end();

 private:
  static constexpr std::size_t piece = std::size_t{1} << 18U;  // bytes, printed at once
  void add_line(const std::vector<std::string>& cells);
  std::vector<ResultColumn> columns_;
  Print print_;
  std::string lines_;
};

/// `text` in quotes, those in it doubled, as in CSV and SQL.
std::string doubled_quotes(std::string_view text);

/// A cell in CSV: quoted if needed. Text that a spreadsheet would run as a formula (it begins with
/// = + - @, a tab or a carriage return, and is no number) is prefixed by an apostrophe.
std::string csv_cell(const std::string& cell, ColumnType type);

void print_csv(const ResultsHeader& header, const EachRow& rows, const Print& print);
std::string to_csv(const Results& results);

/// An array of objects, one per row; the keys are the columns.
void print_json(const ResultsHeader& header, const EachRow& rows, const Print& print);

/// Writes a new file row by row, replacing an existing one. Throws std::runtime_error on any error.
/// end() adds a checksum of the content, and another of the placing times; without them the file is
/// invalid.
class SqliteRows {
 public:
  SqliteRows(const std::string& path, const ResultsHeader& header);
  ~SqliteRows();
  SqliteRows(const SqliteRows&) = delete;
  SqliteRows& operator=(const SqliteRows&) = delete;
  void add(const RunResult& row,
           const std::vector<std::string>& cells);  ///< cells of result_cells()
  void end();

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

/// Throws InputError, naming the file, if it does not exist, is damaged (by its checksum), or was
/// not written by SqliteRows.
Results read_sqlite(const std::string& path);

/// The distinct runs of all folders; of duplicates the first folder's. Throws InputError, naming
/// - every folder that has no results, results of other scenarios or another version, or a run that
///   did not end;
/// - if runs are missing: the folders whose run was interrupted, and the shards that no folder has.
///   With `partial` runs may be missing, but an interrupted folder is still a mistake.
Results merge_results(std::span<const std::string> folders, bool partial = false);

/// The timelines in a folder of results: "12.m_etf.trace.json.gz" is of run 12.
std::vector<std::string> timelines_in(const std::string& folder);
/// Removes the timelines whose names are not in `names`: the ids in their names belong to other
/// runs.
void remove_other_timelines(const std::string& folder, std::span<const std::string> names);

/// Copies the timelines into `to`, and removes old timelines there unless it is one of `folders`.
/// Returns the number of copies. Throws std::runtime_error if a copy fails.
std::size_t merge_timelines(std::span<const std::string> folders, const std::string& to);

}  // namespace baechi
