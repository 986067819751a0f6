/// Results as tables for people: a row per placer, a column per point of the sweep.
#pragma once
#include <string>
#include <vector>

#include "scenarios/results/results.h"

namespace baechi {

/// One scenario's runs on one graph, by one measure: a table has no two kinds of figures. What
/// transforms make of a graph is the same graph here.
struct ResultTable {
  std::size_t scenario = 0;
  std::size_t graph = 0;  ///< the first run's
  std::string measure{}, unit{};
  std::vector<std::string> axes{};  ///< the swept keys that vary in this table, as people call them
  std::vector<std::vector<std::string>> columns{};  ///< [columns, axes]: the swept values
  std::vector<std::vector<std::string>> shown{};    ///< [columns, axes]: the same in short
  std::vector<std::optional<Duration>> bounds{};    ///< [columns]
  struct Row {
    std::string name;  ///< the placer; followed by the seed if there are several seeds
    std::vector<const RunResult*> cells;  ///< [columns]; null: not run
  };
  std::vector<Row> rows{};

  /// The run with the least value; ties: the first. Null if no run is ok.
  const RunResult* best(std::size_t column) const;
  bool is_step_time() const { return measure == default_measure; }
  /// What the values are: "step time", "max_load per sample".
  std::string figure() const;
  /// What follows the graph in a title: ", " and the figure; "" of step times.
  std::string title() const;
  bool has_peaks() const;  ///< whether the measure follows memory
};

/// The graph and the swept values of a column: "gnmt, devices 4, memory fraction 0.4".
std::string point_label(const Results& results, const ResultTable& table, std::size_t column);

/// In the order of scenarios, then graphs, then measures. The tables refer to `results`.
std::vector<ResultTable> result_tables(const Results& results);

/// How a placer did over all points by one measure: a line of the summary.
struct PlacerSummary {
  std::string placer, measure;
  std::size_t ok = 0, oom = 0, infeasible = 0, error = 0;
  std::size_t best = 0;     ///< points where no placer has a lesser value
  double over_bound = 0.0;  ///< geometric mean of value / lower bound, where ok and above 0
};

/// An overview of runs that may be very many: the first rows, and a summary of all.
class Overview {
 public:
  explicit Overview(const ResultsHeader& header) : shown_{header, {}} {}
  void add(const RunResult& row);  ///< in the order of ids

  static constexpr std::size_t most_rows = 20'000;
  const Results& shown() const { return shown_; }     ///< the first `most_rows`, without placements
  std::size_t num_rows() const { return num_rows_; }  ///< how many were added
  std::size_t num_drawn() const { return num_drawn_; }  ///< how many have a picture
  /// By measure, then by placer, each in the order of the first runs.
  std::vector<PlacerSummary> summary() const;

 private:
  struct Tally {
    PlacerSummary summary{};
    double logs = 0.0;
    std::size_t counted = 0;
  };
  /// Values at the point that is being added, each placer once for each measure.
  struct Contest {
    std::vector<std::pair<std::size_t, Duration>> values;  // (into tallies_, its best seed)
    void count(std::vector<Tally>& tallies) const;
  };
  std::size_t tally_of(const RunResult& row);

  Results shown_;
  std::size_t num_rows_ = 0, num_drawn_ = 0;
  std::vector<Tally> tallies_;
  Contest contest_;
  std::size_t scenario_ = 0, graph_ = 0;  // of the point, as the next
  std::vector<std::string> at_;
};

/// Three digits and a unit: "12.3 ms".
std::string short_text(Duration time);

/// A swept value, shortened: the file's name of a path, the beginning of a block.
std::string short_value(const std::string& value);
/// The same of the values of one axis. Blocks that begin alike are shown from where they differ:
/// "...mode: zero1}}". [values]
std::vector<std::string> short_values(const std::vector<std::string>& values);

/// "82 ops"; "82 to 132 ops" if transforms change their number.
std::string ops_text(const Results& results, const ResultTable& table);

/// The overview as text: a table per graph, columns wrapped to `width`, then the summary. The best
/// of each column is bold if `colour`. If the tables take more than `most_lines` lines, only the
/// summary is printed.
std::string to_text_tables(const Overview& overview, bool colour, std::size_t width = 100,
                           std::size_t most_lines = 400);
Overview overview(const Results& results);

}  // namespace baechi
