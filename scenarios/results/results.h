/// Results of runs: plain values.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/measure/measure.h"
#include "sim/measure/utilisation.h"
#include "sim/names.h"
#include "sim/problem/engine_names.h"
#include "sim/problem/engine_options.h"
#include "sim/status.h"
#include "sim/units.h"

namespace baechi {

/// One (point, placer, seed, measure).
struct RunResult {
  std::size_t id = 0;     ///< number among all runs of the sweep, also in a shard
  std::uint64_t key = 0;  ///< Sweep::key(): a hash of all that decides the row
  /// Sweep::point_hash(): a hash of what is placed and run: graph, cluster, engine and profile.
  std::uint64_t point = 0;
  std::size_t scenario = 0;  ///< into Results::scenarios
  std::size_t graph = 0;     ///< into Results::graphs
  std::string placer;
  /// The placer whose algorithm gave the placement: the placer's name, or Placement::placed_by; ""
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
  std::optional<Duration> value;        ///< what the measure says; if ok
  std::optional<Duration> lower_bound;  ///< of the value; nothing if none is known
  /// Wall clock: the only field in the files that differs from process to process.
  std::chrono::nanoseconds placing{};
  /// The processor time of all threads that placed; in no file, 0 in a row read from one.
  std::chrono::nanoseconds placing_processor{};
  std::optional<Bytes> peak, moved;        ///< if simulated; if oom, up to the failure
  std::optional<PeakMemory> at_peak;       ///< if simulated: of the device with the highest peak
  std::optional<Utilisation> utilisation;  ///< of a step that completed, by the measure step_time
  std::vector<Bytes> device_peaks;         ///< per device; not in the files
  std::string detail;                      ///< why the status is not ok, or the placer's remark
  std::vector<std::string> at;             ///< [axes]: the value of each swept key
  std::map<std::string, double> facts;
  std::string placement;  ///< device per op, a byte each (two, low first, of more than 256 devices)
  std::string picture;    ///< of the step (sim/report/picture.h); "" for most runs

  /// True if the placer found nothing that fits, and the option `fallback` did.
  bool fell_back() const { return placed_by.starts_with("fallback:"); }
  bool is_step_time() const { return measure == default_measure; }
};

/// Marks what RunResult::fell_back() says, and what the mark means.
inline constexpr const char* fallback_mark = "†";
inline constexpr const char* fallback_meaning =
    "†: placed by another algorithm (option fallback), where the placer found nothing that fits";

struct GraphRecord {
  std::string name;   ///< of the trace
  std::string label;  ///< the name; followed by the graph block if several graphs share the name
  std::string hash;   ///< of everything that a placer or the engine can see
  std::size_t ops = 0, edges = 0;
  std::int64_t batch = 0;  ///< samples per step; 0 if the trace does not say
  std::string source, format;
  std::string op_names;  ///< one line per op, by id; "" if no placements are kept
};

struct ScenarioRecord {
  std::string name, path, text;
  std::string sets;  ///< --set arguments, one per line
};

/// Everything in results except the rows.
struct ResultsHeader {
  std::string version;  ///< of the program
  std::string hash;     ///< of all that decides the rows: equal hashes mean equal rows
  std::size_t planned =
      0;  ///< runs of the scenarios; there are fewer rows if interrupted or a shard
  std::size_t missing = 0;  ///< runs that were to be run and were not: the run was interrupted
  std::string shard;        ///< "2/8" if the rows are one shard of several, else ""
  std::vector<ScenarioRecord> scenarios;
  std::vector<GraphRecord> graphs;
  std::vector<std::string> axes;  ///< swept keys
};

struct Results : ResultsHeader {
  std::vector<RunResult> rows;  ///< by id
};

/// Visits rows in the order of their ids, each once; they need not all be in memory.
using VisitRow = std::function<void(const RunResult&)>;
using EachRow = std::function<void(const VisitRow&)>;
EachRow each_row(const Results& results);  ///< `results` must outlive it

/// Reads results.sqlite in `folder`. Throws InputError as read_sqlite() does.
Results read_results(const std::string& folder);

}  // namespace baechi
