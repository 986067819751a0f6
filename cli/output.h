/// Prints answers on standard output: tables for people, JSON for programs.
#pragma once
#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/units.h"

namespace baechi {

/// True if standard output is a terminal and NO_COLOR is unset or empty.
bool coloured();
/// True if standard output is a terminal.
bool on_terminal();
/// Columns of the terminal by $COLUMNS, at least 40; 100 if the variable is not set.
std::size_t terminal_width();
std::string bold(std::string_view text);
std::string red(std::string_view text);

/// A table in plain text. Each column is as wide as its longest cell, with two spaces between
/// columns; the first column is left-aligned, the others right-aligned. A row may have fewer cells
/// than the header.
class Columns {
 public:
  explicit Columns(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// A value of a report: for programs, and as people read it.
struct Cell {
  nlohmann::ordered_json value{};
  std::string text{};

  Cell(nlohmann::ordered_json json, std::string shown)
      : value(std::move(json)), text(std::move(shown)) {}
  Cell(std::string_view word) : value(word), text(word) {}
  Cell(const char* word) : Cell(std::string_view(word)) {}
  Cell(const std::string& word) : Cell(std::string_view(word)) {}
  Cell(bool on) : value(on), text(on ? "on" : "off") {}
  Cell(std::integral auto number) : value(number), text(std::to_string(number)) {}
  Cell(Duration time) : value(to_us(time)), text(to_text(time)) {}  ///< in JSON in us
  Cell(Bytes size) : value(size.count), text(to_text(size)) {}
};
/// "12.5 %" of part / whole; "-" without a whole. In a table only.
std::string percent(double part, double whole);
std::string percent(Duration part, Duration whole);
std::string percent(Bytes part, Bytes whole);

/// Rows under columns, which a verb prints as a table or as JSON.
class Report {
 public:
  struct Column {
    std::string key;                  ///< in JSON; "": the column is in the table alone
    std::optional<std::string> head;  ///< in the table; nothing: the column is in JSON alone
  };
  explicit Report(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell for each column.
  void add(std::vector<Cell> row);
  std::string table() const;            ///< as Columns has it
  nlohmann::ordered_json json() const;  ///< an array with an object for each row

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// Prints and flushes. Throws std::runtime_error if writing to standard output fails, unless the
/// reader has closed its end (`| head`).
void print_out(std::string_view text);
void print_json(const nlohmann::ordered_json& json);
/// Says on standard error that `files` of `folder` are written, draws the folder's plots, and says
/// where the pictures are, or why there are none.
void print_pictures(const std::string& folder, std::string_view files);

}  // namespace baechi
