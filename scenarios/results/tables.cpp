#include "scenarios/results/tables.h"

#include <cmath>
#include <tuple>

namespace baechi {
namespace {

using ValueParser = std::function<std::optional<double>(const std::string&)>;

std::vector<ValueParser> value_parsers() {
  const auto reader = [](auto parse, auto number) -> ValueParser {
    return [=](const std::string& text) -> std::optional<double> {
      const auto value = parse(text);
      return value ? std::optional(static_cast<double>(number(*value))) : std::nullopt;
    };
  };
  return {[](const std::string& text) { return parse_number<double>(text); },
          reader(parse_bytes, [](Bytes size) { return size.count; }),
          reader(parse_duration, [](Duration time) { return time.count(); }),
          reader(parse_bandwidth, [](Bandwidth b) { return b.bytes_per_second; })};
}

/// The ratio of the largest to the smallest distance of neighbours.
double unevenness(const std::vector<double>& ascending) {
  double least = INFINITY, most = 0.0;
  for (std::size_t i = 1; i < ascending.size(); ++i) {
    least = std::min(least, ascending[i] - ascending[i - 1]);
    most = std::max(most, ascending[i] - ascending[i - 1]);
  }
  return most / least;
}

AxisScale::Kind kind_of(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  if (numbers.front() <= 0.0 || numbers.back() < 8.0 * numbers.front())
    return AxisScale::Kind::linear;
  std::vector<double> logs;
  for (const double x : numbers) logs.push_back(std::log(x));
  const bool even = numbers.size() == 2 || unevenness(logs) < unevenness(numbers);
  return even ? AxisScale::Kind::logarithmic : AxisScale::Kind::linear;
}

bool is_graph_axis(std::string_view axis) { return axis == "graph" || axis.starts_with("graph."); }

std::string axis_label(const std::string& axis) {
  if (axis == "cluster.memory_fraction") return "memory fraction";
  if (axis == "cluster.devices.count") return "devices";
  for (const std::string_view block : {"cluster.", "engine."})
    if (axis.starts_with(block)) return axis.substr(block.size());
  return axis;
}

/// The index of `value` in `list`; appends it if it is new.
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
    table.axes.push_back(axis_label(results.axes[a]));
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
      return short_text(r->value.value_or(Duration{})) + (r->fell_back() ? fallback_mark : "");
    case Status::oom:
      return "OOM";
    case Status::infeasible:
      return "infeasible";
    case Status::error:
      return "error";
  }
  return "";
}

std::string bound_text(std::optional<Duration> bound) { return bound ? short_text(*bound) : "-"; }

/// The width in terminal columns: UTF-8 continuation bytes count 0.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::string right(std::string_view text, std::size_t width) {
  return fmt::format("{:>{}}", text, width);
}

/// Points where a smaller cluster, the same but for one axis, does better by a hundredth or more: a
/// line each.
std::string smaller_is_better(const ResultTable& table) {
  std::string text;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const RunResult* const best = table.best(c);
    for (std::size_t d = 0; d < table.columns.size(); ++d) {
      const RunResult *const other = table.best(d), *const here = table.rows.front().cells[c];
      const auto [a, b] = std::ranges::mismatch(table.columns[c], table.columns[d]);
      if (other == nullptr || here == nullptr || other->devices >= here->devices ||
          other->memory != here->memory || !std::equal(a + 1, table.columns[c].end(), b + 1) ||
          (best != nullptr && *best->value <= 1.01 * *other->value))
        continue;
      const auto axis = static_cast<std::size_t>(a - table.columns[c].begin());
      text +=
          fmt::format("  {} {}: {}, but {} with {} {}\n", table.axes[axis], table.shown[c][axis],
                      best == nullptr ? "no placer fits" : short_text(*best->value),
                      short_text(*other->value), table.axes[axis], table.shown[d][axis]);
      break;
    }
  }
  return text;
}

void append_columns(std::string& out, const ResultTable& table, std::size_t first, std::size_t last,
                    std::size_t name_width, const std::vector<std::size_t>& widths, bool colour) {
  const auto line = [&](std::string_view name, auto cell) {
    out += fmt::format("  {:<{}}", name, name_width);
    for (std::size_t c = first; c < last; ++c) out += "  " + cell(c);
    out += '\n';
  };
  for (std::size_t a = 0; a < table.axes.size(); ++a) {
    line(table.axes[a], [&](std::size_t c) {  // an outer axis is labelled only where it changes
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

std::string utilisation_percent(std::optional<double> part) {
  return part ? fmt::format("{:.1f} %", 100.0 * *part) : "-";
}

std::string digits(std::optional<double> value) {
  return value ? fmt::format("{:.4g}", *value) : "-";
}

}  // namespace

AxisScale axis_scale(std::span<const std::string> values) {
  AxisScale scale;
  for (const ValueParser& parse : value_parsers()) {
    scale.at.clear();
    for (const std::string& value : values)
      if (const auto number = parse(value); number && std::isfinite(*number))
        scale.at.push_back(*number);
    const std::set<double> distinct(scale.at.begin(), scale.at.end());
    if (values.size() < 2 || distinct.size() != values.size()) continue;
    scale.kind = kind_of(scale.at);
    return scale;
  }
  scale.at.clear();
  for (std::size_t i = 0; i < values.size(); ++i) scale.at.push_back(static_cast<double>(i));
  return scale;
}

std::vector<std::string> short_values(std::span<const std::string> values) {
  std::vector<std::string> texts;
  std::map<std::string, std::string> known;  // equal values get equal texts
  std::set<std::string> seen;
  for (const std::string& value : values) {
    if (const auto it = known.find(value); it != known.end()) {
      texts.push_back(it->second);
      continue;
    }
    std::string text = short_value(value);
    for (std::size_t same = 2; !seen.insert(text).second; ++same)
      text = fmt::format("{} ({})", short_value(value), same);
    known[value] = text;
    texts.push_back(std::move(text));
  }
  return texts;
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
    for (const ResultTable::Row& row : table.rows)
      w = std::max(w, width_of(cell_text(row.cells[c])));
    widths.push_back(w);
  }
  // As few parts as fit, of similar widths.
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
  out.insert(out.size() - 1, smaller_is_better(table));
  if (table.fell_back()) out.insert(out.size() - 1, fmt::format("  {}\n", fallback_meaning));
}

const RunResult* ResultTable::best(std::size_t column) const {
  const RunResult* best = nullptr;
  for (const Row& row : rows) {
    const RunResult* r = row.cells[column];
    if (r != nullptr && r->value && (best == nullptr || r->value < best->value)) best = r;
  }
  return best;
}

std::string ResultTable::figure() const {
  return is_step_time() ? "step time" : measure.substr(0, measure.find(':')) + per();
}

std::string ResultTable::per() const { return unit.substr(std::min(unit.find(' '), unit.size())); }

std::string ResultTable::title() const { return is_step_time() ? "" : ", " + measure + per(); }

bool ResultTable::has_peaks() const {
  return std::ranges::any_of(rows, [](const Row& row) {
    return std::ranges::any_of(row.cells,
                               [](const RunResult* r) { return r != nullptr && r->peak; });
  });
}

bool ResultTable::fell_back() const {
  return std::ranges::any_of(rows, [](const Row& row) {
    return std::ranges::any_of(row.cells,
                               [](const RunResult* r) { return r != nullptr && r->fell_back(); });
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
  constexpr std::size_t most = 32;
  const bool block = value.starts_with('{') || value.starts_with('[');
  const std::size_t slash = block ? std::string::npos : value.rfind('/');
  std::string text = value;
  if (slash != std::string::npos && value.find('.', slash) != std::string::npos) {
    text = value.substr(slash + 1);
    text.resize(text.find('.'));
  }
  if (block) {  // "[fuse, {coplace: {by: size}}]": "fuse, coplace: by: size"
    std::erase_if(
        text, [](char c) { return std::string_view("[]{}\"").find(c) != std::string_view::npos; });
    if (text.empty()) text = "none";
  }
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
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

UsedRuns used_runs(const Results& results, std::span<const ResultTable> tables, std::size_t most) {
  UsedRuns found;
  for (const ResultTable& table : tables) {
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      for (const ResultTable::Row& row : table.rows) {
        const RunResult* run = row.cells[c];
        if (run == nullptr || !run->utilisation || !run->utilisation->flops) continue;
        if (++found.all > most) continue;
        std::string label = point_label(results, table, c);
        if (table.rows.size() > 1) label += ", " + row.name;
        found.shown.push_back({run, std::move(label)});
      }
    }
  }
  return found;
}

Summary utilisation_table(const Results& results, const UsedRuns& runs) {
  Summary summary{.header = {"run", "step", "samples/s", "TFLOP/s", "busy", "of peak", "while busy",
                             "of bandwidth", "flop/byte", "bound by: compute", "memory",
                             "launches"}};
  for (const auto& [run, label] : runs.shown) {
    const Utilisation& u = *run->utilisation;
    summary.rows.push_back(
        {label, short_text(*run->value), digits(throughput(results, *run)),
         digits(*u.flops / (to_us(*run->value) * 1e6)), utilisation_percent(u.busy),
         utilisation_percent(u.flops_of_step), utilisation_percent(u.flops_of_busy),
         utilisation_percent(u.traffic_of_step), digits(u.intensity()),
         utilisation_percent(u.compute_bound), utilisation_percent(u.memory_bound),
         utilisation_percent(u.launch_bound)});
  }
  summary.note =
      "Fractions over all devices of the cluster. Busy: of the step in which they run ops. Of "
      "peak, of bandwidth: of what they could do in the step by their data sheets; while busy: in "
      "busy time. Bound by: what decides the time of the ops, by their share of it.";
  if (runs.all > runs.shown.size())
    summary.note +=
        fmt::format(" The first {} of {} runs; results.csv has all.", runs.shown.size(), runs.all);
  return summary;
}

}  // namespace baechi
