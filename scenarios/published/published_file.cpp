#include "scenarios/published/published_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/csv_table.h"
#include "sim/error.h"
#include "sim/units.h"
#include "traces/format/compressed_file.h"

namespace baechi {
namespace {

using JsonValue = nlohmann::json;

[[noreturn]] void several(const FileCell& cell, const std::string& place) {
  throw InputError(
      fmt::format("{}: a second entry that is as 'where' says", place.empty() ? cell.file : place));
}

/// Whether a number or a text is the one that is wanted.
bool is_wanted(const std::string& found, const std::string& wanted) {
  const auto a = parse_number<double>(found), b = parse_number<double>(wanted);
  return a && b ? *a == *b : found == wanted;
}

std::optional<FoundCell> in_csv(const FileCell& cell, const std::string& text) {
  const CsvTable table(text, cell.file);
  std::optional<FoundCell> found;
  for (std::size_t r = 0; r < table.num_rows(); ++r) {
    if (!std::ranges::all_of(cell.where, [&](const auto& wanted) {
          return is_wanted(table.text(r, table.column(wanted.first)), wanted.second);
        }))
      continue;
    if (found) several(cell, table.where(r, 0));
    found = FoundCell{.number = table.number(r, table.column(cell.value))};
  }
  return found;
}

std::optional<FoundCell> in_json_lines(const FileCell& cell, const std::string& text) {
  std::optional<FoundCell> found;
  std::istringstream in(text);
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string place = fmt::format("{}:{}", cell.file, ++number);
    const JsonValue entry = JsonValue::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!entry.is_object()) throw InputError(place + ": not a JSON object");
    const auto text_of = [&](const std::string& key) {
      const auto it = entry.find(key);
      if (it == entry.end()) return std::string();
      return it->is_string() ? it->get<std::string>() : it->dump();
    };
    if (!std::ranges::all_of(cell.where, [&](const auto& wanted) {
          return is_wanted(text_of(wanted.first), wanted.second);
        }))
      continue;
    if (found) several(cell, place);
    const JsonValue value = entry.value(cell.value, JsonValue("missing"));
    if (!value.is_null() && !value.is_number())
      throw InputError(fmt::format("{}: '{}' is not a number", place, cell.value));
    found = value.is_null() ? FoundCell{.null = true} : FoundCell{.number = value.get<double>()};
  }
  return found;
}

}  // namespace

std::optional<FoundCell> find_cell(const FileCell& cell) {
  const std::string text = read_file(cell.file);
  return text.starts_with('{') ? in_json_lines(cell, text) : in_csv(cell, text);
}

}  // namespace baechi
