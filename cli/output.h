/// Prints answers on standard output: columns for people, JSON for programs.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace baechi {

/// True if standard output is a terminal and NO_COLOR is unset or empty.
bool coloured();
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

/// Prints and flushes. Throws std::runtime_error if writing to standard output fails, unless the
/// reader has closed its end (`| head`).
void print_out(std::string_view text);
void print_json(const nlohmann::ordered_json& json);

}  // namespace baechi
