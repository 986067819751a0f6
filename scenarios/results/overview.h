/// An overview of results for people: tables, and a comparison of the placers over all points.
#pragma once
#include <string>
#include <vector>

#include "scenarios/results/comparison.h"
#include "scenarios/results/results.h"

namespace baechi {

/// The results of the placers over all points, for the terminal and the page.
struct Summary {
  std::vector<std::string> header{};
  std::vector<std::vector<std::string>> rows{};  ///< the best placer first
  std::string note{};                            ///< meaning of the columns
};
Summary summary_of(const Comparison& comparison);
/// The ratio by which placers are ranked, failures and placing times alone.
Summary brief_summary_of(const Comparison& comparison);

/// An overview of possibly very many runs: the first rows, and a comparison of all.
class Overview {
 public:
  explicit Overview(const ResultsHeader& header) : shown_{header, {}} {}
  void add(const RunResult& row);  ///< in the order of ids

  static constexpr std::size_t most_rows = 20'000;
  const Results& shown() const { return shown_; }     ///< the first `most_rows`, without placements
  std::size_t num_rows() const { return num_rows_; }  ///< rows added
  std::size_t num_drawn() const { return num_drawn_; }  ///< rows with a picture
  /// One for each measure, in the order of the first runs.
  std::vector<Contest> contests() const;

 private:
  Results shown_;
  std::size_t num_rows_ = 0, num_drawn_ = 0;
  std::vector<std::pair<std::string, ContestBuilder>> contests_;  // by measure
};
Overview overview(const Results& results);

/// The default tolerance: step times that differ by at most this fraction are a tie.
inline constexpr double usual_tolerance = 0.001;

/// The overview as text: a table per graph, columns wrapped to `width`, then the summary. The best
/// of each column is bold if `colour`. If the tables take more than `most_lines` lines, only the
/// summary is printed.
std::string to_text_tables(const Overview& overview, bool colour, std::size_t width = 100,
                           std::size_t most_lines = 400);

}  // namespace baechi
