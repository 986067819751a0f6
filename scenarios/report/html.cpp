#include "scenarios/report/html.h"

#include <filesystem>

#include "sim/file_aside.h"
#include "sim/text.h"

namespace baechi {

// The files of scenarios/report/page/, and Chart.js, embedded in page.cpp at build time.
extern const char *const page_css,
    *const page_charts_js, *const page_steps_js, *const page_comparison_js, *const page_roofline_js,
                                                                                *const chart_js;

namespace {

void append_cell(std::string& out, const ResultTable& table, const RunResult* r,
                 std::size_t column) {
  if (r == nullptr) {
    out += "<td>-</td>";
    return;
  }
  const std::string run = r->picture.empty() ? "" : fmt::format(" data-run=\"{}\"", r->id);
  if (!r->value) {
    out += fmt::format("<td class=\"{0}\" title=\"{1}\"{2}><a href=\"#explain-{3}\">{4}</a></td>",
                       to_text(r->status), escaped(r->detail), run, r->id,
                       r->status == Status::oom ? "OOM" : to_text(r->status));
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
  out += fmt::format("<td{}{}{}>{}{}<small>{}</small></td>", best ? " class=\"best\"" : "",
                     r->detail.empty() ? "" : fmt::format(" title=\"{}\"", escaped(r->detail)), run,
                     short_text(*r->value), r->fell_back() ? fallback_mark : "", gap);
}

/// The head of the columns [first, last): one line per axis; equal neighbours below equal cells are
/// merged.
void append_head(std::string& out, const ResultTable& table, std::size_t first, std::size_t last) {
  for (std::size_t a = 0; a < table.axes.size(); ++a) {
    out += fmt::format("<tr><th>{}</th>", escaped(table.axes[a]));
    for (std::size_t c = first; c < last;) {
      std::size_t end = c + 1;
      while (end < last && std::equal(table.columns[c].begin(),
                                      table.columns[c].begin() + static_cast<std::ptrdiff_t>(a) + 1,
                                      table.columns[end].begin()))
        ++end;
      out += fmt::format("<th colspan=\"{}\">{}</th>", end - c, escaped(table.shown[c][a]));
      c = end;
    }
    out += "</tr>\n";
  }
}

void append_part(std::string& out, const ResultTable& table, std::size_t first, std::size_t last) {
  out += "<div class=\"scroll\"><table>\n<thead>";
  append_head(out, table, first, last);
  out += "</thead>\n";
  for (const ResultTable::Row& row : table.rows) {
    out += fmt::format("<tr><th>{}</th>", escaped(row.name));
    for (std::size_t c = first; c < last; ++c) append_cell(out, table, row.cells[c], c);
    out += "</tr>\n";
  }
  out += "<tr><th>lower bound</th>";
  for (std::size_t c = first; c < last; ++c)
    out += fmt::format("<td>{}</td>", table.bounds[c] ? short_text(*table.bounds[c]) : "-");
  out += "</tr>\n</table></div>\n";
}

/// A wide table as several parts, of which the page shows one at a time.
void append_table(std::string& out, const ResultTable& table) {
  constexpr std::size_t most = 20;
  const std::size_t columns = table.columns.size();
  const std::size_t parts = (columns + most - 1) / most;
  out += "<div class=\"pages\">\n";
  for (std::size_t part = 0; part < parts; ++part)
    append_part(out, table, part * columns / parts, (part + 1) * columns / parts);
  out += "</div>\n";
  if (table.fell_back()) out += fmt::format("<p>{}.</p>\n", fallback_meaning);
}

void append_summary(std::string& out, const Summary& summary) {
  out += "<div class=\"scroll\"><table>\n<thead><tr>";
  for (const std::string& name : summary.header) out += fmt::format("<th>{}</th>", escaped(name));
  out += "</tr></thead>\n";
  for (const std::vector<std::string>& row : summary.rows) {
    out += fmt::format("<tr><th>{}</th>", escaped(row.front()));
    for (std::size_t c = 1; c < row.size(); ++c) out += fmt::format("<td>{}</td>", escaped(row[c]));
    out += "</tr>\n";
  }
  out += fmt::format("</table></div>\n<p>{}</p>\n", escaped(summary.note));
}

/// `figures`: keys of the page's profiles.
void append_profiles_and_pairs(std::string& out, const Comparison& comparison,
                               std::initializer_list<const char*> figures) {
  out += "<h2>Profiles</h2>\n<div class=\"charts\">";
  for (const char* figure : figures)
    out += fmt::format("<div class=\"chart\"><canvas id=\"profile-{}\"></canvas></div>", figure);
  out +=
      "</div>\n<p>Dolan and More (2002): of the points that any placer solves, the share at which "
      "a placer is within a factor of the best one. The higher, the better.</p>\n"
      "<h2>Pairs</h2>\n";
  append_summary(out, duel_matrix(comparison));
}

void append_comparison(std::string& out, const Comparison& comparison) {
  out += "<section id=\"comparison\" hidden>\n<h2>Placers</h2>\n";
  append_summary(out, score_table(comparison));
  append_profiles_and_pairs(out, comparison, {"step", "placing"});
  append_summary(out, duel_table(comparison));
  out += "</section>\n";
}

void append_utilisation(std::string& out, const Results& results, const UsedRuns& used) {
  out += "<section id=\"utilisation\" hidden>\n<h2>Utilisation</h2>\n<div id=\"roofline\"></div>\n";
  append_summary(out, utilisation_table(results, used));
  out += "</section>\n";
}

template <class T>
std::string from_to(T least, T most, auto text) {
  return least == most ? text(most) : fmt::format("{} to {}", text(least), text(most));
}

/// What was compared, and who is the fastest how often.
std::string first_sentence(const Results& results, const Comparison& comparison) {
  if (results.rows.empty()) return "No runs.";
  std::string graphs;
  for (std::size_t g = 0; g < std::min<std::size_t>(4, results.graphs.size()); ++g)
    graphs += (g > 0 ? ", " : "") + results.graphs[g].label;
  const auto [few, many] = std::ranges::minmax(results.rows, {}, &RunResult::devices);
  const auto [small, large] =
      std::ranges::minmax(results.rows, {}, [](const RunResult& r) { return r.memory.count; });
  std::string fastest;
  std::vector<PlacerScore> placers = comparison.placers;
  std::ranges::stable_sort(placers, std::ranges::greater{}, &PlacerScore::best);
  for (std::size_t i = 0; i < std::min<std::size_t>(3, placers.size()) && placers[i].best > 0; ++i)
    fastest += fmt::format("{} {} in {}", i == 0 ? ":" : ",", placers[i].placer, placers[i].best);
  return fmt::format(
      "{} on {} ({}{}), {} devices with {} each. Fastest of {} points{}.",
      placers.size() == 1 ? placers[0].placer : fmt::format("{} placers", placers.size()),
      results.graphs.size() == 1 ? "a graph" : fmt::format("{} graphs", results.graphs.size()),
      graphs, results.graphs.size() > 4 ? ", ..." : "",
      from_to(few.devices, many.devices, [](std::size_t n) { return fmt::format("{}", n); }),
      from_to(small.memory, large.memory, [](Bytes b) { return to_text(b); }), comparison.points,
      fastest.empty() ? ": none" : fastest);
}

constexpr const char* colours_key =
    "<ul class=\"key\"><li><i class=\"best\"></i>fastest of its column</li><li><i "
    "class=\"oom\"></i>out of memory</li><li><i class=\"infeasible\"></i>the placer found nothing "
    "that fits</li><li><i class=\"error\"></i>error</li></ul>\n";

constexpr std::size_t most_cells = Overview::most_rows;  // of all tables: a page of a few megabytes

/// Cuts the tables to `most` cells in total: later tables lose columns, and are removed if none is
/// left. Returns the number of runs removed.
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
      "<h2>One step</h2>\n<p>Of {} of {} runs: underlined in the tables above, click there (with "
      "Shift for a second one) or choose here. `report: {{pictures: N}}` of the scenario draws "
      "more, `baechi run --timelines all` writes all as files for ui.perfetto.dev. The wheel "
      "zooms, dragging moves, a double click shows all; neighbours too short to be seen are drawn "
      "together.</p>\n"
      "<div id=\"steps\"></div>\n",
      overview.num_drawn(), overview.num_rows());
}

std::string page_head(const std::string& name, const std::string& first) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>{0}</title>\n<style>{1}</style></head>\n<body>\n<h1>{0}</h1>\n"
      "<p class=\"first\">{2}</p>\n",
      escaped(name), page_css, escaped(first));
}

std::string page_end(const std::string& data) {
  std::string out =
      fmt::format("<script type=\"application/json\" id=\"data\">{}</script>\n", data);
  for (const char* script :
       {chart_js, page_charts_js, page_steps_js, page_comparison_js, page_roofline_js})
    out += fmt::format("<script>\n{}</script>\n", script);
  return out + "</body></html>\n";
}

/// Each placer's value at each point over the best one there.
Summary ratio_table(const ContestPage& page) {
  Summary table{.header = page.contest.placers,
                .note = "Step time / the best of these placers; -: no step that fits."};
  table.header.insert(table.header.begin(), "instance");
  for (std::size_t i = 0; i < page.points.size(); ++i) {
    std::vector<std::string>& row = table.rows.emplace_back(table.header.size(), "-");
    row[0] = page.points[i];
    Duration best = Duration::max();
    for (const auto& entry : page.contest.points[i].entries)
      best = std::min(best, entry.step_time.value_or(best));
    for (const auto& entry : page.contest.points[i].entries)
      if (entry.step_time)
        row[1 + entry.placer] = fmt::format("{:.3f}", to_us(*entry.step_time) / to_us(best));
  }
  return table;
}

}  // namespace

std::string to_html(const ContestPage& page) {
  const Comparison comparison = compare(page.contest, usual_tolerance);
  std::string out = page_head(page.title, page.first) + "<h2>Ranking</h2>\n";
  append_summary(out, page.ranking);
  append_profiles_and_pairs(out, comparison, {"step"});
  out += "<h2>Instances</h2>\n";
  append_summary(out, ratio_table(page));
  return out + page_end(page_data({}, {}, {}, step_profiles(page.contest, comparison), {}));
}

std::string to_html(const Results& results) { return to_html(overview(results)); }

std::string to_html(const Overview& overview) {
  const Results& results = overview.shown();
  std::string name = "results";
  if (!results.scenarios.empty()) name = results.scenarios.front().name;
  std::vector<ResultTable> tables = result_tables(results);
  const std::size_t left_out = overview.num_rows() - shorten(tables, most_cells);
  std::vector<Contest> contests = overview.contests();
  if (contests.empty()) contests.emplace_back();
  const Contest& contest = contests.front();
  const Comparison comparison = compare(contest, usual_tolerance);
  std::string out = page_head(name, first_sentence(results, comparison));
  out += fmt::format(
      "{}<p>{} of {} runs, baechi {}, hash {}. Below each time: how far it is above the lower "
      "bound, which no placement can beat.{}</p>\n",
      colours_key, overview.num_rows(), results.planned, results.version, results.hash,
      left_out > 0 ? fmt::format(" <b>{} of the runs are not on this page, but in results.csv and "
                                 "results.sqlite.</b>",
                                 left_out)
                   : "");
  out +=
      "<nav id=\"tabs\"><button data-tab=\"runs\" aria-selected=\"true\">Runs</button><button "
      "data-tab=\"comparison\">Comparison</button>";
  constexpr std::size_t most_used = 300;
  const UsedRuns used = used_runs(results, tables, most_used);
  if (!used.shown.empty()) out += "<button data-tab=\"utilisation\">Utilisation</button>";
  out += "</nav>\n";
  append_comparison(out, comparison);
  if (!used.shown.empty()) append_utilisation(out, results, used);
  out += "<section id=\"runs\">\n<h2>All runs</h2>\n";
  for (const Contest& one : contests) {
    const Comparison of_one = compare(one, usual_tolerance);
    append_summary(out, brief_summary_of(of_one));
    out += "<details><summary>more columns</summary>\n";
    append_summary(out, summary_of(of_one));
    out += "</details>\n";
  }
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
  return out + "</section>\n" +
         page_end(page_data(results, tables, used, step_profiles(contest, comparison),
                            placing_profiles(contest, comparison)));
}

void write_results(const std::string& folder, const ResultsHeader& header, const EachRow& rows) {
  std::filesystem::create_directories(folder);
  const std::string database = folder + "/results.sqlite";
  AtomicFile csv_file(folder + "/results.csv");
  CsvRows csv(header, [&](std::string_view text) { csv_file.print(text); });
  Overview overview(header);
  {
    SqliteRows sqlite(database + ".part", header);
    rows([&](const RunResult& row) {
      const std::vector<std::string> cells = result_cells(header, row);
      csv.add(cells);
      sqlite.add(row, cells);
      overview.add(row);
    });
    sqlite.end();
  }
  csv.end();
  csv_file.take_name_durably();
  rename_durably(database + ".part", database);
  write_aside(folder + "/report.html", to_html(overview));
}

void write_results(const std::string& folder, const Results& results) {
  write_results(folder, results, each_row(results));
}

}  // namespace baechi
