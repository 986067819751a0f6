/// Results as tables for people: a row per placer, a column per point of the sweep.
#pragma once

#include "scenarios/results/overview.h"

namespace baechi {

struct AxisScale {
  enum class Kind : std::uint8_t { linear, logarithmic, words };
  Kind kind = Kind::words;
  std::vector<double> at{};  ///< [values.size()]; 0, 1, 2, ... for words
};

/// The scale of `values`, which are distinct. Numbers, or quantities of one unit (sizes, times,
/// bandwidths), are numeric, in any swept order. They are logarithmic if the largest is at least 8
/// times the smallest and their ratios are more uniform than their differences. Other values are
/// words, without an order.
AxisScale axis_scale(std::span<const std::string> values);

/// Short, distinct texts of swept values: paths without folders and extensions, mappings and lists
/// without brackets. [values.size()]
std::vector<std::string> short_values(std::span<const std::string> values);

/// One scenario's runs on one graph by one measure; all values have one unit. A transformed graph
/// counts as the same graph.
struct ResultTable {
  std::size_t scenario = 0;
  std::size_t graph = 0;  ///< of the first run
  std::string measure{}, unit{};
  std::vector<std::string> axes{};  ///< short names of the swept keys that vary in this table
  std::vector<std::vector<std::string>> columns{};  ///< [columns, axes]: the swept values
  std::vector<std::vector<std::string>> shown{};    ///< [columns, axes]: the same, shortened
  std::vector<std::optional<Duration>> bounds{};    ///< [columns]
  struct Row {
    std::string name;  ///< the placer; followed by the seed if there are several seeds
    std::vector<const RunResult*> cells;  ///< [columns]; null: not run
  };
  std::vector<Row> rows{};

  /// The run with the least value; ties: the first. Null if no run is ok.
  const RunResult* best(std::size_t column) const;
  bool is_step_time() const { return measure == default_measure; }
  /// The name of the values, without the measure's options: "step time", "pipeline per
  /// micro-batch".
  std::string figure() const;
  std::string per() const;  ///< " per micro-batch"
  /// The suffix of a title after the graph: ", ", the measure with its options, and per(); "" for
  /// step times.
  std::string title() const;
  bool has_peaks() const;  ///< whether the measure simulates memory
  bool fell_back() const;  ///< whether another algorithm placed for some placer
};

/// The graph and the swept values of a column: "gnmt, devices 4, memory fraction 0.4".
std::string point_label(const Results& results, const ResultTable& table, std::size_t column);

/// Ordered by scenario, graph and measure. The tables refer to `results`.
std::vector<ResultTable> result_tables(const Results& results);

/// Three digits and a unit: "12.3 ms".
std::string short_text(Duration time);

/// A swept value, shortened: the file name of a path, the start of a mapping or list.
std::string short_value(const std::string& value);
/// "82 ops"; "82 to 132 ops" if transforms change their number.
std::string ops_text(const Results& results, const ResultTable& table);

/// A table as text, with a line that names its scenario and graph, columns wrapped to `width`. The
/// best of each column is bold if `colour`.
void append_table(std::string& out, const ResultTable& table, const Results& results, bool colour,
                  std::size_t width);

/// A run with a step time whose graph gives the ops' work.
struct UsedRun {
  const RunResult* run;
  std::string label;  ///< graph, point and placer
};

/// The first `most` such runs of the tables; `all` is their total number.
struct UsedRuns {
  std::vector<UsedRun> shown{};
  std::size_t all = 0;
};
UsedRuns used_runs(const Results& results, std::span<const ResultTable> tables, std::size_t most);

/// A row per run: step time, samples/s, TFLOP/s and fractions of the devices.
Summary utilisation_table(const Results& results, const UsedRuns& runs);

}  // namespace baechi
