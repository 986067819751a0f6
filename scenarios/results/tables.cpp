#include "scenarios/results/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace baechi {
namespace {

bool is_graph_axis(std::string_view axis) {
  return axis == "graph" || axis.starts_with("graph.");
}

std::string spoken(const std::string& axis) {
  if (axis == "cluster.memory_fraction") return "memory fraction";
  if (axis == "cluster.devices.count") return "devices";
  for (const std::string_view block : {"cluster.", "engine."})
    if (axis.starts_with(block)) return axis.substr(block.size());
  return axis;
}

/// Position of `value` in `list`, at its end if it is new.
template <class T>
std::size_t position(std::vector<T>& list, const T& value) {
  const auto it = std::ranges::find(list, value);
  if (it != list.end()) return static_cast<std::size_t>(it - list.begin());
  list.push_back(value);
  return list.size() - 1;
}

ResultTable make_table(const Results& results, const std::vector<const RunResult*>& rows) {
  ResultTable table{.scenario = rows.front()->scenario,
                    .graph = rows.front()->graph,
                    .measure = rows.front()->measure,
                    .unit = rows.front()->unit};
  std::vector<std::size_t> varying;  // into Results::axes
  for (std::size_t a = 0; a < results.axes.size(); ++a) {
    if (is_graph_axis(results.axes[a])) continue;
    if (std::ranges::all_of(rows,
                            [&](const RunResult* r) { return r->at[a] == rows.front()->at[a]; }))
      continue;
    varying.push_back(a);
    table.axes.push_back(spoken(results.axes[a]));
  }
  const bool seeds =
      std::ranges::any_of(rows, [&](const RunResult* r) { return r->seed != rows.front()->seed; });
  std::map<std::string, std::size_t> row_of;
  std::map<std::vector<std::string>, std::size_t> column_of;
  for (const RunResult* r : rows) {
    std::vector<std::string> at;
    at.reserve(varying.size());
    for (const std::size_t a : varying) at.push_back(r->at[a]);
    const auto [column, new_column] = column_of.emplace(at, table.columns.size());
    if (new_column) {
      table.columns.push_back(std::move(at));
      table.bounds.push_back(r->lower_bound);
    }
    std::string name = seeds ? fmt::format("{} seed {}", r->placer, r->seed) : r->placer;
    const auto [row, new_row] = row_of.emplace(name, table.rows.size());
    if (new_row) table.rows.push_back({.name = std::move(name), .cells = {}});
    auto& cells = table.rows[row->second].cells;
    if (cells.size() <= column->second) cells.resize(column->second + 1, nullptr);
    cells[column->second] = r;
  }
  for (ResultTable::Row& row : table.rows) row.cells.resize(table.columns.size(), nullptr);
  table.shown = table.columns;
  for (std::size_t a = 0; a < table.axes.size(); ++a) {
    std::vector<std::string> values;
    for (const auto& column : table.columns) values.push_back(column[a]);
    values = short_values(values);
    for (std::size_t c = 0; c < table.columns.size(); ++c) table.shown[c][a] = values[c];
  }
  return table;
}

std::string cell_text(const RunResult* r) {
  if (r == nullptr) return "-";
  switch (r->status) {
    case Status::ok:
      return short_text(r->value.value_or(Duration{}));
    case Status::oom:
      return "OOM";
    case Status::infeasible:
      return "infeasible";
    case Status::error:
      return "error";
  }
  return "";
}

std::string bound_text(std::optional<Duration> bound) {
  return bound ? short_text(*bound) : "-";
}

std::string right(std::string_view text, std::size_t width) {
  return fmt::format("{:>{}}", text, width);
}

/// The columns [first, last) of a table.
void append_columns(std::string& out, const ResultTable& table, std::size_t first, std::size_t last,
                    std::size_t name_width, const std::vector<std::size_t>& widths, bool colour) {
  const auto line = [&](std::string_view name, auto cell) {
    out += fmt::format("  {:<{}}", name, name_width);
    for (std::size_t c = first; c < last; ++c) out += "  " + cell(c);
    out += '\n';
  };
  for (std::size_t a = 0; a < table.axes.size(); ++a) {
    line(table.axes[a], [&](std::size_t c) {  // an outer axis is named where it changes
      const bool again =
          c > first && a + 1 < table.axes.size() && table.columns[c][a] == table.columns[c - 1][a];
      return right(again ? "" : table.shown[c][a], widths[c]);
    });
  }
  for (const ResultTable::Row& row : table.rows) {
    line(row.name, [&](std::size_t c) {
      std::string text = right(cell_text(row.cells[c]), widths[c]);
      if (!colour || row.cells[c] == nullptr) return text;
      if (row.cells[c] == table.best(c)) return "\x1b[1m" + text + "\x1b[0m";
      if (row.cells[c]->status != Status::ok) return "\x1b[31m" + text + "\x1b[0m";
      return text;
    });
  }
  line("lower bound", [&](std::size_t c) { return right(bound_text(table.bounds[c]), widths[c]); });
}

void append_table(std::string& out, const ResultTable& table, const Results& results, bool colour,
                  std::size_t width) {
  out += fmt::format("{}: {}, {}{}\n", results.scenarios[table.scenario].name,
                     results.graphs[table.graph].label, ops_text(results, table), table.title());
  std::size_t name_width = std::string_view("lower bound").size();
  for (const ResultTable::Row& row : table.rows) name_width = std::max(name_width, row.name.size());
  for (const std::string& axis : table.axes) name_width = std::max(name_width, axis.size());
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    std::size_t w = bound_text(table.bounds[c]).size();
    for (const std::string& value : table.shown[c]) w = std::max(w, value.size());
    for (const ResultTable::Row& row : table.rows) w = std::max(w, cell_text(row.cells[c]).size());
    widths.push_back(w);
  }
  // As few parts as fit, all about as wide.
  const std::size_t widest = *std::ranges::max_element(widths) + 2;
  const std::size_t fit =
      std::max<std::size_t>(1, (std::max(width, name_width + 2) - name_width - 2) / widest);
  const std::size_t parts = (table.columns.size() + fit - 1) / fit;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t first = part * table.columns.size() / parts;
    append_columns(out, table, first, (part + 1) * table.columns.size() / parts, name_width, widths,
                   colour);
    out += '\n';
  }
}

void append_summary(std::string& out, const std::vector<PlacerSummary>& all) {
  std::size_t width = 8;
  for (const PlacerSummary& s : all) width = std::max(width, s.placer.size());
  const std::string* measure = nullptr;  // of the lines above
  for (const PlacerSummary& s : all) {
    if (measure == nullptr || *measure != s.measure) {
      if (all.front().measure != all.back().measure || s.measure != default_measure)
        out += fmt::format("{}{}\n", measure == nullptr ? "" : "\n", s.measure);
      measure = &s.measure;
      out += fmt::format("  {:<{}}  {:>6}  {:>6}  {:>10}  {:>6}  {:>7}  {:>11}\n", "all runs",
                         width, "ok", "OOM", "infeasible", "error", "best in", "x its bound");
    }
    out += fmt::format("  {:<{}}  {:>6}  {:>6}  {:>10}  {:>6}  {:>7}  {:>11}\n", s.placer, width,
                       s.ok, s.oom, s.infeasible, s.error, s.best,
                       s.over_bound > 0.0 ? fmt::format("{:.2f}", s.over_bound) : "-");
  }
}

}  // namespace

const RunResult* ResultTable::best(std::size_t column) const {
  const RunResult* best = nullptr;
  for (const Row& row : rows) {
    const RunResult* r = row.cells[column];
    if (r != nullptr && r->value && (best == nullptr || r->value < best->value)) best = r;
  }
  return best;
}

std::string ResultTable::figure() const {
  return is_step_time() ? "step time"
                        : measure + unit.substr(std::min(unit.find(' '), unit.size()));
}

std::string ResultTable::title() const {
  return is_step_time() ? "" : ", " + figure();
}

bool ResultTable::has_peaks() const {
  return std::ranges::any_of(rows, [](const Row& row) {
    return std::ranges::any_of(row.cells,
                               [](const RunResult* r) { return r != nullptr && r->peak; });
  });
}

std::string point_label(const Results& results, const ResultTable& table, std::size_t column) {
  std::string text = results.graphs[table.graph].label;
  for (std::size_t a = 0; a < table.axes.size(); ++a)
    text += fmt::format(", {} {}", table.axes[a], table.shown[column][a]);
  return text;
}

std::vector<ResultTable> result_tables(const Results& results) {
  using Key = std::tuple<std::size_t, std::size_t, std::size_t>;  // scenario, label, measure
  std::vector<std::string> labels, measures;
  for (const GraphRecord& graph : results.graphs) position(labels, graph.label);
  std::map<Key, std::vector<const RunResult*>> groups;
  for (const RunResult& row : results.rows)
    groups[{row.scenario, position(labels, results.graphs[row.graph].label),
            position(measures, row.measure)}]
        .push_back(&row);
  std::vector<ResultTable> tables;
  tables.reserve(groups.size());
  for (const auto& [key, rows] : groups) tables.push_back(make_table(results, rows));
  return tables;
}

std::size_t Overview::tally_of(const RunResult& row) {
  const auto it = std::ranges::find_if(tallies_, [&](const Tally& t) {
    return t.summary.placer == row.placer && t.summary.measure == row.measure;
  });
  if (it != tallies_.end()) return static_cast<std::size_t>(it - tallies_.begin());
  tallies_.push_back({.summary = {.placer = row.placer, .measure = row.measure}});
  return tallies_.size() - 1;
}

void Overview::Contest::count(std::vector<Tally>& tallies) const {
  for (const auto& [tally, value] : values) {
    const bool beaten = std::ranges::any_of(values, [&](const auto& other) {
      return other.second < value &&
             tallies[other.first].summary.measure == tallies[tally].summary.measure;
    });
    if (!beaten) ++tallies[tally].summary.best;
  }
}

void Overview::add(const RunResult& row) {
  ++num_rows_;
  num_drawn_ += row.picture.empty() ? 0U : 1U;
  if (shown_.rows.size() < most_rows) {
    shown_.rows.push_back(row);
    std::string().swap(shown_.rows.back().placement);
  }
  if (row.scenario != scenario_ || row.graph != graph_ || row.at != at_) {
    contest_.count(tallies_);
    contest_.values.clear();
    scenario_ = row.scenario;
    graph_ = row.graph;
    at_ = row.at;
  }
  const std::size_t i = tally_of(row);
  Tally& tally = tallies_[i];
  PlacerSummary& s = tally.summary;
  ++(row.status == Status::ok           ? s.ok
     : row.status == Status::oom        ? s.oom
     : row.status == Status::infeasible ? s.infeasible
                                        : s.error);
  if (!row.value) return;
  const auto known = std::ranges::find(contest_.values, i, [](const auto& v) { return v.first; });
  if (known == contest_.values.end())
    contest_.values.emplace_back(i, *row.value);
  else
    known->second = std::min(known->second, *row.value);
  if (row.lower_bound.value_or(Duration{}) <= Duration::zero()) return;
  tally.logs += std::log(static_cast<double>(row.value->count()) /
                         static_cast<double>(row.lower_bound->count()));
  ++tally.counted;
}

std::vector<PlacerSummary> Overview::summary() const {
  std::vector<Tally> tallies = tallies_;
  contest_.count(tallies);
  std::vector<PlacerSummary> all;
  for (Tally& t : tallies) {
    if (t.counted > 0) t.summary.over_bound = std::exp(t.logs / static_cast<double>(t.counted));
    all.push_back(std::move(t.summary));
  }
  std::vector<std::string> measures;
  for (const PlacerSummary& s : all) position(measures, s.measure);
  std::ranges::stable_sort(all, {},
                           [&](const PlacerSummary& s) { return position(measures, s.measure); });
  return all;
}

Overview overview(const Results& results) {
  Overview overview(results);
  for (const RunResult& row : results.rows) overview.add(row);
  return overview;
}

std::string short_text(Duration time) {
  const double ns = static_cast<double>(time.count());
  double value = ns;
  std::string_view unit = "ns";
  for (const auto& [size, name] :
       {std::pair{1e3, "us"}, std::pair{1e6, "ms"}, std::pair{1e9, "s"}}) {
    if (ns < size * 0.9995) break;
    value = ns / size;
    unit = name;
  }
  if (unit == "ns") return fmt::format("{} ns", time.count());
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, unit);
}

std::string short_value(const std::string& value) {
  constexpr std::size_t most = 24;
  const bool block = value.starts_with('{') || value.starts_with('[');
  const std::size_t slash = block ? std::string::npos : value.rfind('/');
  std::string text = value;
  if (slash != std::string::npos && value.find('.', slash) != std::string::npos) {
    text = value.substr(slash + 1);
    text.resize(text.find('.'));
  }
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

std::vector<std::string> short_values(const std::vector<std::string>& values) {
  std::map<std::string, std::set<std::string>> alike;  // by short form
  for (const std::string& value : values) alike[short_value(value)].insert(value);
  std::vector<std::string> shown;
  for (const std::string& value : values) {
    const std::string form = short_value(value);
    const std::set<std::string>& same = alike.at(form);
    shown.push_back(form);
    if (same.size() == 1) continue;
    const auto differ = std::ranges::mismatch(*same.begin(), *same.rbegin());
    const auto at = static_cast<std::size_t>(differ.in1 - same.begin()->begin());
    const std::size_t space = value.rfind(' ', at == 0 ? 0 : at - 1);
    shown.back() = "..." + value.substr(space == std::string::npos ? at : space + 1, 24);
  }
  return shown;
}

std::string ops_text(const Results& results, const ResultTable& table) {
  std::size_t least = results.graphs[table.graph].ops, most = least;
  for (const ResultTable::Row& row : table.rows) {
    for (const RunResult* run : row.cells) {
      if (run == nullptr) continue;
      least = std::min(least, results.graphs[run->graph].ops);
      most = std::max(most, results.graphs[run->graph].ops);
    }
  }
  return least == most ? fmt::format("{} ops", most) : fmt::format("{} to {} ops", least, most);
}

std::string to_text_tables(const Overview& overview, bool colour, std::size_t width,
                           std::size_t most_lines) {
  std::string out;
  for (const ResultTable& table : result_tables(overview.shown()))
    append_table(out, table, overview.shown(), colour, width);
  if (static_cast<std::size_t>(std::ranges::count(out, '\n')) > most_lines) out.clear();
  append_summary(out, overview.summary());
  return out;
}

}  // namespace baechi
