#include "scenarios/results/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace baechi {
namespace {

bool is_number(std::string_view text) {
  double value = 0.0;
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  return ec == std::errc{} && end == text.data() + text.size();
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

/// Whether `cell`, of any column, needs no quotes or escapes in a CSV file. Most cells need none.
bool is_plain(const std::string& cell) {
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

std::string csv_cell(const std::string& cell, ColumnType type) {
  const bool formula = type == ColumnType::text && !cell.empty() &&
                       std::string_view("=+-@\t\r").find(cell.front()) != std::string_view::npos &&
                       !is_number(cell);
  const std::string shown = formula ? "'" + cell : cell;
  return shown.find_first_of(",\"\n\r") == std::string::npos ? shown : in_quotes(shown);
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
    if (is_plain(cells[i]))
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
