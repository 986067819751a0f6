#include "scenarios/results/overview.h"

#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/results/tables.h"

namespace baechi {
namespace {

std::string mean_text(const MeanRatio& ratio) {
  return ratio.points > 0 ? fmt::format("{:.3f}", ratio.mean) : "-";
}

using Ordered = nlohmann::ordered_json;

std::string ratio_text(const MeanRatio& ratio) {
  if (ratio.points == 0) return "-";
  std::string text = fmt::format("{:.3f}", ratio.mean);
  if (ratio.interval)
    text += fmt::format(" ({:.3f}-{:.3f})", ratio.interval->low, ratio.interval->high);
  return text;
}

Ordered ratio_json(const MeanRatio& ratio) {
  return ratio.points > 0 ? Ordered(ratio.mean) : Ordered();
}
Ordered interval_json(const MeanRatio& ratio) {
  return ratio.interval ? Ordered{ratio.interval->low, ratio.interval->high} : Ordered();
}

std::string p_text(double p) {
  return p < 0.001 ? fmt::format("{:.1e}", p) : fmt::format("{:.3f}", p);
}

/// The p of signed ranks if all graphs differ in one direction.
double least_p(const Comparison& comparison) {
  return std::min(
      1.0, std::ldexp(2.0, -static_cast<int>(std::min<std::size_t>(comparison.graphs, 1000))));
}

Ordered profiles_json(std::span<const Profile> profiles) {
  Ordered json = Ordered::array();
  for (const Profile& profile : profiles)
    json.push_back(
        {{"name", profile.placer}, {"points", profile.points}, {"ratios", profile.ratios}});
  return json;
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

std::string marked(const PlacerScore& score) {
  return score.fell_back > 0 ? fmt::format("{} {}", score.placer, fallback_mark) : score.placer;
}

std::string fallback_note(const Comparison& comparison) {
  std::string text;
  for (const PlacerScore& s : comparison.placers)
    if (s.fell_back > 0)
      text += fmt::format("{} {} at {}", text.empty() ? "" : ",", s.placer, s.fell_back);
  return text.empty() ? "" : fmt::format(" {}, points:{}.", fallback_meaning, text);
}

Summary score_table(const Comparison& comparison) {
  Summary table{.header = {"placer", "ok", "OOM", "infeasible", "error", "fastest in",
                           "x best (failed: worst)", "x best", "x bound (failed: worst)", "x bound",
                           "placing"}};
  for (const PlacerScore& s : comparison.placers)
    table.rows.push_back({marked(s), fmt::format("{}", s.solved), fmt::format("{}", s.oom),
                          fmt::format("{}", s.infeasible), fmt::format("{}", s.error),
                          fmt::format("{}", s.best), ratio_text(s.to_best_or_worst),
                          ratio_text(s.to_best), ratio_text(s.to_bound_or_worst),
                          ratio_text(s.to_bound), short_text(s.placing)});
  table.note = fmt::format(
      "Geometric means over the {} points (graphs: {}) that every placer solves; (failed: worst): "
      "over the {} that any placer solves, {}. Brackets: 95 % bootstrap intervals over graphs. "
      "Placing: the median.{}",
      comparison.solved_by_all, comparison.graphs, comparison.points, failure_rule,
      fallback_note(comparison));
  return table;
}

Summary duel_matrix(const Comparison& comparison) {
  const std::size_t n = comparison.placers.size();
  Summary table{.header = {"wins / ties / losses"}};
  std::vector<std::vector<std::string>> cells(n, std::vector<std::string>(n, ""));
  for (const Duel& d : comparison.duels) {
    cells[d.a][d.b] = fmt::format("{} / {} / {}", d.wins, d.ties, d.losses);
    cells[d.b][d.a] = fmt::format("{} / {} / {}", d.losses, d.ties, d.wins);
  }
  for (std::size_t i = 0; i < n; ++i) {
    table.header.push_back("vs " + comparison.placers[i].placer);
    cells[i].insert(cells[i].begin(), comparison.placers[i].placer);
  }
  table.rows = std::move(cells);
  table.note = fmt::format(
      "The row's placer against the column's, by points. A tie: step times within {:.4g} % of each "
      "other, or none of either.",
      100.0 * comparison.tolerance);
  return table;
}

Summary duel_table(const Comparison& comparison) {
  Summary table{.header = {"pair", "n", "ratio (95 %)", "graphs", "p", "p (Holm)"}};
  for (const Duel& d : comparison.duels)
    table.rows.push_back(
        {fmt::format("{} / {}", comparison.placers[d.a].placer, comparison.placers[d.b].placer),
         fmt::format("{}", d.ratio.points), ratio_text(d.ratio), fmt::format("{}", d.graphs),
         p_text(d.p), p_text(d.p_holm)});
  const double least = least_p(comparison);
  table.note = fmt::format(
      "Ratio: step times where both have one (n points). p: Wilcoxon's signed ranks of the graphs "
      "that differ, a failure as above; Holm: corrected for all pairs. {} graph{} can show no p "
      "below {}, nor {} pair{} of placers one below {} (Holm).",
      comparison.graphs, comparison.graphs == 1 ? "" : "s", p_text(least), comparison.duels.size(),
      comparison.duels.size() == 1 ? "" : "s",
      p_text(std::min(1.0, least * static_cast<double>(comparison.duels.size()))));
  return table;
}

std::vector<std::string> table_lines(const Summary& table) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < table.header.size(); ++c) {
    widths.push_back(table.header[c].size());
    for (const auto& row : table.rows) widths[c] = std::max(widths[c], row[c].size());
  }
  std::vector<std::string> lines;
  const auto add = [&](const std::vector<std::string>& cells) {
    std::string& line = lines.emplace_back(fmt::format("  {:<{}}", cells[0], widths[0]));
    for (std::size_t c = 1; c < cells.size(); ++c)
      line += fmt::format("  {:>{}}", cells[c], widths[c]);
  };
  add(table.header);
  std::ranges::for_each(table.rows, add);
  return lines;
}

std::string text_of(const Summary& table) {
  return fmt::format("{}\n  {}\n", fmt::join(table_lines(table), "\n"), table.note);
}

std::string latex_of(const Summary& table) {
  const auto escaped = [](std::string_view text) {
    constexpr std::string_view dagger = fallback_mark;
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (text.substr(i).starts_with(dagger)) {
        out += "\\textdagger{}";
        i += dagger.size() - 1;
      } else if (std::string_view("&%$#_{}").find(c) != std::string_view::npos) {
        out += {'\\', c};
      } else if (c == '~' || c == '^' || c == '\\') {
        out += c == '~'   ? "\\textasciitilde{}"
               : c == '^' ? "\\textasciicircum{}"
                          : "\\textbackslash{}";
      } else {
        out += c;
      }
    }
    return out;
  };
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (const std::string& cell : cells)
      text += (&cell == cells.data() ? "" : " & ") + escaped(cell);
    return text + " \\\\\n";
  };
  std::string out = "\\begin{tabular}{l" + std::string(table.header.size() - 1, 'r') +
                    "}\n\\hline\n" + line(table.header) + "\\hline\n";
  for (const auto& row : table.rows) out += line(row);
  return out + "\\hline\n\\end{tabular}\n\n" + escaped(table.note) + "\n";
}

nlohmann::ordered_json comparison_json(const Contest& contest, const Comparison& c) {
  Ordered placers = Ordered::array(), pairs = Ordered::array();
  for (const PlacerScore& s : c.placers)
    placers.push_back({{"name", s.placer},
                       {"solved", s.solved},
                       {"oom", s.oom},
                       {"infeasible", s.infeasible},
                       {"error", s.error},
                       {"fastest", s.best},
                       {"failures", s.failures},
                       {"fell_back", s.fell_back},
                       {"ratio_to_best", ratio_json(s.to_best)},
                       {"ratio_to_best_interval", interval_json(s.to_best)},
                       {"ratio_to_bound", ratio_json(s.to_bound)},
                       {"ratio_to_bound_interval", interval_json(s.to_bound)},
                       {"ratio_to_best_failed_worst", ratio_json(s.to_best_or_worst)},
                       {"ratio_to_best_failed_worst_interval", interval_json(s.to_best_or_worst)},
                       {"ratio_to_bound_failed_worst", ratio_json(s.to_bound_or_worst)},
                       {"ratio_to_bound_failed_worst_interval", interval_json(s.to_bound_or_worst)},
                       {"placing_ms", static_cast<double>(s.placing.count()) / 1e6}});
  for (const Duel& d : c.duels)
    pairs.push_back({{"a", c.placers[d.a].placer},
                     {"b", c.placers[d.b].placer},
                     {"wins", d.wins},
                     {"ties", d.ties},
                     {"losses", d.losses},
                     {"points", d.ratio.points},
                     {"ratio", ratio_json(d.ratio)},
                     {"interval", interval_json(d.ratio)},
                     {"graphs", d.graphs},
                     {"p", d.p},
                     {"p_holm", d.p_holm}});
  return {{"points", c.points},
          {"solved_by_all", c.solved_by_all},
          {"graphs", c.graphs},
          {"tolerance", c.tolerance},
          {"least_p", least_p(c)},
          {"placers", std::move(placers)},
          {"pairs", std::move(pairs)},
          {"profiles",
           {{"step_time", profiles_json(step_profiles(contest, c))},
            {"placing_time", profiles_json(placing_profiles(contest, c))}}}};
}

std::string profiles_csv(std::span<const Profile> steps, std::span<const Profile> placing) {
  std::string text = "measure,placer,ratio,share\n";
  for (const auto& [measure, profiles] :
       {std::pair{"step_time", steps}, std::pair{"placing_time", placing}})
    for (const Profile& profile : profiles)
      for (std::size_t i = 0; i < profile.ratios.size(); ++i)
        text += fmt::format("{},{},{:.6g},{:.6g}\n", measure,
                            csv_cell(profile.placer, ColumnType::text), profile.ratios[i],
                            profile.share(i));
  return text;
}

}  // namespace baechi
