#include "scenarios/report/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/report/page_data.h"
#include "scenarios/results/tables.h"

namespace baechi {

// scenarios/run/page/, and Chart.js: put into page.cpp when the program is built.
extern const char *const page_css, *const page_charts_js, *const page_steps_js, *const chart_js;

namespace {

/// `text` with what HTML would read as its own replaced.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

void append_cell(std::string& out, const ResultTable& table, const RunResult* r,
                 std::size_t column) {
  if (r == nullptr) {
    out += "<td>-</td>";
    return;
  }
  const std::string run = r->picture.empty() ? "" : fmt::format(" data-run=\"{}\"", r->id);
  if (!r->value) {
    out +=
        fmt::format("<td class=\"{}\" title=\"{}\"{}>{}</td>", to_text(r->status),
                    escaped(r->detail), run, r->status == Status::oom ? "OOM" : to_text(r->status));
    return;
  }
  std::string gap;
  if (r->lower_bound.value_or(Duration{}) > Duration::zero()) {
    const double over = static_cast<double>((*r->value - *r->lower_bound).count()) /
                        static_cast<double>(r->lower_bound->count());
    gap =
        over < 9.995 ? fmt::format("+{:.0f} %", 100.0 * over) : fmt::format("x {:.0f}", over + 1.0);
  }
  const bool best = r->value == table.best(column)->value;
  out += fmt::format("<td{}{}{}>{}<small>{}</small></td>", best ? " class=\"best\"" : "",
                     r->detail.empty() ? "" : fmt::format(" title=\"{}\"", escaped(r->detail)), run,
                     short_text(*r->value), gap);
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
      out += fmt::format("<th colspan=\"{}\">{}</th>", end - c, escaped(table.shown[c][a]));
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
  for (const auto& bound : table.bounds)
    out += fmt::format("<td>{}</td>", bound ? short_text(*bound) : "-");
  out += "</tr>\n</table></div>\n";
}

void append_summary(std::string& out, const Overview& overview) {
  const std::vector<PlacerSummary> all = overview.summary();
  out += "<h2>All runs</h2>\n";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const PlacerSummary& s = all[i];
    if (i == 0 || s.measure != all[i - 1].measure) {
      if (i > 0) out += "</table></div>\n";
      if (s.measure != default_measure || all.back().measure != default_measure)
        out += fmt::format("<h3>{}</h3>\n", escaped(s.measure));
      out +=
          "<div "
          "class=\"scroll\"><table>\n<thead><tr><th>placer</th><th>ok</th><th>OOM</th>"
          "<th>infeasible</th><th>error</th><th>fastest in</th><th>x its bound</th></tr></thead>\n";
    }
    out += fmt::format(
        "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        escaped(s.placer), s.ok, s.oom, s.infeasible, s.error, s.best,
        s.over_bound > 0.0 ? fmt::format("{:.2f}", s.over_bound) : "-");
  }
  out +=
      "</table></div>\n<p>x its bound: geometric mean of a value, such as a step time, over its "
      "lower bound.</p>\n";
}

constexpr std::size_t most_cells = Overview::most_rows;  // of all tables: a page of a few megabytes

/// Leaves the tables with `most` cells: those behind lose columns, and are gone without any.
/// Returns how many runs they have left.
std::size_t shorten(std::vector<ResultTable>& tables, std::size_t most) {
  std::size_t left = 0;
  for (ResultTable& table : tables) {
    const std::size_t rows = table.rows.size();
    const std::size_t columns =
        std::min(table.columns.size(), most / std::max<std::size_t>(1, rows));
    most -= rows * columns;
    table.columns.resize(columns);
    table.bounds.resize(columns);
    for (ResultTable::Row& row : table.rows) {
      row.cells.resize(columns);
      left += columns - static_cast<std::size_t>(std::ranges::count(row.cells, nullptr));
    }
  }
  std::erase_if(tables, [](const ResultTable& table) { return table.columns.empty(); });
  return left;
}

void append_steps(std::string& out, const Overview& overview) {
  if (overview.num_drawn() == 0) return;
  out += fmt::format(
      "<h2>One step</h2>\n<p>Of {} of {} runs: underlined in the tables above, click there or "
      "choose here. `report: {{pictures: N}}` of the scenario draws more, `baechi run --timelines "
      "all` writes all as files for ui.perfetto.dev. The wheel zooms, dragging moves, a double "
      "click shows all; neighbours too short to be seen are drawn together.</p>\n"
      "<div id=\"steps\"></div>\n",
      overview.num_drawn(), overview.num_rows());
}

}  // namespace

std::string to_html(const Results& results) {
  return to_html(overview(results));
}

std::string to_html(const Overview& overview) {
  const Results& results = overview.shown();
  std::string name = "results";
  if (!results.scenarios.empty()) name = results.scenarios.front().name;
  std::vector<ResultTable> tables = result_tables(results);
  const std::size_t left_out = overview.num_rows() - shorten(tables, most_cells);
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>{}</title>\n<style>{}</style></head>\n<body>\n<h1>{}</h1>\n",
      escaped(name), page_css, escaped(name));
  out += fmt::format(
      "<p>{} of {} runs, baechi {}, hash {}. Below each time: how far it is above the lower "
      "bound, which no placement can beat.{}</p>\n",
      overview.num_rows(), results.planned, results.version, results.hash,
      left_out > 0 ? fmt::format(" <b>{} of the runs are not on this page, but in results.csv and "
                                 "results.sqlite.</b>",
                                 left_out)
                   : "");
  append_summary(out, overview);
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const GraphRecord& graph = results.graphs[tables[t].graph];
    out += fmt::format("<h2>{}: {}{}<small>{}, {} edges</small></h2>\n",
                       escaped(results.scenarios[tables[t].scenario].name), escaped(graph.label),
                       escaped(tables[t].title()), ops_text(results, tables[t]), graph.edges);
    append_table(out, tables[t]);
    out += fmt::format("<div id=\"charts{}\"></div>\n", t);
  }
  append_steps(out, overview);
  for (const ScenarioRecord& s : results.scenarios)
    out += fmt::format("<details><summary>{}</summary><pre>{}{}</pre></details>\n", escaped(s.path),
                       escaped(s.text), s.sets.empty() ? "" : "\n# with: " + escaped(s.sets));
  out += fmt::format("<script type=\"application/json\" id=\"data\">{}</script>\n",
                     page_data(results, tables));
  for (const char* script : {chart_js, page_charts_js, page_steps_js})
    out += fmt::format("<script>\n{}</script>\n", script);
  return out + "</body></html>\n";
}

}  // namespace baechi
