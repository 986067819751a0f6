#include "scenarios/results/results.h"

#include <fmt/compile.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "traces/format/compressed_file.h"
#include "traces/importer.h"

namespace baechi {

EachRow each_row(const Results& results) {
  return [&results](const VisitRow& visit) {
    for (const RunResult& row : results.rows) visit(row);
  };
}

Results read_results(const std::string& folder) {
  if (std::error_code none; std::filesystem::is_regular_file(folder, none)) {
    require_kind(TextFile(folder, Content::any), "a folder of results");
    throw InputError(fmt::format(
        "{}: is a file: name the folder with the results.sqlite that 'baechi run' wrote", folder));
  }
  return read_sqlite(folder + "/results.sqlite");
}

namespace {

using Header = ResultsHeader;
using Row = RunResult;

/// `count` thousandths, exactly: "12.345".
std::string thousandths(std::int64_t count) {
  return fmt::format(FMT_COMPILE("{}.{:03}"), count / 1000, count % 1000);
}

std::string number_text(const auto& value) { return fmt::to_string(value); }

/// Adds ".0" to a whole number, so that readers that guess a column's type by its first rows see a
/// real number.
std::string with_point(std::string number) {
  return number.find_first_of(".e") == std::string::npos ? number + ".0" : number;
}

std::string bytes(std::optional<Bytes> size) { return size ? number_text(size->count) : ""; }

std::string us(std::optional<Duration> time) { return time ? thousandths(time->count()) : ""; }

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

constexpr auto int64 = ColumnType::whole;
constexpr auto real = ColumnType::real;
constexpr auto words = ColumnType::text;

constexpr std::array columns{
    Column{"id", ColumnType::id, [](const Header&, const Row& r) { return number_text(r.id); }},
    Column{"scenario", words,
           [](const Header& h, const Row& r) { return h.scenarios[r.scenario].name; }},
    Column{"graph", words, [](const Header& h, const Row& r) { return h.graphs[r.graph].name; }},
    Column{"ops", int64,
           [](const Header& h, const Row& r) { return number_text(h.graphs[r.graph].ops); }},
    Column{"placer", words, [](const Header&, const Row& r) { return r.placer; }},
    Column{"seed", int64, [](const Header&, const Row& r) { return number_text(r.seed); }},
    Column{"devices", int64, [](const Header&, const Row& r) { return number_text(r.devices); },
           "cluster.devices.count"},
    Column{"memory_fraction", real,
           [](const Header&, const Row& r) { return with_point(number_text(r.memory_fraction)); },
           "cluster.memory_fraction"},
    Column{"memory_bytes", int64,
           [](const Header&, const Row& r) { return number_text(r.memory.count); }},
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
    Column{"peak_bytes", int64, [](const Header&, const Row& r) { return bytes(r.peak); }},
    Column{"moved_bytes", int64, [](const Header&, const Row& r) { return bytes(r.moved); }},
    Column{"detail", words, [](const Header&, const Row& r) { return r.detail; }},
    Column{"gap", real, [](const Header&, const Row& r) { return gap(r); }},
    Column{"measure", words, [](const Header&, const Row& r) { return r.measure; }},
    Column{"value", real, [](const Header&, const Row& r) { return us(r.value); }},
    Column{"unit", words, [](const Header&, const Row& r) { return r.unit; }},
    Column{"weights_bytes", int64, at_peak<&PeakMemory::weights>},
    Column{"gradients_bytes", int64, at_peak_if_distinguished<&PeakMemory::gradients>},
    Column{"optimizer_state_bytes", int64, at_peak_if_distinguished<&PeakMemory::optimizer_state>},
    Column{"activations_bytes", int64, at_peak<&PeakMemory::activations>},
    Column{"workspace_bytes", int64, at_peak<&PeakMemory::workspace>},
    Column{"copies_bytes", int64, at_peak<&PeakMemory::copies>},
    Column{"throughput", real,
           [](const Header& h, const Row& r) { return number(throughput(h, r)); }},
    Column{"busy", real, fraction_cell<&Utilisation::busy>},
    Column{"flops", int64, work<&Utilisation::flops>},
    Column{"traffic_bytes", int64, work<&Utilisation::traffic>},
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

bool is_number(std::string_view text) {
  double value = 0.0;
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  return ec == std::errc{} && end == text.data() + text.size();
}

/// Whether `cell`, of any column, needs no quotes or escapes in a CSV file. Most cells need none.
bool is_plain_cell(const std::string& cell) {
  const auto is_letter_or_digit = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return std::ranges::all_of(cell,
                             [&](char c) { return is_letter_or_digit(c) || c == '.' || c == '_'; });
}

/// Text as JSON. Invalid UTF-8, which names in a graph's file may contain, becomes U+FFFD.
std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string point_text(std::uint64_t point) { return fmt::format(FMT_COMPILE("{:016x}"), point); }

std::optional<double> throughput(const ResultsHeader& header, const RunResult& row) {
  const std::int64_t batch = header.graphs[row.graph].batch;
  if (!row.is_step_time() || !row.value || *row.value <= Duration::zero() || batch == 0)
    return std::nullopt;
  return static_cast<double>(batch) / (to_us(*row.value) / 1e6);
}

std::span<const Column> fixed_columns() { return columns; }

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

std::string doubled_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::string csv_cell(const std::string& cell, ColumnType type) {
  const bool formula = type == ColumnType::text && !cell.empty() &&
                       std::string_view("=+-@\t\r").find(cell.front()) != std::string_view::npos &&
                       !is_number(cell);
  const std::string shown = formula ? "'" + cell : cell;
  return shown.find_first_of(",\"\n\r") == std::string::npos ? shown : doubled_quotes(shown);
}

CsvRows::CsvRows(const ResultsHeader& header, Print print)
    : columns_(result_columns(header)), print_(std::move(print)) {
  std::vector<std::string> names;
  for (const ResultColumn& column : columns_) names.push_back(column.name);
  add_line(names);
}

void CsvRows::add_line(const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) lines_ += ',';
    if (is_plain_cell(cells[i]))
      lines_ += cells[i];
    else
      lines_ += csv_cell(cells[i], columns_[i].type);
  }
  lines_ += '\n';
}

void CsvRows::add(const std::vector<std::string>& cells) {
  add_line(cells);
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
  const std::vector<ResultColumn> columns = result_columns(header);
  bool first = true;
  print("[");
  rows([&](const RunResult& row) {
    const std::vector<std::string> cells = result_cells(header, row);
    std::string out = first ? "\n  {" : ",\n  {";
    first = false;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const bool number = columns[i].type != ColumnType::text;
      const std::string value = !number            ? json_text(cells[i])
                                : cells[i].empty() ? "null"
                                                   : cells[i];
      out += fmt::format("{}{}: {}", i == 0 ? "" : ", ", json_text(columns[i].name), value);
    }
    print(out += '}');
  });
  print(first ? "]\n" : "\n]\n");
}

}  // namespace baechi
