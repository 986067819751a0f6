/// Results as people read them: placers against the points of the sweep.
#pragma once
#include <string>
#include <vector>

#include "scenarios/run/results.h"

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
std::vector<PlacerSummary> summarise(const Results& results);  ///< in the order of the first runs

/// Three digits and a unit: "12.3 ms".
std::string short_text(Duration time);

/// A swept value where there is little room: of a path the file's name, of a block its beginning.
std::string short_value(const std::string& value);

/// All of it as text: a table per graph, columns wrapped to `width`, then the summary; the best of
/// each column bold if `colour`. More than `most_lines` lines become the summary alone.
std::string to_text_tables(const Results& results, bool colour, std::size_t width = 100,
                           std::size_t most_lines = 400);

}  // namespace baechi
