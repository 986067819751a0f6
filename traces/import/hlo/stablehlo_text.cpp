#include "sim/error.h"
#include "sim/text.h"
#include "traces/import/hlo/module.h"

namespace baechi::hlo {
namespace {

// The format, as MLIR prints it: functions with one operation per line,
//   %3:2 = stablehlo.while(%i = %0, %j = %1) : tensor<i32>, tensor<8xf32>
//    cond { ... } do { ... }
//   %4 = "stablehlo.all_reduce"(%3#1) <{...}> ({ ... }) : (tensor<8xf32>) -> tensor<8xf32>
// A region begins with a line that ends in '{', and ends with a line that begins with '}'.
// Source: openxla/stablehlo, docs/spec.md.

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '$' || c == '-';
}

/// The name that begins at `at`: letters, digits, '_', '.', '$', '-'.
std::string_view name_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_name(text[end])) ++end;
  return text.substr(at, end - at);
}

/// All tensor types, "tensor<8x16xf32>", in `text`.
std::vector<Shape> shapes_in(std::string_view text) {
  constexpr std::string_view begin = "tensor<";
  std::vector<Shape> found;
  for (std::size_t at = text.find(begin); at != std::string_view::npos; at = text.find(begin, at)) {
    at += begin.size();
    std::string_view inner = text.substr(at, text.find_first_of(",>", at) - at);
    Shape shape;
    for (std::size_t x = inner.find('x'); x != std::string_view::npos; x = inner.find('x')) {
      const auto dim = parse_number<std::int64_t>(inner.substr(0, x));
      if (!dim && inner.substr(0, x) != "?") break;
      shape.dims.push_back(std::clamp<std::int64_t>(dim.value_or(1), 0, std::int64_t{1} << 50));
      inner.remove_prefix(x + 1);
    }
    shape.type = std::string(inner);
    found.push_back(std::move(shape));
  }
  return found;
}

/// The operands in `text`; of `%a = %b`, the form of loop-carried values, %b or, if `carried`, %a.
std::vector<Operand> operands_in(std::string_view text, bool carried = false) {
  std::vector<Operand> found;
  for (std::size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at)) {
    const std::string_view name = name_at(text, ++at);
    at += name.size();
    if (text.substr(at).starts_with(" = ") != carried) continue;
    Operand operand{.name = std::string(name)};
    if (at < text.size() && text[at] == '#')
      operand.part = parse_number<std::int64_t>(name_at(text, at + 1)).value_or(-1);
    found.push_back(std::move(operand));
  }
  return found;
}

/// Position of the types: after the last " : " that is not in an attribute.
std::size_t types_at(std::string_view line) {
  const std::size_t arrow = line.rfind(") -> ");
  const std::size_t colon =
      line.rfind(" : ", arrow == std::string_view::npos ? line.size() : arrow);
  return colon == std::string_view::npos ? line.size() : colon;
}

std::vector<Shape> result_shapes(std::string_view types) {
  const std::size_t arrow = types.rfind("->");
  return shapes_in(arrow == std::string_view::npos ? types : types.substr(arrow));
}

/// The arguments in `list`, "%arg0: tensor<8xf32> {...}, %arg1: ...".
std::vector<Instruction> arguments_in(std::string_view list, std::size_t line) {
  std::vector<Instruction> found;
  for (std::size_t p = list.find('%'); p != std::string_view::npos; p = list.find('%', p + 1)) {
    auto shapes = shapes_in(list.substr(p, list.find('%', p + 1) - p));
    if (shapes.size() > 1) shapes.resize(1);  // the others are in attributes
    found.push_back({.name = std::string(name_at(list, p + 1)),
                     .opcode = "parameter",
                     .results = std::move(shapes),
                     .line = line});
  }
  return found;
}

class StableHloReader {
 public:
  StableHloReader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  Module read() {
    for (std::string statement; !text_.empty(); statement.clear()) {
      do {
        ++line_;
        const std::size_t end = text_.find('\n');
        statement += (statement.empty() ? "" : " ") + std::string(trimmed(text_.substr(0, end)));
        text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      } while (goes_on(statement));
      read_line(statement);
    }
    if (!open_.empty())
      throw InputError(fmt::format("{}:{}:1: the text ends within a region", path_, line_));
    if (module_.entry.empty())
      throw InputError(fmt::format("{}: no function is in it: not StableHLO", path_));
    return std::move(module_);
  }

 private:
  /// An open region: the computation that its lines belong to ("" if they are ignored), and the
  /// instruction that it belongs to.
  struct Region {
    std::string computation, owner;
    std::size_t instruction = 0;
    bool waits = false;  ///< the instruction's types follow the region
    /// For regions of Shardy, whose lines count to the computation around them: the instruction
    /// that returns the region's results.
    std::optional<Instruction> inlined{};
    std::set<std::string, std::less<>> names{};  ///< defined in it: `inlined`'s name precedes them
  };

  /// Whether the next line is part of the statement: of the arguments of a function, or types.
  bool goes_on(std::string_view statement) const {
    const std::string_view next = trimmed(text_.substr(0, text_.find('\n')));
    return next.starts_with(": ") || next.starts_with("-> ") ||
           (!text_.empty() && !statement.ends_with('{') &&
            (statement.find("sdy.manual_computation(") != std::string_view::npos ||
             (statement.find("func.func") != std::string_view::npos &&
              std::ranges::count(statement, '(') > std::ranges::count(statement, ')'))));
  }
  void read_line(std::string_view line);
  void begin_function(std::string_view line);
  void begin_region(std::string_view line);
  void end_region(std::string_view line);
  void read_operation(std::string_view line);
  std::vector<Operand> operands_of(std::string_view text) const;
  void add(Instruction made) {
    if (Region& region = open_.back(); region.inlined) {
      region.names.insert(made.name);
      made.name = region.inlined->name + "/" + made.name;
    }
    current()->push_back(std::move(made));
  }
  std::vector<Instruction>* current() {
    if (open_.empty() || open_.back().computation.empty()) return nullptr;
    return &module_.computations[open_.back().computation].instructions;
  }

  std::string_view text_;
  const std::string& path_;
  Module module_;
  std::vector<Region> open_;
  std::size_t line_ = 0, regions_ = 0;
};

void StableHloReader::read_line(std::string_view line) {
  if (line.starts_with('^') && current() != nullptr)  // the arguments of a region
    for (Instruction& argument : arguments_in(line, line_)) add(std::move(argument));
  if (line.empty() || line.starts_with("//") || line.starts_with('#') || line.starts_with('^'))
    return;
  if (line.starts_with('}')) {
    end_region(line);
    if (!line.ends_with('{')) return;
    return begin_region(line);
  }
  if (line.starts_with("module")) {
    const std::size_t at = line.find('@');
    if (at != std::string_view::npos) module_.name = std::string(name_at(line, at + 1));
    module_.devices = stated_devices(line, "num_partitions = ", "num_replicas = ");
    if (line.ends_with('{')) open_.push_back({});
  } else if (line.find("func.func") != std::string_view::npos) {
    begin_function(line);
  } else {
    // Attributes of an operation whose types follow its region.
    if (!open_.empty() && open_.back().waits && open_.back().computation.empty() &&
        !line.starts_with('%'))
      module_.computations[open_.back().owner].instructions[open_.back().instruction].attributes +=
          line;
    if (line.starts_with("sdy.return") && !open_.empty() && open_.back().inlined)
      open_.back().inlined->operands = operands_of(line.substr(0, types_at(line)));
    read_operation(line);
    if (line.ends_with('{')) begin_region(line);
  }
}

void StableHloReader::begin_function(std::string_view line) {
  const std::size_t at = line.find('@');
  const std::string name(at == std::string_view::npos ? "main" : name_at(line, at + 1));
  if (!line.ends_with('{')) return;  // a declaration
  Computation& made = module_.computations[name];
  if (!made.name.empty())
    throw InputError(
        fmt::format("{}:{}:1: a second function '{}': names are unique, and a file has one module",
                    path_, line_, name));
  made.name = name;
  ++module_.functions;
  if (module_.entry.empty() || name == "main") module_.entry = name;
  module_.entry_stated = module_.entry == "main";
  made.instructions = arguments_in(line.substr(0, line.find("->")), line_);
  open_.push_back({.computation = name, .owner = {}});
}

/// Opens a region of the last operation. Regions of loops and branches are computations, those of
/// Shardy part of theirs; those of reductions count as one flop per element, and are ignored.
void StableHloReader::begin_region(std::string_view line) {
  if (open_.size() > 200)
    throw InputError(fmt::format("{}:{}:1: regions are nested more than 200 deep", path_, line_));
  Region region{.computation = {}, .owner = {}};
  std::vector<Instruction>* outer = current();
  if (outer != nullptr && !outer->empty()) {
    Instruction& last = outer->back();
    region.owner = open_.back().computation;
    region.instruction = outer->size() - 1;
    region.waits = line.find("({") != std::string_view::npos || line.starts_with("}, {") ||
                   last.results.empty();
    if (last.opcode == "while" || last.opcode == "case" || last.opcode == "if") {
      region.computation = fmt::format("{}/{}.{}", open_.back().computation, last.name, ++regions_);
      last.calls.push_back(region.computation);
      Computation& made = module_.computations[region.computation];
      made.name = region.computation;
      for (const Operand& carried : operands_in(last.attributes, true))
        if (const std::size_t i = made.instructions.size(); i < last.results.size())
          made.instructions.push_back(
              {.name = carried.name, .opcode = "parameter", .results = {last.results[i]}});
    } else if (last.opcode == "manual-computation" || last.opcode == "named-computation") {
      region = {.computation = region.owner, .owner = {}, .inlined = std::move(last)};
      outer->pop_back();
      open_.push_back(std::move(region));
      auto arguments = arguments_in(line.substr(std::min(line.rfind(" (%"), line.size())), line_);
      for (std::size_t i = 0; i < arguments.size(); ++i) {
        arguments[i].opcode = "bitcast";
        if (const auto& given = open_.back().inlined->operands; i < given.size())
          arguments[i].operands = {given[i]};
        add(std::move(arguments[i]));
      }
      open_.back().inlined->opcode = "tuple";
      return;
    }
  }
  open_.push_back(std::move(region));
}

void StableHloReader::end_region(std::string_view line) {
  if (open_.empty())
    throw InputError(fmt::format("{}:{}:1: a region ends that did not begin", path_, line_));
  Region region = std::move(open_.back());
  open_.pop_back();
  if (region.inlined) {
    region.inlined->results = result_shapes(line.substr(types_at(line)));
    module_.computations[region.computation].instructions.push_back(std::move(*region.inlined));
  }
  if (!region.waits || line.find("->") == std::string_view::npos) return;
  Instruction& owner = module_.computations[region.owner].instructions[region.instruction];
  owner.attributes += line.substr(0, types_at(line));
  owner.results = result_shapes(line.substr(types_at(line)));
}

/// The operands in `text`, by the innermost region of Shardy that defines their names.
std::vector<Operand> StableHloReader::operands_of(std::string_view text) const {
  std::vector<Operand> found = operands_in(text);
  for (Operand& operand : found)
    for (auto region = open_.rbegin(); region != open_.rend(); ++region)
      if (region->inlined && region->names.contains(operand.name)) {
        operand.name = region->inlined->name + "/" + operand.name;
        break;
      }
  return found;
}

void StableHloReader::read_operation(std::string_view line) {
  std::vector<Instruction>* to = current();
  const std::size_t equals = line.find(" = ");
  if (to == nullptr || equals == std::string_view::npos || !line.starts_with('%')) return;
  Instruction made{.name = std::string(name_at(line, 1)), .line = line_};
  std::string_view rest = trimmed(line.substr(equals + 3));
  if (rest.starts_with('"')) rest.remove_prefix(1);
  const std::string_view word = name_at(rest, 0);
  const std::size_t dot = word.find('.');
  made.opcode = std::string(dot == std::string_view::npos ? word : word.substr(dot + 1));
  std::ranges::replace(made.opcode, '_', '-');
  rest.remove_prefix(word.size());
  // A line that ends in '{' has no types yet: what looks like one is in an attribute.
  const std::size_t types = rest.ends_with('{') ? rest.size() : types_at(rest);
  made.attributes = std::string(rest.substr(0, types));
  made.results = result_shapes(rest.substr(types));
  const bool single = rest.substr(types).find("->") == std::string_view::npos;
  if (made.opcode != "constant")
    made.operands = operands_of(rest.substr(
        0, made.opcode.ends_with("-computation") ? std::min(rest.find(')'), types) : types));
  if (made.opcode == "constant" && made.results.size() == 1 && made.results.front().dims.empty())
    if (const std::size_t at = made.attributes.find("dense<"); at != std::string::npos) {
      const std::string_view value = std::string_view(made.attributes).substr(at + 6);
      made.value = parse_number<std::int64_t>(value.substr(0, value.find('>')));
    }
  if (single && made.opcode != "while" && made.results.size() > 1)
    made.results.erase(made.results.begin(), made.results.end() - 1);  // operands' types come first
  const std::size_t called = made.opcode == "call"        ? 0
                             : made.opcode == "composite" ? rest.find("decomposition = @")
                                                          : std::string_view::npos;
  if (const std::size_t at = rest.find('@', called); at != std::string_view::npos)
    made.calls.emplace_back(name_at(rest, at + 1));
  add(std::move(made));
}

using Scope = std::map<std::string, Instruction, std::less<>>;

/// Makes each value of `scope` that the computation or a region in it reads an instruction of the
/// region, and an operand of the region's operation; returns those of the computation itself.
std::vector<Instruction> captured(Module& module, std::vector<Instruction>& code, Scope& scope) {
  std::vector<Instruction> found;
  std::set<std::string> known;
  for (Instruction& made : code) {
    for (const std::string& name : made.calls)
      if (name.find('/') != std::string::npos)  // a region
        for (const Instruction& read :
             captured(module, module.computations[name].instructions, scope))
          made.operands.push_back({.name = read.name});
    for (const Operand& operand : made.operands)
      if (const auto outer = scope.find(operand.name);
          outer != scope.end() && known.insert(operand.name).second)
        found.push_back(outer->second);
    known.insert(made.name);
    scope[made.name] = {.name = made.name,
                        .opcode = made.opcode == "constant" ? "constant" : "parameter",
                        .results = made.results,
                        .value = made.value};
  }
  for (const Instruction& made : code) scope.erase(made.name);
  code.insert(code.begin(), found.begin(), found.end());
  return found;
}

}  // namespace

Module read_stablehlo(std::string_view text, const std::string& path) {
  Module module = StableHloReader(text, path).read();
  Scope scope;
  for (auto& [name, computation] : module.computations)
    if (name.find('/') == std::string::npos) captured(module, computation.instructions, scope);
  find_producers(module);
  return module;
}

}  // namespace baechi::hlo
