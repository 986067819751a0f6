#include "sim/error.h"
#include "sim/text.h"
#include "traces/import/hlo/module.h"

namespace baechi::hlo {
namespace {

// The format: computations, `%name (...) -> ... {` to `}`, contain instructions, `ROOT %name =
// f32[8,16]{1,0} add(%a, f32[8,16] %b), attr=..`, of one or more lines. The computation marked
// ENTRY is the entry, or the last one if none is marked. Comments are `// ...`, `# ...` and
// `/*index=5*/`.
// Source: openxla/xla, hlo_parser.cc and the operation semantics' page.

bool opens(char c) { return c == '(' || c == '[' || c == '{'; }
bool closes(char c) { return c == ')' || c == ']' || c == '}'; }

/// Whether `c` may begin or end a string, a comment or a bracket.
bool is_special(char c) { return c == '"' || c == '\\' || c == '/' || opens(c) || closes(c); }

/// Position after the bracket that closes the one at `at`; the end if there is none. Brackets in
/// quoted strings are ignored.
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

/// Removes the type of an array or tuple from the beginning of `text`; returns its arrays.
std::vector<Shape> take_shapes(std::string_view& text, int depth = 0) {
  text = trimmed(text);
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
  for (std::string_view dim : parts(text.substr(bracket + 1, end - bracket - 2))) {
    if (dim.starts_with("<=")) dim.remove_prefix(2);  // bounded dynamic dimension: its bound
    shape.dims.push_back(std::clamp<std::int64_t>(parse_number<std::int64_t>(dim).value_or(1), 0,
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
    if (attribute.substr(0, attribute.find('=')) != key) continue;
    std::string_view value = attribute.substr(attribute.find('=') + 1);
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

/// Whether the text, which begins with '=', contains a word directly before a bracket, `add(`.
bool has_operation(std::string_view text) {
  for (std::size_t at = text.find('('); at != std::string_view::npos; at = text.find('(', at + 1))
    if (!opens(text[at - 1]) &&
        std::string_view(" =,").find(text[at - 1]) == std::string_view::npos)
      return true;
  return false;
}

class HloReader {
 public:
  HloReader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  Module read() {
    while (next_statement()) read_statement(trimmed(statement_));
    if (current_ != nullptr) mistake("the text ends within a computation");
    mistakes_.throw_if_any();
    if (last_.empty())
      throw InputError(
          fmt::format("{}: no computation 'ENTRY name {{' found: not an HLO module", path_));
    module_.entry_stated = !module_.entry.empty();
    if (!module_.entry_stated) module_.entry = last_;
    return std::move(module_);
  }

 private:
  void mistake(std::string_view what) {
    mistakes_.add(fmt::format("{}:{}:1: {}", path_, line_, what));
  }

  /// Reads the next statement that is not empty; false at the end of the text.
  bool next_statement() {
    statement_.clear();
    depth_ = 0;
    while (!text_.empty()) {
      ++next_line_;
      const std::size_t end = text_.find('\n');
      const std::string_view line = trimmed(text_.substr(0, end));
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      if (trimmed(statement_).empty()) {
        line_ = next_line_;
        statement_ = "";
      }
      if (!line.starts_with('#')) add_line(line);
      if (!trimmed(statement_).empty() && is_whole()) return true;
    }
    if (trimmed(statement_).empty()) return false;
    mistake("a bracket or quote that opens here is not closed");
    return false;
  }

  /// Appends the line without its comments to the statement.
  void add_line(std::string_view line) {
    for (std::size_t at = 0; at < line.size(); ++at) {
      if (!commented_ && !is_special(line[at])) {  // most of a line
        const std::size_t begin = at;
        while (at + 1 < line.size() && !is_special(line[at + 1])) ++at;
        statement_ += line.substr(begin, at + 1 - begin);
        continue;
      }
      const std::string_view rest = line.substr(at);
      if (commented_ || (!quoted_ && rest.starts_with("/*"))) {
        const std::size_t end = rest.find("*/", commented_ ? 0 : 2);
        commented_ = end == std::string_view::npos;
        if (commented_) break;
        at += end + 1;
        continue;
      }
      if (!quoted_ && rest.starts_with("//")) break;
      if (rest.front() == '"') quoted_ = !quoted_;
      if (!quoted_ && opens(rest.front())) ++depth_;
      if (!quoted_ && closes(rest.front())) --depth_;
      statement_ += rest.front();
      if (quoted_ && rest.front() == '\\' && rest.size() > 1) statement_ += line[++at];
    }
    statement_ += ' ';
  }

  /// Whether the next line begins another statement.
  bool is_whole() const {
    const std::string_view text = trimmed(statement_);
    if (quoted_ || commented_) return false;
    if (current_ == nullptr && text.ends_with('{') && depth_ == 1) return true;
    if (depth_ > 0 || text.ends_with(',') || text.ends_with('=')) return false;
    // After a type alone, `%name = (f32[2], f32[2])`, the operation is on the next line.
    const std::size_t equals = text.find('=');
    return depth_ < 0 || current_ == nullptr || equals == std::string_view::npos ||
           !closes(text.back()) || has_operation(text.substr(equals));
  }

  void read_statement(std::string_view text) {
    if (text.starts_with("HloModule")) {
      if (has_module_) {
        mistake("a second HloModule: give each module in a file of its own");
        text_ = {};
        current_ = nullptr;
      }
      has_module_ = true;
      module_.name =
          std::string(trimmed(text.substr(9, std::min(text.find(','), text.size()) - 9)));
      module_.devices = stated_devices(text, "replica_count=", "num_partitions=");
    } else if (text.starts_with('}')) {
      current_ = nullptr;
    } else if (current_ != nullptr) {
      read_instruction(text);
    } else if (text.ends_with('{')) {
      begin_computation(text);
    }
  }

  void begin_computation(std::string_view header) {
    const bool entry = header.starts_with("ENTRY");
    if (entry) header = trimmed(header.substr(5));
    const std::string name = without_percent(header.substr(0, header.find_first_of(" ({")));
    if (entry) module_.entry = name;
    last_ = name;
    const auto [at, added] = module_.computations.emplace(name, Computation{.name = name});
    if (!added)
      mistake(fmt::format("a second computation '{}': names are unique, and a file has one module",
                          name));
    current_ = &at->second;
  }

  void read_instruction(std::string_view line) {
    const bool root = line.starts_with("ROOT ");
    if (root) line.remove_prefix(5);
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos)
      return mistake("an instruction is 'name = type opcode(operands)'");
    Instruction made{
        .name = without_percent(trimmed(line.substr(0, equals))), .line = line_, .root = root};
    std::string_view rest = line.substr(equals + 1);
    made.results = take_shapes(rest);
    const std::size_t bracket = rest.find('(');
    if (bracket == std::string_view::npos || bracket == 0)
      return mistake("an instruction is 'name = type opcode(operands)'");
    made.opcode = std::string(rest.substr(0, bracket));
    const std::size_t end = behind_bracket(rest, bracket);
    std::string_view operands = rest.substr(bracket + 1, end - bracket - 2);
    made.attributes = std::string(rest.substr(end));
    if (made.opcode == "constant" && made.results.size() == 1 && made.results.front().dims.empty())
      made.value = parse_number<std::int64_t>(trimmed(operands));
    if (made.opcode == "parameter") made.value = parse_number<std::int64_t>(trimmed(operands));
    if (made.opcode != "constant" && made.opcode != "parameter")
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

  std::string_view text_;
  const std::string& path_;
  Module module_;
  bool has_module_ = false;
  Computation* current_ = nullptr;
  std::string last_;
  std::size_t line_ = 0, next_line_ = 0;  // of the statement; read so far
  Mistakes mistakes_;

  std::string statement_;
  int depth_ = 0;  // brackets open at its end
  bool quoted_ = false, commented_ = false;
};

}  // namespace

Module read_hlo(std::string_view text, const std::string& path) {
  Module module = HloReader(text, path).read();
  find_producers(module);
  return module;
}

}  // namespace baechi::hlo
