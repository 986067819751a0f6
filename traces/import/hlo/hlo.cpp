#include "sim/text.h"
#include "traces/format/compressed_file.h"
#include "traces/import/hlo/module.h"
#include "traces/importer.h"

namespace baechi::hlo {
namespace {

// Decisions:
// - An op is an instruction of the entry computation: a fusion, a call or a loop is one op. Tuples
//   and views are no ops: their readers read the underlying tensors.
// - Parameters and constants are ops without time; their bytes stay on the device for the whole
//   step, as XLA's arguments do. Exporters write weights as constants, too.
// - The scratch buffer of a library call, its last result, is workspace: it is freed after the op
//   and never transferred.
// - A collective has as many ranks as its first group or, without groups, as the module has
//   devices; one rank is simulated. With one rank it is an ordinary op. A collective-permute is a
//   send.
// - An asynchronous pair `X-start`, `X-done` is one op. Operands that a start repeats among its
//   results, and the context numbers that only the done reads, take no memory.

/// Ranks per group of "replica_groups={{0,1},{2,3}}", "replica_groups=[2,4]<=[8]" or
/// "replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>" (for the last from the type: the
/// list may be a splat or hexadecimal). `devices` if no group is listed, 0 if the list is
/// malformed.
std::int64_t group_size(const std::string& attributes, std::int64_t devices) {
  const std::size_t at = attributes.find("replica_groups");
  if (at == std::string::npos) return devices;
  const std::string_view text = std::string_view(attributes).substr(at);
  if (text.starts_with("replica_groups={}")) return devices;
  if (text.starts_with("replica_groups=[")) {
    const auto dims = numbers_after(text, "replica_groups");
    return dims.size() < 2 ? 0 : dims[1];
  }
  constexpr std::string_view dense = "replica_groups = dense<", type = " : tensor<";
  if (const std::size_t end = text.find(type); text.starts_with(dense) && end != text.npos) {
    const std::string_view shape = text.substr(end + type.size());
    const auto dims = whole_numbers(shape.substr(0, shape.find('>')));
    return dims.size() < 3 ? 0 : dims[1];  // "2x4xi64"
  }
  const std::size_t inner = std::min(text.find("{{"), text.find("[["));
  if (inner == std::string_view::npos) return 0;
  return static_cast<std::int64_t>(numbers_after(text.substr(inner), "").size());
}

/// Whether a collective-permute has a pair of different devices.
bool sends(const std::string& attributes) {
  const std::size_t at = attributes.find("source_target_pairs");
  if (at == std::string::npos) return false;
  const std::string_view list = std::string_view(attributes).substr(at);
  const std::size_t end = std::min(list.find("}}"), list.find("]]"));
  const auto ids = whole_numbers(list.substr(0, end == std::string_view::npos ? 0 : end));
  for (std::size_t i = 1; i < ids.size(); i += 2)
    if (ids[i - 1] != ids[i]) return true;
  return false;
}

/// "layer1.attention" of "jit(f)/jit(main)/layer1/attention/dot_general".
std::string module_of(std::string_view scope) {
  std::string module;
  for (std::size_t end = scope.find('/'); end != std::string_view::npos; end = scope.find('/')) {
    const std::string_view part = scope.substr(0, end);
    if (!part.starts_with("jit(")) module += (module.empty() ? "" : ".") + std::string(part);
    scope.remove_prefix(end + 1);
  }
  return module;
}

class HloGraphBuilder {
 public:
  explicit HloGraphBuilder(const Module& module) : module_(module), work_model_(module) {}

  OpGraph make(const std::string& path, Trace& trace) {
    const Computation& entry = module_.computations.find(module_.entry)->second;
    devices_ = module_.devices;
    if (devices_ == 0)  // each list of groups has all devices
      for (const Instruction& instruction : entry.instructions) {
        const std::string_view text = instruction.attributes;
        if (const std::size_t at = text.find("replica_groups={{"); at != text.npos)
          devices_ = std::max<std::int64_t>(
              devices_, 1 + std::ranges::count(text.substr(at, text.find("}}", at) - at), ','));
      }
    for (const Instruction& instruction : entry.instructions) add(instruction, path);
    const auto free = static_cast<std::size_t>(std::ranges::count_if(
        entry.instructions,
        [](const Instruction& i) { return is_free(i.opcode) && !is_transparent(i.opcode); }));
    trace.notes.push_back(
        fmt::format("{} instructions of the entry are {} ops: work by formula for {}, {} "
                    "collectives, {} run nothing",
                    entry.instructions.size(), ops_, ops_with_work_, collectives_, free));
    trace.notes.push_back(fmt::format("{} parameters of {} stay for the whole step", parameters_,
                                      to_text(parameter_bytes_)));
    if (constant_bytes_ > Bytes{})
      trace.notes.push_back(
          fmt::format("constants of {} stay for the whole step", to_text(constant_bytes_)));
    if (work_model_.loops() > 0)
      trace.notes.push_back(
          fmt::format("{}{} loops are an op each, {} of them without a known number of runs: once",
                      work_model_.unknown() > 0 ? "warning: " : "", work_model_.loops(),
                      work_model_.unknown()));
    if (!module_.entry_stated)
      trace.notes.push_back(
          fmt::format("no entry is named: '{}' is taken, the {}", module_.entry,
                      module_.functions > 0
                          ? fmt::format("first of {} functions", module_.functions)
                          : fmt::format("last of {} computations", module_.computations.size())));
    note_unknown(path, trace);
    note_count(trace.notes, work_model_.inner_collectives(),
               "warning: {} collectives within loops, calls or branches count only what they "
               "read and write");
    note_count(trace.notes, unsized_,
               "warning: {} collectives are among all devices, and the module states no number of "
               "them (replica_count=8 in its first line): they count what they read and write");
    if (module_.functions > 0 && module_.devices > 1)
      trace.notes.push_back(
          "StableHLO is the whole program, before it is partitioned: except within a shard_map, an "
          "op has the work and the bytes of all devices; optimised HLO has those of one");
    note_count(
        trace.notes, work_model_.opaque(),
        "warning: {} calls of programs outside (custom-call) count only what they read and write");
    return build_graph(std::move(builder_), path);
  }

 private:
  using Tensors = std::vector<TensorId>;

  void add(const Instruction& instruction, const std::string& path) {
    if (!names_.insert(instruction.name).second)
      throw InputError(fmt::format("{}:{}:1: a second instruction '{}'", path, instruction.line,
                                   instruction.name));
    for (const Shape& shape : instruction.results)
      if (shape.bytes() >= std::int64_t{1} << 50)
        throw InputError(fmt::format("{}:{}:1: '{}' is an array of 2^50 bytes or more", path,
                                     instruction.line, instruction.name));
    const Tensors inputs = read(instruction, path);
    if (is_transparent(instruction.opcode)) {
      values_[instruction.name] = inputs;
      return;
    }
    const OpId op = add_op(instruction);
    ++ops_;
    for (const TensorId tensor : inputs) builder_.add_edge(tensor, op);
    const std::vector<Shape> made = allocated_arrays(instruction, inputs.size());
    const Instruction* performed = collective(instruction);
    const auto kind = performed == nullptr ? std::nullopt : collective_kind(performed->opcode);
    std::int64_t ranks = 0;
    if (kind == CollectiveKind::send_recv)
      ranks = sends(performed->attributes) ? 2 : 1;
    else if (kind)
      ranks = group_size(performed->attributes, devices_);
    unsized_ += kind && ranks == 0 ? 1U : 0U;
    constexpr std::int64_t most_ranks = 1 << 20;
    if (kind && ranks > 1 && ranks <= most_ranks) {
      add_matched_collective(made, op, *kind, ranks);
    } else if (const OpWork work =
                   work_model_.of(module_.computations.find(module_.entry)->second, instruction);
               !work.none()) {
      ++ops_with_work_;
      builder_.add_kernel(op, work);
    }
    const bool held = instruction.opcode == "parameter" || instruction.opcode == "constant";
    for (const Shape& shape : made)
      values_[instruction.name].push_back(builder_.add_tensor(op, {shape.bytes()}, held));
    values_[instruction.name];  // defined even if it has no result
  }

  /// Lists unknown opcodes in the notes. Throws InputError if more than half of the instructions
  /// that run have one: the program is in another MLIR dialect.
  void note_unknown(const std::string& path, Trace& trace) const {
    std::map<std::string_view, std::size_t> unknown;
    std::size_t count = 0, ran = 0;
    for (const Instruction& i : module_.computations.find(module_.entry)->second.instructions) {
      ran += is_free(i.opcode) ? 0U : 1U;
      if (is_known(i.opcode)) continue;
      ++unknown[i.opcode];
      ++count;
    }
    if (unknown.empty()) return;
    std::string names;
    for (const auto& [name, times] : unknown)
      if (names.size() < 200)
        names += fmt::format("{}{} x{}", names.empty() ? "" : ", ", name, times);
    if (2 * count > ran)
      throw InputError(fmt::format(
          "{}: {} of the {} operations of '{}' are none of HLO's: {}; give HLO or StableHLO", path,
          count, ran, module_.entry, names));
    trace.notes.push_back(fmt::format(
        "warning: operations that are none of HLO's, by one flop per element: {}", names));
  }

  OpId add_op(const Instruction& instruction) {
    Bytes bytes{};
    for (const Shape& shape : instruction.results) bytes += {shape.bytes()};
    const bool parameter = instruction.opcode == "parameter";
    if (parameter) {
      ++parameters_;
      parameter_bytes_ += bytes;
    }
    const bool constant = instruction.opcode == "constant";
    if (constant) constant_bytes_ += bytes;
    const std::string module = module_of(instruction.scope);
    return builder_.add_op({.name = instruction.name,
                            .kind = instruction.opcode,
                            .persistent = parameter || constant ? bytes : Bytes{},
                            .temporary = {scratch_bytes(instruction)},
                            .module = module});
  }

  /// The arrays that the instruction allocates. `operands`: number of arrays that it reads.
  static std::vector<Shape> allocated_arrays(const Instruction& instruction, std::size_t operands) {
    std::vector<Shape> made = instruction.results;
    const std::string& op = instruction.opcode;
    if (scratch_bytes(instruction) > 0) made.back().dims = {0};
    if (!op.ends_with("-start") || op == "all-reduce-start" || made.empty()) return made;
    if (op == "copy-start") return {made.front()};
    if (made.size() <= operands) return made;
    made.erase(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(operands));
    const auto is_number = [](const Shape& s) {
      return s.dims.empty() && (s.type == "u32" || s.type == "s32");
    };
    while (made.size() > 1 && is_number(made.back())) made.pop_back();
    return made;
  }

  /// The collective that the instruction performs or starts, or that the computation of an
  /// async-start contains; null if there is none.
  const Instruction* collective(const Instruction& instruction) const {
    if (collective_kind(instruction.opcode)) return &instruction;
    if (instruction.opcode != "async-start" || instruction.calls.empty()) return nullptr;
    const auto called = module_.computations.find(instruction.calls.front());
    if (called == module_.computations.end()) return nullptr;
    for (const Instruction& inside : called->second.instructions)
      if (collective_kind(inside.opcode)) return &inside;
    return nullptr;
  }

  void add_matched_collective(const std::vector<Shape>& made, OpId op, CollectiveKind kind,
                              std::int64_t ranks) {
    ++collectives_;
    Bytes bytes{};
    for (const Shape& shape : made) bytes += {shape.bytes()};
    // The result is one rank's part; `bytes` is of the whole buffer.
    if (kind == CollectiveKind::reduce_scatter)
      bytes = {std::min(bytes.count, (std::int64_t{1} << 50) / ranks) * ranks};
    builder_.add_collective(
        {.kind = kind, .bytes = bytes, .ranks = static_cast<std::uint32_t>(ranks)},
        std::span(&op, 1));
  }

  Tensors read(const Instruction& instruction, const std::string& path) const {
    Tensors all;
    for (const Operand& operand : instruction.operands) {
      const auto found = values_.find(operand.name);
      if (found == values_.end())
        throw InputError(
            fmt::format("{}:{}:1: '{}' reads '{}', which no instruction before it defines", path,
                        instruction.line, instruction.name, operand.name));
      const auto part = static_cast<std::size_t>(operand.part);
      if (operand.part >= 0 && part < found->second.size())
        all.push_back(found->second[part]);
      else
        all.insert(all.end(), found->second.begin(), found->second.end());
    }
    return all;
  }

  const Module& module_;
  WorkModel work_model_;
  OpGraphBuilder builder_;
  std::map<std::string, Tensors, std::less<>> values_;
  std::set<std::string> names_;
  std::size_t ops_ = 0, ops_with_work_ = 0, parameters_ = 0, collectives_ = 0, unsized_ = 0;
  std::int64_t devices_ = 0;  ///< 0: unknown
  Bytes parameter_bytes_{}, constant_bytes_{};
};

/// `text` without leading white space and comments.
std::string_view start_of(std::string_view text) {
  for (;;) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return {};
    text.remove_prefix(first);
    const bool block = text.starts_with("/*");
    if (!block && !text.starts_with("//") && !text.starts_with('#')) return text;
    const std::size_t end = block ? text.find("*/") : text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + (block ? 2 : 0));
  }
}

/// Whether the text is HLO. The line "HloModule ..." is optional, as in XLA's parser: the text may
/// begin with a computation, `name {`, and an instruction.
bool is_hlo_text(std::string_view text) {
  const std::string_view start = start_of(text);
  if (start.starts_with("HloModule")) return true;
  const std::size_t end = std::min(start.find('\n'), start.size());
  const std::string_view header = start.substr(0, end), body = start_of(start.substr(end));
  const std::size_t last = header.find_last_not_of(" \t\r");
  if (last == std::string_view::npos || header[last] != '{' ||
      header.find_first_of("@\"") != std::string_view::npos || header.starts_with("module"))
    return false;
  const std::string_view first = body.substr(0, body.find('\n'));
  return first.find('=') != std::string_view::npos && first.find('[') != std::string_view::npos &&
         first.find('(') != std::string_view::npos;
}

}  // namespace
}  // namespace baechi::hlo

namespace baechi {

bool looks_like_hlo(std::string_view beginning) {
  if (hlo::is_hlo_text(beginning)) return true;
  const std::string_view start = hlo::start_of(beginning);
  return (start.starts_with("module") || start.starts_with("func.func") ||
          start.starts_with("sdy.")) &&
         beginning.find("func.func") != std::string_view::npos;
}

Trace read_hlo(TextFile& file, Options& /*options*/) {
  const std::string text = plain_text(file.rest());
  const bool is_hlo = hlo::is_hlo_text(text);
  hlo::Module module =
      is_hlo ? hlo::read_hlo(text, file.path()) : hlo::read_stablehlo(text, file.path());
  module.path = file.path();
  for (auto& [name, computation] : module.computations)
    for (hlo::Instruction& instruction : computation.instructions)
      if (hlo::is_annotation(instruction)) instruction.opcode = "bitcast";
  Trace trace{.name = module.name, .source = is_hlo ? "HLO text of XLA" : "StableHLO"};
  trace.graph = hlo::HloGraphBuilder(module).make(file.path(), trace);
  return trace;
}

}  // namespace baechi
