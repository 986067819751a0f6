#include "scenarios/run/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "scenarios/run/report.h"
#include "scenarios/run/results_sqlite.h"

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

std::vector<std::string> result_columns(const Results& results) {
  std::vector<std::string> columns(fixed_columns.begin(), fixed_columns.end());
  for (const std::string& axis : results.axes)
    if (!is_shown(axis)) columns.push_back(axis == "graph" ? "graph.block" : axis);
  return columns;
}

std::vector<std::string> result_cells(const Results& results, const RunResult& row) {
  const GraphRecord& graph = results.graphs[row.graph];
  const auto bytes = [](std::optional<Bytes> b) { return b ? fmt::format("{}", b->count) : ""; };
  std::vector<std::string> cells{fmt::format("{}", row.id),
                                 results.scenarios[row.scenario].name,
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
  for (std::size_t i = 0; i < results.axes.size(); ++i)
    if (!is_shown(results.axes[i])) cells.push_back(row.at[i]);
  return cells;
}

std::string to_csv(const Results& results) {
  std::string out;
  append_line(out, result_columns(results));
  for (const RunResult& row : results.rows) append_line(out, result_cells(results, row));
  return out;
}

std::string to_json(const Results& results) {
  const std::vector<std::string> columns = result_columns(results);
  std::string out = "[";
  for (const RunResult& row : results.rows) {
    const std::vector<std::string> cells = result_cells(results, row);
    out += out.size() == 1 ? "\n  {" : ",\n  {";
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const bool number = is_number(columns[i]);
      // Invalid UTF-8, which a file's names may have, becomes U+FFFD.
      const std::string value = number
                                    ? (cells[i].empty() ? "null" : cells[i])
                                    : nlohmann::json(cells[i]).dump(
                                          -1, ' ', false, nlohmann::json::error_handler_t::replace);
      out += fmt::format("{}{}: {}", i == 0 ? "" : ", ", nlohmann::json(columns[i]).dump(), value);
    }
    out += '}';
  }
  return out + (results.rows.empty() ? "]\n" : "\n]\n");
}

void write_aside(const std::string& path, std::string_view text) {
  const std::string aside = path + ".part";
  std::FILE* file = std::fopen(aside.c_str(), "wb");
  if (file == nullptr) throw std::runtime_error(fmt::format("{}: cannot be written", aside));
  const bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !whole) {
    std::filesystem::remove(aside);
    throw std::runtime_error(fmt::format("{}: cannot be written whole (disk full?)", path));
  }
  std::filesystem::rename(aside, path);
}

void write_results(const std::string& folder, const Results& results) {
  std::filesystem::create_directories(folder);
  write_aside(folder + "/results.csv", to_csv(results));
  const std::string database = folder + "/results.sqlite";
  write_sqlite(database + ".part", results);
  std::filesystem::rename(database + ".part", database);
  write_aside(folder + "/report.html", to_html(results));
}

Results read_results(const std::string& folder) {
  return read_sqlite(folder + "/results.sqlite");
}

}  // namespace baechi
