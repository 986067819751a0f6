#include <algorithm>

#include "sim/error.h"
#include "sim/units.h"
#include "traces/import/hlo/module.h"

namespace baechi::hlo {
namespace {

// The format: an instruction a line, `ROOT %name = f32[8,16]{1,0} add(%a, f32[8,16] %b), attr=..`,
// within computations, `%name (...) -> ... {` to `}`, of which one begins with ENTRY.
// Source: openxla/xla, hlo_parser.cc and the operation semantics' page.

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool opens(char c) {
  return c == '(' || c == '[' || c == '{';
}
bool closes(char c) {
  return c == ')' || c == ']' || c == '}';
}

/// Position behind the bracket that closes the one at `at`, quoted texts left aside; the end if
/// there is none.
std::size_t behind_bracket(std::string_view text, std::size_t at) {
  int depth = 0;
  for (bool quoted = false; at < text.size(); ++at) {
    if (text[at] == '\\' && quoted) {
      ++at;
    } else if (text[at] == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      if (opens(text[at])) ++depth;
      if (closes(text[at]) && --depth <= 0) return at + 1;
    }
  }
  return text.size();
}

/// The parts of a list, separated by commas outside of brackets.
std::vector<std::string_view> parts(std::string_view list) {
  std::vector<std::string_view> found;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < list.size();) {
    if (opens(list[at])) {
      at = behind_bracket(list, at);
    } else if (list[at] == ',') {
      found.push_back(trimmed(list.substr(begin, at - begin)));
      begin = ++at;
    } else {
      ++at;
    }
  }
  if (const std::string_view last = trimmed(list.substr(begin)); !last.empty())
    found.push_back(last);
  return found;
}

/// Reads the type at the beginning of `text`, an array's or a tuple's, and removes it.
std::vector<Shape> take_shapes(std::string_view& text, int depth = 0) {
  text = trimmed(text);
  if (text.starts_with("/*"))
    text = trimmed(text.substr(std::min(text.find("*/"), text.size() - 2) + 2));
  if (text.starts_with('(') && depth < 20) {
    const std::size_t end = behind_bracket(text, 0);
    std::vector<Shape> all;
    for (std::string_view part : parts(text.substr(1, end - 2)))
      for (Shape& shape : take_shapes(part, depth + 1)) all.push_back(std::move(shape));
    text = trimmed(text.substr(end));
    return all;
  }
  const std::size_t bracket = text.find('[');
  if (bracket == std::string_view::npos || bracket > 20 ||
      text.substr(0, bracket).find(' ') != std::string_view::npos)
    return {};
  Shape shape{.type = std::string(text.substr(0, bracket))};
  const std::size_t end = behind_bracket(text, bracket);
  for (std::string_view side : parts(text.substr(bracket + 1, end - bracket - 2))) {
    if (side.starts_with("<=")) side.remove_prefix(2);  // bounded, of a length known when it runs
    shape.sides.push_back(std::clamp<std::int64_t>(parse_number<std::int64_t>(side).value_or(1), 0,
                                                   std::int64_t{1} << 50));
  }
  text.remove_prefix(end);
  if (text.starts_with('{')) text.remove_prefix(behind_bracket(text, 0));
  text = trimmed(text);
  return {shape};
}

std::string without_percent(std::string_view name) {
  if (name.starts_with('%')) name.remove_prefix(1);
  return std::string(name);
}

/// The names in `key=%name` or `key={%a, %b}`.
void add_calls(std::string_view attributes, std::string_view key, std::vector<std::string>& calls) {
  for (const std::string_view attribute : parts(attributes)) {
    if (!attribute.starts_with(key) || attribute.size() <= key.size() ||
        attribute[key.size()] != '=')
      continue;
    std::string_view value = attribute.substr(key.size() + 1);
    if (value.starts_with('{') && value.ends_with('}')) value = value.substr(1, value.size() - 2);
    for (const std::string_view name : parts(value)) calls.push_back(without_percent(name));
  }
}

std::string scope_of(std::string_view attributes) {
  constexpr std::string_view key = "op_name=\"";
  const std::size_t at = attributes.find(key);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = attributes.substr(at + key.size());
  return std::string(rest.substr(0, rest.find('"')));
}

class HloReader {
 public:
  HloReader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  Module read() {
    while (!text_.empty()) {
      ++line_;
      const std::size_t end = text_.find('\n');
      read_line(trimmed(text_.substr(0, end)));
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
    }
    if (current_ != nullptr) mistake("the text ends within a computation");
    mistakes_.throw_if_any();
    if (module_.entry.empty())
      throw InputError(
          fmt::format("{}: no computation begins with ENTRY: not a whole HLO module", path_));
    return std::move(module_);
  }

 private:
  void mistake(std::string_view what) {
    mistakes_.add(fmt::format("{}:{}:1: {}", path_, line_, what));
  }
  void read_line(std::string_view line);
  void read_instruction(std::string_view line);

  std::string_view text_;
  const std::string& path_;
  Module module_;
  Computation* current_ = nullptr;
  std::size_t line_ = 0;
  Mistakes mistakes_;
};

void HloReader::read_line(std::string_view line) {
  if (line.empty() || line.starts_with("//") || line.starts_with('#')) return;
  if (line.starts_with("HloModule")) {
    module_.name = std::string(trimmed(line.substr(9, std::min(line.find(','), line.size()) - 9)));
  } else if (line.starts_with('}')) {
    current_ = nullptr;
  } else if (current_ != nullptr) {
    read_instruction(line);
  } else if (line.ends_with('{')) {
    const bool entry = line.starts_with("ENTRY");
    if (entry) line = trimmed(line.substr(5));
    const std::string name = without_percent(line.substr(0, line.find_first_of(" (")));
    if (entry) module_.entry = name;
    const auto [at, added] = module_.computations.emplace(name, Computation{.name = name});
    if (!added) mistake(fmt::format("a second computation '{}'", name));
    current_ = &at->second;
  }
}

void HloReader::read_instruction(std::string_view line) {
  if (line.starts_with("ROOT ")) line.remove_prefix(5);
  const std::size_t equals = line.find(" = ");
  if (equals == std::string_view::npos)
    return mistake("an instruction is 'name = type opcode(operands)'");
  Instruction made{.name = without_percent(trimmed(line.substr(0, equals))), .line = line_};
  std::string_view rest = line.substr(equals + 3);
  made.results = take_shapes(rest);
  const std::size_t bracket = rest.find('(');
  if (bracket == std::string_view::npos || bracket == 0)
    return mistake("an instruction is 'name = type opcode(operands)'");
  made.opcode = std::string(rest.substr(0, bracket));
  const std::size_t end = behind_bracket(rest, bracket);
  std::string_view operands = rest.substr(bracket + 1, end - bracket - 2);
  made.attributes = std::string(rest.substr(end));
  if (made.opcode == "get-tuple-element" ||
      (made.opcode != "constant" && made.opcode != "parameter"))
    for (std::string_view operand : parts(operands)) {
      const std::size_t space = operand.rfind(' ');
      if (space != std::string_view::npos) operand.remove_prefix(space + 1);
      made.operands.push_back({.name = without_percent(operand)});
    }
  if (made.opcode == "get-tuple-element" && !made.operands.empty())
    if (const std::size_t at = made.attributes.find("index="); at != std::string::npos)
      made.operands.front().part = std::clamp<std::int64_t>(
          std::strtoll(made.attributes.c_str() + at + 6, nullptr, 10), -1, 1 << 30);
  for (const char* key : {"calls", "condition", "body", "to_apply", "branch_computations",
                          "true_computation", "false_computation"})
    add_calls(made.attributes, key, made.calls);
  made.scope = scope_of(made.attributes);
  current_->instructions.push_back(std::move(made));
}

}  // namespace

Module read_hlo(std::string_view text, const std::string& path) {
  return HloReader(text, path).read();
}

}  // namespace baechi::hlo
