#include "scenarios/results/columns.h"

#include <fmt/compile.h>

#include <algorithm>
#include <array>

namespace baechi {
namespace {

using Header = ResultsHeader;
using Row = RunResult;

/// `count` thousandths, exactly: "12.345".
std::string thousandths(std::int64_t count) {
  return fmt::format(FMT_COMPILE("{}.{:03}"), count / 1000, count % 1000);
}

std::string text(const auto& value) {
  return fmt::to_string(value);
}

/// Adds ".0" to a whole number, so that readers that guess a column's type by its first rows see a
/// real number.
std::string with_point(std::string number) {
  return number.find_first_of(".e") == std::string::npos ? number + ".0" : number;
}

std::string bytes(std::optional<Bytes> size) {
  return size ? text(size->count) : "";
}

std::string us(std::optional<Duration> time) {
  return time ? thousandths(time->count()) : "";
}

/// The fraction of the value above the lower bound: "0.25" if the bound is three quarters.
std::string gap(const RunResult& row) {
  if (!row.value || !row.lower_bound) return "";
  if (*row.value <= *row.lower_bound) return "0.0";
  return with_point(
      fmt::format(FMT_COMPILE("{:.4g}"), 1.0 - static_cast<double>(row.lower_bound->count()) /
                                                   static_cast<double>(row.value->count())));
}

/// A part of the memory at the highest peak; "" if unknown.
template <Bytes PeakMemory::* part>
std::string at_peak(const Header&, const Row& row) {
  return row.at_peak ? bytes(*row.at_peak.*part) : "";
}
/// The same for a part that some graphs include in the weights.
template <Bytes PeakMemory::* part>
std::string at_peak_if_distinguished(const Header& h, const Row& row) {
  return row.at_peak && row.at_peak->distinguished ? at_peak<part>(h, row) : "";
}

/// Six digits: "0.663", "8.18e+09".
std::string number(std::optional<double> value) {
  return value ? with_point(fmt::format(FMT_COMPILE("{:.6g}"), *value)) : "";
}

/// A fraction of the utilisation; "" if unknown.
template <std::optional<double> Utilisation::* part>
std::string fraction_cell(const Header&, const Row& row) {
  return row.utilisation ? number((*row.utilisation).*part) : "";
}
/// The flops or the traffic as a whole number.
template <std::optional<double> Utilisation::* part>
std::string work(const Header&, const Row& row) {
  return row.utilisation && (*row.utilisation).*part
             ? fmt::format(FMT_COMPILE("{:.0f}"), *((*row.utilisation).*part))
             : "";
}

constexpr auto whole = ColumnType::whole;
constexpr auto real = ColumnType::real;
constexpr auto words = ColumnType::text;

constexpr std::array columns{
    Column{"id", ColumnType::id, [](const Header&, const Row& r) { return text(r.id); }},
    Column{"scenario", words,
           [](const Header& h, const Row& r) { return h.scenarios[r.scenario].name; }},
    Column{"graph", words, [](const Header& h, const Row& r) { return h.graphs[r.graph].name; }},
    Column{"ops", whole, [](const Header& h, const Row& r) { return text(h.graphs[r.graph].ops); }},
    Column{"placer", words, [](const Header&, const Row& r) { return r.placer; }},
    Column{"seed", whole, [](const Header&, const Row& r) { return text(r.seed); }},
    Column{"devices", whole, [](const Header&, const Row& r) { return text(r.devices); },
           "cluster.devices.count"},
    Column{"memory_fraction", real,
           [](const Header&, const Row& r) { return with_point(text(r.memory_fraction)); },
           "cluster.memory_fraction"},
    Column{"memory_bytes", whole, [](const Header&, const Row& r) { return text(r.memory.count); }},
    Column{"transfers", words,
           [](const Header&, const Row& r) { return std::string(to_text(r.transfers)); },
           "engine.transfers"},
    Column{"status", words,
           [](const Header&, const Row& r) { return std::string(to_text(r.status)); }},
    Column{"step_time_us", real,
           [](const Header&, const Row& r) { return r.is_step_time() ? us(r.value) : ""; }},
    Column{"lower_bound_us", real, [](const Header&, const Row& r) { return us(r.lower_bound); }},
    Column{"placing_ms", real,
           [](const Header&, const Row& r) { return thousandths(r.placing.count() / 1000); }},
    Column{"peak_bytes", whole, [](const Header&, const Row& r) { return bytes(r.peak); }},
    Column{"moved_bytes", whole, [](const Header&, const Row& r) { return bytes(r.moved); }},
    Column{"detail", words, [](const Header&, const Row& r) { return r.detail; }},
    Column{"gap", real, [](const Header&, const Row& r) { return gap(r); }},
    Column{"measure", words, [](const Header&, const Row& r) { return r.measure; }},
    Column{"value", real, [](const Header&, const Row& r) { return us(r.value); }},
    Column{"unit", words, [](const Header&, const Row& r) { return r.unit; }},
    Column{"weights_bytes", whole, at_peak<&PeakMemory::weights>},
    Column{"gradients_bytes", whole, at_peak_if_distinguished<&PeakMemory::gradients>},
    Column{"optimizer_state_bytes", whole, at_peak_if_distinguished<&PeakMemory::optimizer_state>},
    Column{"activations_bytes", whole, at_peak<&PeakMemory::activations>},
    Column{"workspace_bytes", whole, at_peak<&PeakMemory::workspace>},
    Column{"copies_bytes", whole, at_peak<&PeakMemory::copies>},
    Column{"throughput", real,
           [](const Header& h, const Row& r) { return number(throughput(h, r)); }},
    Column{"busy", real, fraction_cell<&Utilisation::busy>},
    Column{"flops", whole, work<&Utilisation::flops>},
    Column{"traffic_bytes", whole, work<&Utilisation::traffic>},
    Column{"flops_utilisation", real, fraction_cell<&Utilisation::flops_of_step>},
    Column{"busy_flops_utilisation", real, fraction_cell<&Utilisation::flops_of_busy>},
    Column{"memory_utilisation", real, fraction_cell<&Utilisation::traffic_of_step>},
    Column{"compute_bound", real, fraction_cell<&Utilisation::compute_bound>},
    Column{"memory_bound", real, fraction_cell<&Utilisation::memory_bound>},
    Column{"launch_bound", real, fraction_cell<&Utilisation::launch_bound>},
    Column{"intensity", real,
           [](const Header&, const Row& r) {
             return r.utilisation ? number(r.utilisation->intensity()) : "";
           }},
    Column{"placed_by", words, [](const Header&, const Row& r) { return r.placed_by; }},
    Column{"point", words, [](const Header&, const Row& r) { return point_text(r.point); }},
};

bool is_shown(std::string_view axis) {
  return std::ranges::find(columns, axis, &Column::shows_axis) != columns.end();
}

}  // namespace

std::string point_text(std::uint64_t point) {
  return fmt::format(FMT_COMPILE("{:016x}"), point);
}

std::optional<double> throughput(const ResultsHeader& header, const RunResult& row) {
  const std::int64_t batch = header.graphs[row.graph].batch;
  if (!row.is_step_time() || !row.value || *row.value <= Duration::zero() || batch == 0)
    return std::nullopt;
  return static_cast<double>(batch) / (to_us(*row.value) / 1e6);
}

std::span<const Column> fixed_columns() {
  return columns;
}

std::vector<ResultColumn> result_columns(const ResultsHeader& header) {
  std::vector<ResultColumn> all;
  for (const Column& column : columns) all.push_back({std::string(column.name), column.type});
  for (const std::string& axis : header.axes)
    if (!is_shown(axis)) all.push_back({axis == "graph" ? "graph.block" : axis, words});
  return all;
}

std::vector<std::string> result_cells(const ResultsHeader& header, const RunResult& row) {
  std::vector<std::string> cells;
  cells.reserve(columns.size() + header.axes.size());
  for (const Column& column : columns) cells.push_back(column.cell(header, row));
  for (std::size_t i = 0; i < header.axes.size(); ++i)
    if (!is_shown(header.axes[i])) cells.push_back(row.at[i]);
  return cells;
}

}  // namespace baechi
