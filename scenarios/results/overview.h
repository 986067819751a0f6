/// An overview of results for people, and a comparison of placers: tables, and JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "scenarios/results/comparison.h"

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

/// The overview as text: a table per graph, columns wrapped to `width`, then the summary. The best
/// of each column is bold if `colour`. If the tables take more than `most_lines` lines, only the
/// summary is printed.
std::string to_text_tables(const Overview& overview, bool colour, std::size_t width = 100,
                           std::size_t most_lines = 400);

/// How a ratio counts a failure.
inline constexpr const char* failure_rule =
    "a failure with the largest ratio of all, and at least 10; placers with failures rank below "
    "the others";
/// The placer's name, marked if `fallback` placed for it; and the meaning of the marks, "" if there
/// are none.
std::string marked(const PlacerScore& score);
std::string fallback_note(const Comparison& comparison);

/// Per placer: ratios with their intervals, in the order of the comparison.
Summary score_table(const Comparison& comparison);
/// Wins, ties and losses of each row against each column: "12 / 3 / 0".
Summary duel_matrix(const Comparison& comparison);
/// Per pair: the ratio of their step times, its interval, and p.
Summary duel_table(const Comparison& comparison);

/// The header and the rows of a table; the first column is left-aligned, all others right-aligned.
std::vector<std::string> table_lines(const Summary& table);
/// These with the note.
std::string text_of(const Summary& table);
/// The same as a LaTeX tabular, and the note as a paragraph; needs no package.
std::string latex_of(const Summary& table);

/// {"points", "solved_by_all", "graphs", "tolerance",
///  "placers": [{"name", "solved", "oom", "infeasible", "error", "fastest", "failures",
///               "fell_back", "ratio_to_best", "ratio_to_best_interval", "ratio_to_bound", ...,
///               "placing_ms"}],
///  "pairs": [{"a", "b", "wins", "ties", "losses", "ratio", "interval", "p", "p_holm"}],
///  "profiles": {"step_time": [{"name", "points", "ratios"}], "placing_time": [...]}}
/// A ratio over no points and an interval over fewer than two graphs are null.
nlohmann::ordered_json comparison_json(const Contest& contest, const Comparison& comparison);

/// "measure,placer,ratio,share": a line for each point of each profile.
std::string profiles_csv(std::span<const Profile> steps, std::span<const Profile> placing);

}  // namespace baechi
