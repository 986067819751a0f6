/// Answers on standard output: for people in columns, for programs as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace baechi {

/// Whether to colour: standard output is a terminal, and NO_COLOR is unset or empty.
bool coloured();
std::string bold(std::string_view text);
std::string red(std::string_view text);

/// Columns as wide as their longest cell, two spaces apart; the first is set left, the others
/// right. Rows may be short.
class Columns {
 public:
  explicit Columns(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// Prints and flushes. Throws std::runtime_error if standard output does not take it; a reader that
/// has gone away (`| head`) is none.
void print_out(std::string_view text);
void print_json(const nlohmann::ordered_json& json);

}  // namespace baechi
