#include "scenarios/read/choice_text.h"

#include <fmt/format.h>

#include <map>

#include "sim/error.h"

namespace baechi {
namespace {

/// Parses "[a, b]" as a list and any other text as a word.
Options::Value value_of_text(const std::string& text, const std::string& flag) {
  Options::Value value{text, flag, {}};
  if (text.size() < 2 || !text.starts_with('[') || !text.ends_with(']')) return value;
  value.text.clear();
  for (std::string item : split_at_commas(std::string_view(text).substr(1, text.size() - 2))) {
    item.erase(0, item.find_first_not_of(' '));
    item.erase(item.find_last_not_of(' ') + 1);
    value.children.emplace_back("", value_of_text(item, flag));
  }
  return value;
}

}  // namespace

std::vector<std::string> split_at_commas(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == ',' && depth <= 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

Options parse_options(std::string_view owner, const std::vector<std::string>& assignments,
                      const std::string& flag) {
  Mistakes mistakes;
  std::map<std::string, Options::Value> values;
  for (const std::string& assignment : assignments) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
      mistakes.add(fmt::format("{}{}: '{}' is not key=value", at(flag), owner, assignment));
      continue;
    }
    const std::string key = assignment.substr(0, equals);
    const Options::Value value = value_of_text(assignment.substr(equals + 1), flag);
    if (!values.emplace(key, value).second)
      mistakes.add(fmt::format("{}{}: '{}' is given twice", at(flag), owner, key));
  }
  mistakes.throw_if_any();
  return Options(std::string(owner), std::move(values));
}

Choice parse_choice(std::string_view text, const std::string& flag) {
  constexpr std::string_view program = "exec:";  // the name of an external placer contains its path
  const std::size_t end = text.starts_with(program) ? text.find(',') : text.find(':');
  Choice choice;
  choice.name = text.substr(0, end);
  choice.where = flag;
  choice.label = text;
  std::vector<std::string> assignments;
  if (end != std::string_view::npos) assignments = split_at_commas(text.substr(end + 1));
  const std::string_view owner = text.starts_with(program) ? "exec" : text.substr(0, end);
  choice.options = parse_options(owner, assignments, flag);
  return choice;
}

}  // namespace baechi
