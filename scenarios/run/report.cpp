#include "scenarios/run/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "scenarios/run/chart.h"
#include "scenarios/run/tables.h"

namespace baechi {
namespace {

constexpr std::string_view style = R"css(
:root { color-scheme: light dark; --fg: #1b1f24; --bg: #ffffff; --soft: #667; --line: #d5d9df;
  --best: #e3f4e5; --oom: #fbdcd8; --infeasible: #fdeccb; --error: #e9d8f6; --grid: #e7e9ed; }
@media (prefers-color-scheme: dark) {
  :root { --fg: #e4e7eb; --bg: #15181c; --soft: #9aa3ad; --line: #3a4048;
    --best: #1d3a24; --oom: #55231f; --infeasible: #4c3a12; --error: #3c2a50; --grid: #2a2f36; } }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--fg); background: var(--bg);
  max-width: 1200px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin: 2em 0 .4em; }
p, summary { color: var(--soft); } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2em .6em; border: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--bg); }
thead th { font-weight: normal; color: var(--soft); text-align: center; }
td small { display: block; color: var(--soft); font-size: .8em; }
td.best { font-weight: bold; background: var(--best); } td.best small { font-weight: normal; }
td.oom { background: var(--oom); } td.infeasible { background: var(--infeasible); }
td.error { background: var(--error); }
.charts { display: flex; flex-wrap: wrap; gap: 1em; margin-top: 1em; }
svg { width: 460px; max-width: 100%; height: auto; font-size: 11px; fill: var(--fg); }
svg .y { text-anchor: end; fill: var(--soft); } svg .x { text-anchor: middle; fill: var(--soft); }
svg .head { font-weight: bold; } svg .grid { stroke: var(--grid); }
svg g path { fill: none; stroke-width: 1.8; }
.legend { display: flex; flex-wrap: wrap; gap: .2em 1.2em; padding: 0; list-style: none; }
.legend i { display: inline-block; width: 1.6em; border-top: 3px solid; margin-right: .4em;
  vertical-align: middle; }
pre { overflow-x: auto; border: 1px solid var(--line); padding: .8em; }
.bound path { stroke: var(--soft); stroke-dasharray: 5 4; } i.bound { color: var(--soft); }
)css";
/// Told apart by people who see few colours, on light and dark.
constexpr std::string_view colours[chart_colours] = {"#3d7fc4", "#e0872b", "#3a9e60", "#c9485b",
                                                     "#8a6bc9", "#9a6a4f", "#d271b5", "#7d848c",
                                                     "#a5a332", "#31a8b5"};

/// The axis that charts run along: its position among the table's axes.
std::size_t chart_axis(const ResultTable& table) {
  const auto it = std::ranges::find(table.axes, "memory fraction");
  return static_cast<std::size_t>(it == table.axes.end()
                                      ? table.axes.size() - 1
                                      : static_cast<std::size_t>(it - table.axes.begin()));
}

void append_cell(std::string& out, const ResultTable& table, const RunResult* r,
                 std::size_t column) {
  if (r == nullptr) {
    out += "<td>-</td>";
    return;
  }
  if (!r->step_time) {
    out += fmt::format("<td class=\"{}\" title=\"{}\">{}</td>", to_text(r->status),
                       escaped(r->detail), r->status == Status::oom ? "OOM" : to_text(r->status));
    return;
  }
  std::string gap;
  if (r->lower_bound > Duration::zero()) {
    const double over = static_cast<double>((*r->step_time - r->lower_bound).count()) /
                        static_cast<double>(r->lower_bound.count());
    gap =
        over < 9.995 ? fmt::format("+{:.0f} %", 100.0 * over) : fmt::format("x {:.0f}", over + 1.0);
  }
  const bool best = r->step_time == table.best(column)->step_time;
  out += fmt::format("<td{}{}>{}<small>{}</small></td>", best ? " class=\"best\"" : "",
                     r->detail.empty() ? "" : fmt::format(" title=\"{}\"", escaped(r->detail)),
                     short_text(*r->step_time), gap);
}

/// One line per axis; equal neighbours below equal ones are one cell.
void append_head(std::string& out, const ResultTable& table) {
  for (std::size_t a = 0; a < table.axes.size(); ++a) {
    out += fmt::format("<tr><th>{}</th>", escaped(table.axes[a]));
    for (std::size_t c = 0; c < table.columns.size();) {
      std::size_t end = c + 1;
      while (end < table.columns.size() &&
             std::equal(table.columns[c].begin(),
                        table.columns[c].begin() + static_cast<std::ptrdiff_t>(a) + 1,
                        table.columns[end].begin()))
        ++end;
      out += fmt::format("<th colspan=\"{}\">{}</th>", end - c,
                         escaped(short_value(table.columns[c][a])));
      c = end;
    }
    out += "</tr>\n";
  }
}

void append_table(std::string& out, const ResultTable& table) {
  out += "<div class=\"scroll\"><table>\n<thead>";
  append_head(out, table);
  out += "</thead>\n";
  for (const ResultTable::Row& row : table.rows) {
    out += fmt::format("<tr><th>{}</th>", escaped(row.name));
    for (std::size_t c = 0; c < row.cells.size(); ++c) append_cell(out, table, row.cells[c], c);
    out += "</tr>\n";
  }
  out += "<tr><th>lower bound</th>";
  for (const Duration bound : table.bounds) out += fmt::format("<td>{}</td>", short_text(bound));
  out += "</tr>\n</table></div>\n";
}

double seconds(Duration time) {
  return static_cast<double>(time.count()) * 1e-9;
}

/// One chart along `axis` for each setting of the other axes.
void append_charts(std::string& out, const ResultTable& table) {
  if (table.axes.empty()) return;
  const std::size_t axis = chart_axis(table);
  std::vector<std::pair<std::vector<std::string>, std::vector<std::size_t>>>
      groups;  // others -> columns
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    std::vector<std::string> others = table.columns[c];
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(axis));
    auto it = std::ranges::find(groups, others, [](const auto& g) { return g.first; });
    if (it == groups.end()) it = groups.insert(it, {others, {}});
    it->second.push_back(c);
  }
  std::string charts;
  for (const auto& [others, columns] : groups) {
    if (columns.size() < 2) continue;
    Chart chart{.title = {}, .x_name = table.axes[axis], .x = {}, .lines = {}};
    for (std::size_t a = 0, o = 0; a < table.axes.size(); ++a)
      if (a != axis)
        chart.title +=
            fmt::format("{}{} {}", o > 0 ? ", " : "", table.axes[a], short_value(others[o])),
            ++o;
    for (const std::size_t c : columns) chart.x.push_back(short_value(table.columns[c][axis]));
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      Chart::Line line{
          .name = table.rows[r].name, .colour = r % chart_colours, .y = {}, .notes = {}};
      for (const std::size_t c : columns) {
        const RunResult* run = table.rows[r].cells[c];
        const bool ok = run != nullptr && run->step_time;
        line.y.push_back(ok ? std::optional(seconds(*run->step_time)) : std::nullopt);
        line.notes.push_back(ok ? fmt::format("{}, {}: {}", line.name, table.columns[c][axis],
                                              short_text(*run->step_time))
                                : "");
      }
      chart.lines.push_back(std::move(line));
    }
    Chart::Line bound{.name = "lower bound", .colour = chart_colours, .y = {}, .notes = {}};
    for (const std::size_t c : columns) bound.y.emplace_back(seconds(table.bounds[c]));
    chart.lines.push_back(std::move(bound));
    charts += to_svg(chart);
  }
  if (charts.empty()) return;
  out += "<div class=\"charts\">\n" + charts + "</div>\n<ul class=\"legend\">";
  for (std::size_t r = 0; r < table.rows.size(); ++r)
    out += fmt::format("<li><i class=\"s{}\"></i>{}</li>", r % chart_colours,
                       escaped(table.rows[r].name));
  out += "<li><i class=\"bound\"></i>lower bound</li></ul>\n";
}

void append_summary(std::string& out, const Results& results) {
  out +=
      "<h2>All runs</h2>\n<div "
      "class=\"scroll\"><table>\n<thead><tr><th>placer</th><th>ok</th><th>OOM</th>"
      "<th>infeasible</th><th>error</th><th>fastest in</th><th>x its bound</th></tr></thead>\n";
  for (const PlacerSummary& s : summarise(results))
    out += fmt::format(
        "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        escaped(s.placer), s.ok, s.oom, s.infeasible, s.error, s.best,
        s.over_bound > 0.0 ? fmt::format("{:.2f}", s.over_bound) : "-");
  out += "</table></div>\n<p>x its bound: geometric mean of step time over lower bound.</p>\n";
}

}  // namespace

std::string to_html(const Results& results) {
  std::string name = "results";
  if (!results.scenarios.empty()) name = results.scenarios.front().name;
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>{}</title>\n<style>{}",
      escaped(name), style);
  for (std::size_t i = 0; i < chart_colours; ++i)
    out += fmt::format(
        "svg .s{0} path {{ stroke: {1}; }} svg .s{0} circle {{ fill: {1}; }} i.s{0} {{ color: {1}; "
        "}}\n",
        i, colours[i]);
  out += fmt::format(
      "</style></head>\n<body>\n<h1>{}</h1>\n<p>{} of {} runs, baechi {}, hash {}. Below each step "
      "time: how far it is above the lower bound.</p>\n",
      escaped(name), results.rows.size(), results.planned, results.version, results.hash);
  append_summary(out, results);
  for (const ResultTable& table : result_tables(results)) {
    const GraphRecord& graph = results.graphs[table.graph];
    out += fmt::format("<h2>{}: {}</h2>\n<p>{} ops, {} edges</p>\n",
                       escaped(results.scenarios[table.scenario].name), escaped(graph.label),
                       graph.ops, graph.edges);
    append_table(out, table);
    append_charts(out, table);
  }
  for (const ScenarioRecord& s : results.scenarios)
    out += fmt::format("<details><summary>{}</summary><pre>{}{}</pre></details>\n", escaped(s.path),
                       escaped(s.text), s.sets.empty() ? "" : "\n# with: " + escaped(s.sets));
  return out + "</body></html>\n";
}

}  // namespace baechi
