/// Results as people read them: placers against the points of the sweep.
#pragma once
#include <string>
#include <vector>

#include "scenarios/results/results.h"

namespace baechi {

/// One scenario's runs on one graph.
struct ResultTable {
  std::size_t scenario = 0, graph = 0;
  std::vector<std::string> axes{};                  ///< those that vary here, as people call them
  std::vector<std::vector<std::string>> columns{};  ///< [columns, axes]: the values
  std::vector<Duration> bounds{};                   ///< [columns]
  struct Row {
    std::string name;                     ///< the placer; with the seed where there are several
    std::vector<const RunResult*> cells;  ///< [columns]; null: not run
  };
  std::vector<Row> rows{};

  const RunResult* best(std::size_t column) const;  ///< the fastest; ties: the first. Null if none
};

/// "gnmt, devices 4, memory fraction 0.4": the graph, and where a column of its table is.
std::string point_label(const Results& results, const ResultTable& table, std::size_t column);

/// In the order of scenarios, then graphs. The tables refer to `results`.
std::vector<ResultTable> result_tables(const Results& results);

/// How a placer did over all: a line of a summary.
struct PlacerSummary {
  std::string placer;
  std::size_t ok = 0, oom = 0, infeasible = 0, error = 0;
  std::size_t best = 0;     ///< points where nobody was faster
  double over_bound = 0.0;  ///< geometric mean of step time / lower bound, where ok and above 0
};

/// What people look at of runs that may be very many: the first, and a summary of all.
class Overview {
 public:
  explicit Overview(const ResultsHeader& header) : shown_{header, {}} {}
  void add(const RunResult& row);  ///< by id

  static constexpr std::size_t most_rows = 20'000;
  const Results& shown() const { return shown_; }     ///< the first `most_rows`, without placements
  std::size_t num_rows() const { return num_rows_; }  ///< all that were added
  std::size_t num_drawn() const { return num_drawn_; }  ///< that have a picture
  std::vector<PlacerSummary> summary() const;           ///< in the order of the first runs

 private:
  struct Tally {
    PlacerSummary summary{};
    double logs = 0.0;
    std::size_t counted = 0;
  };
  /// Step times at the point that is being added, each placer once.
  struct Contest {
    std::vector<std::pair<std::size_t, Duration>> times;  // (into tallies_, its fastest seed)
    void count(std::vector<Tally>& tallies) const;
  };
  std::size_t tally_of(const std::string& placer);

  Results shown_;
  std::size_t num_rows_ = 0, num_drawn_ = 0;
  std::vector<Tally> tallies_;
  Contest contest_;
  std::size_t scenario_ = 0, graph_ = 0;  // of the point, as the next
  std::vector<std::string> at_;
};

/// Three digits and a unit: "12.3 ms".
std::string short_text(Duration time);

/// A swept value where there is little room: of a path the file's name, of a block its beginning.
std::string short_value(const std::string& value);

/// All of it as text: a table per graph, columns wrapped to `width`, then the summary; the best of
/// each column bold if `colour`. More than `most_lines` lines become the summary alone.
std::string to_text_tables(const Overview& overview, bool colour, std::size_t width = 100,
                           std::size_t most_lines = 400);
Overview overview(const Results& results);

}  // namespace baechi
