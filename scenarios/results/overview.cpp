#include "scenarios/results/overview.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/results/comparison_text.h"
#include "scenarios/results/tables.h"

namespace baechi {
namespace {

std::string mean_text(const MeanRatio& ratio) {
  return ratio.points > 0 ? fmt::format("{:.3f}", ratio.mean) : "-";
}

}  // namespace

Summary summary_of(const Comparison& comparison) {
  Summary summary{.header = {"placer", "ok", "OOM", "infeasible", "error", "fastest in",
                             "x best (failed: worst)", "x best", "x bound", "placing"}};
  for (const PlacerScore& s : comparison.placers)
    summary.rows.push_back({marked(s), fmt::format("{}", s.solved), fmt::format("{}", s.oom),
                            fmt::format("{}", s.infeasible), fmt::format("{}", s.error),
                            fmt::format("{}", s.best), mean_text(s.to_best_or_worst),
                            mean_text(s.to_best), mean_text(s.to_bound), short_text(s.placing)});
  summary.note = fmt::format(
      "{}Geometric means over the {} points that every placer solves; (failed: worst): over the {} "
      "that any placer solves, {}. Placing: the median.{}",
      comparison.measure == default_measure ? "" : fmt::format("By {}. ", comparison.measure),
      comparison.solved_by_all, comparison.points, failure_rule, fallback_note(comparison));
  return summary;
}

Summary brief_summary_of(const Comparison& comparison) {
  Summary summary{.header = {"placer", "x best", "failures", "placing"}};
  for (const PlacerScore& s : comparison.placers)
    summary.rows.push_back({marked(s), mean_text(s.to_best_or_worst),
                            fmt::format("{}", s.oom + s.infeasible + s.error),
                            short_text(s.placing)});
  summary.note = fmt::format("x best: times the fastest placer, a geometric mean; {}.{}",
                             failure_rule, fallback_note(comparison));
  return summary;
}

void Overview::add(const RunResult& row) {
  ++num_rows_;
  num_drawn_ += row.picture.empty() ? 0U : 1U;
  if (shown_.rows.size() < most_rows) {
    shown_.rows.push_back(row);
    std::string().swap(shown_.rows.back().placement);
  }
  auto it = std::ranges::find(contests_, row.measure, [](const auto& c) { return c.first; });
  if (it == contests_.end()) it = contests_.insert(it, {row.measure, {}});
  it->second.add(row);
}

std::vector<Contest> Overview::contests() const {
  std::vector<Contest> all;
  for (const auto& [measure, builder] : contests_) all.push_back(builder.contest());
  return all;
}

Overview overview(const Results& results) {
  Overview overview(results);
  for (const RunResult& row : results.rows) overview.add(row);
  return overview;
}

std::string to_text_tables(const Overview& overview, bool colour, std::size_t width,
                           std::size_t most_lines) {
  std::string out;
  for (const ResultTable& table : result_tables(overview.shown()))
    append_table(out, table, overview.shown(), colour, width);
  if (static_cast<std::size_t>(std::ranges::count(out, '\n')) > most_lines) out.clear();
  for (const Contest& contest : overview.contests())
    out += text_of(summary_of(compare(contest, usual_tolerance)));
  return out;
}

}  // namespace baechi
