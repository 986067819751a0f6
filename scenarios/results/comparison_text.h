/// A comparison of placers as tables and as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "scenarios/results/comparison.h"
#include "scenarios/results/overview.h"

namespace baechi {

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

/// A table with its note; the first column is left-aligned, all others right-aligned.
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
