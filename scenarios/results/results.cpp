#include "scenarios/results/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/results/sqlite.h"

namespace baechi {
namespace {

constexpr std::array fixed_columns{"id",
                                   "scenario",
                                   "graph",
                                   "ops",
                                   "placer",
                                   "seed",
                                   "devices",
                                   "memory_fraction",
                                   "memory_bytes",
                                   "transfers",
                                   "status",
                                   "step_time_us",
                                   "lower_bound_us",
                                   "placing_ms",
                                   "peak_bytes",
                                   "moved_bytes",
                                   "detail",
                                   "gap"};

/// Axes that are a fixed column already.
constexpr std::array<std::string_view, 3> shown_axes{"cluster.memory_fraction",
                                                     "cluster.devices.count", "engine.transfers"};

bool is_shown(std::string_view axis) {
  return std::ranges::find(shown_axes, axis) != shown_axes.end();
}

/// `count` thousandths, exactly: "12.345".
std::string thousandths(std::int64_t count) {
  return fmt::format("{}.{:03}", count / 1000, count % 1000);
}

/// The share of the step time that no bound says has to be: "0.25" if the bound is three quarters.
std::string gap(const RunResult& row) {
  if (!row.step_time) return "";
  if (*row.step_time <= row.lower_bound) return "0";
  return fmt::format("{:.4g}", 1.0 - static_cast<double>(row.lower_bound.count()) /
                                         static_cast<double>(row.step_time->count()));
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

void append_line(std::string& out, const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) out += ',';
    out += csv_cell(cells[i]);
  }
  out += '\n';
}

/// Columns that are numbers in JSON.
bool is_number(std::string_view column) {
  constexpr std::array<std::string_view, 12> numbers{
      "id",           "ops",          "seed",           "devices",    "memory_fraction",
      "memory_bytes", "step_time_us", "lower_bound_us", "placing_ms", "peak_bytes",
      "moved_bytes",  "gap"};
  return std::ranges::find(numbers, column) != numbers.end();
}

}  // namespace

std::string_view to_text(Status status) {
  constexpr std::array<std::string_view, 4> names{"ok", "oom", "infeasible", "error"};
  return names[static_cast<std::size_t>(status)];
}

std::string_view to_text(Transfers transfers) {
  constexpr std::array<std::string_view, 5> names{"sequential", "parallel", "duplex", "shared",
                                                  "staged"};
  return names[static_cast<std::size_t>(transfers)];
}

std::vector<std::string> result_columns(const ResultsHeader& header) {
  std::vector<std::string> columns(fixed_columns.begin(), fixed_columns.end());
  for (const std::string& axis : header.axes)
    if (!is_shown(axis)) columns.push_back(axis == "graph" ? "graph.block" : axis);
  return columns;
}

std::vector<std::string> result_cells(const ResultsHeader& header, const RunResult& row) {
  const GraphRecord& graph = header.graphs[row.graph];
  const auto bytes = [](std::optional<Bytes> b) { return b ? fmt::format("{}", b->count) : ""; };
  std::vector<std::string> cells{fmt::format("{}", row.id),
                                 header.scenarios[row.scenario].name,
                                 graph.name,
                                 fmt::format("{}", graph.ops),
                                 row.placer,
                                 fmt::format("{}", row.seed),
                                 fmt::format("{}", row.devices),
                                 fmt::format("{}", row.memory_fraction),
                                 fmt::format("{}", row.memory.count),
                                 std::string(to_text(row.transfers)),
                                 std::string(to_text(row.status)),
                                 row.step_time ? thousandths(row.step_time->count()) : "",
                                 thousandths(row.lower_bound.count()),
                                 thousandths(row.placing.count() / 1000),
                                 bytes(row.peak),
                                 bytes(row.moved),
                                 row.detail,
                                 gap(row)};
  for (std::size_t i = 0; i < header.axes.size(); ++i)
    if (!is_shown(header.axes[i])) cells.push_back(row.at[i]);
  return cells;
}

EachRow each_row(const Results& results) {
  return [&results](const VisitRow& visit) {
    for (const RunResult& row : results.rows) visit(row);
  };
}

CsvRows::CsvRows(const ResultsHeader& header, Print print) : print_(std::move(print)) {
  append_line(lines_, result_columns(header));
}

void CsvRows::add(const std::vector<std::string>& cells) {
  append_line(lines_, cells);
  if (lines_.size() > piece) end();
}

void CsvRows::end() {
  print_(lines_);
  lines_.clear();
}

void print_csv(const ResultsHeader& header, const EachRow& rows, const Print& print) {
  CsvRows csv(header, print);
  rows([&](const RunResult& row) { csv.add(result_cells(header, row)); });
  csv.end();
}

std::string to_csv(const Results& results) {
  std::string text;
  print_csv(results, each_row(results), [&](std::string_view more) { text += more; });
  return text;
}

void print_json(const ResultsHeader& header, const EachRow& rows, const Print& print) {
  const std::vector<std::string> columns = result_columns(header);
  bool first = true;
  print("[");
  rows([&](const RunResult& row) {
    const std::vector<std::string> cells = result_cells(header, row);
    std::string out = first ? "\n  {" : ",\n  {";
    first = false;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const bool number = is_number(columns[i]);
      // Invalid UTF-8, which a file's names may have, becomes U+FFFD.
      const std::string value = number
                                    ? (cells[i].empty() ? "null" : cells[i])
                                    : nlohmann::json(cells[i]).dump(
                                          -1, ' ', false, nlohmann::json::error_handler_t::replace);
      out += fmt::format("{}{}: {}", i == 0 ? "" : ", ", nlohmann::json(columns[i]).dump(), value);
    }
    print(out += '}');
  });
  print(first ? "]\n" : "\n]\n");
}

Results read_results(const std::string& folder) {
  return read_sqlite(folder + "/results.sqlite");
}

}  // namespace baechi
