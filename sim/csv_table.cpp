#include "sim/csv_table.h"

#include <algorithm>
#include <cmath>

#include "sim/error.h"
#include "sim/units.h"

namespace baechi {
namespace {

constexpr std::size_t most_mistakes = 20;

/// Reads fields one by one and knows where it is.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }
  std::size_t line() const { return line_; }
  std::size_t column() const { return column_; }

  /// True, and behind it, if the next characters end a line.
  bool skip_line_end() {
    if (rest_.starts_with("\r\n")) take();
    if (!rest_.starts_with('\n')) return false;
    take();
    return true;
  }
  bool skip(char c) {
    if (!rest_.starts_with(c)) return false;
    take();
    return true;
  }

  /// A field, up to a comma or the end of the line.
  std::string field() {
    std::string text;
    if (skip('"')) {
      while (!at_end()) {
        if (skip('"') && !rest_.starts_with('"')) break;
        text += take();
      }
    }
    while (!at_end() && !rest_.starts_with(',') && !rest_.starts_with('\n') &&
           !rest_.starts_with("\r\n"))
      text += take();
    return text;
  }

 private:
  char take() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    column_ = c == '\n' ? 1 : column_ + 1;
    line_ += c == '\n' ? 1 : 0;
    return c;
  }

  std::string_view rest_;
  std::size_t line_ = 1, column_ = 1;
};

}  // namespace

CsvTable::CsvTable(std::string_view text, std::string path,
                   std::vector<std::string>* malformed_rows)
    : path_(std::move(path)) {
  Mistakes mistakes;
  Reader reader(text);
  while (!reader.at_end() && mistakes.size() < most_mistakes) {
    if (reader.skip_line_end()) continue;
    Row row;
    do {
      Field field{.line = reader.line(), .column = reader.column()};
      field.text = reader.field();
      row.fields.push_back(std::move(field));
    } while (reader.skip(','));
    reader.skip_line_end();
    if (header_.fields.empty()) {
      header_ = std::move(row);
    } else if (row.fields.size() != header_.fields.size()) {
      std::string mistake =
          fmt::format("{}: {} values, not {} as in the header", at_place(row.fields.front()),
                      row.fields.size(), header_.fields.size());
      if (malformed_rows != nullptr)
        malformed_rows->push_back(std::move(mistake));
      else
        mistakes.add(mistake);
    } else {
      rows_.push_back(std::move(row));
    }
  }
  if (header_.fields.empty()) mistakes.add(path_ + ":1:1: no line that names the columns");
  mistakes.throw_if_any();
}

std::size_t CsvTable::column(std::string_view name) const {
  const auto it = std::ranges::find(header_.fields, name, &Field::text);
  if (it != header_.fields.end()) return static_cast<std::size_t>(it - header_.fields.begin());
  std::vector<std::string> known;
  for (const Field& field : header_.fields) known.push_back(field.text);
  throw InputError(fmt::format("{}: no column '{}'{} (columns: {})",
                               at_place(header_.fields.front()), name, did_you_mean(name, known),
                               fmt::join(known, ", ")));
}

bool CsvTable::has(std::string_view name) const {
  return std::ranges::find(header_.fields, name, &Field::text) != header_.fields.end();
}

double CsvTable::number(std::size_t row, std::size_t column, double least) const {
  const auto value = parse_number<double>(text(row, column));
  if (value && std::isfinite(*value) && *value >= least) return *value;
  throw InputError(fmt::format("{}: {} '{}' is not a number of at least {}", where(row, column),
                               header_.fields[column].text, text(row, column).substr(0, 40),
                               least));
}

std::int64_t CsvTable::whole(std::size_t row, std::size_t column, std::int64_t least) const {
  const auto value = parse_number<std::int64_t>(text(row, column));
  if (value && *value >= least) return *value;
  throw InputError(fmt::format("{}: {} '{}' is not a whole number of at least {}",
                               where(row, column), header_.fields[column].text,
                               text(row, column).substr(0, 40), least));
}

std::string CsvTable::at_place(const Field& field) const {
  return fmt::format("{}:{}:{}", path_, field.line, field.column);
}

}  // namespace baechi
