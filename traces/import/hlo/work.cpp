#include <algorithm>
#include <initializer_list>

#include "sim/units.h"
#include "traces/import/hlo/module.h"

namespace baechi::hlo {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 60, most_size = std::int64_t{1} << 50;

std::int64_t times(std::int64_t a, std::int64_t b) {
  return a > 0 && b > most / a ? most : a * b;
}
std::int64_t plus(std::int64_t a, std::int64_t b) {
  return std::min(most, a + b);
}

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

bool moves(std::string_view opcode) {
  return one_of(opcode,
                {"copy", "transpose", "broadcast", "broadcast-in-dim", "concatenate", "slice",
                 "dynamic-slice", "dynamic-update-slice", "gather", "scatter", "pad", "reverse",
                 "convert", "reshape", "iota", "dynamic-reshape", "copy-start", "slice-start"});
}

/// The first result of an operand, looked up among the instructions before it.
const Shape* shape_of(const Computation& computation, const Instruction& reader, std::size_t i) {
  if (i >= reader.operands.size()) return nullptr;
  const Operand& operand = reader.operands[i];
  for (const Instruction& made : computation.instructions) {
    if (made.name != operand.name) continue;
    const std::size_t part = operand.part < 0 ? 0 : static_cast<std::size_t>(operand.part);
    return part < made.results.size() ? &made.results[part] : nullptr;
  }
  return nullptr;
}

/// Flops of a product: two per result element and contracted element.
std::int64_t product_flops(const Instruction& dot, const Shape* left) {
  if (left == nullptr || dot.results.empty()) return 0;
  std::vector<std::int64_t> sides;
  for (const char* key :
       {"lhs_contracting_dims=", "contracting_dims = ", "\"lhs_contracting_dimensions\":"})
    if (sides.empty()) sides = numbers_after(dot.attributes, key);
  if (sides.empty() && !left->sides.empty())
    sides.push_back(static_cast<std::int64_t>(left->sides.size()) - 1);
  std::int64_t flops = times(2, dot.results.front().elements());
  for (const std::int64_t side : sides)
    if (side >= 0 && side < static_cast<std::int64_t>(left->sides.size()))
      flops = times(flops, left->sides[static_cast<std::size_t>(side)]);
  return flops;
}

/// Position of the filter's output features: of 'o' in "b01f_01io->b01f" or in
/// "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"; the last side if it is not said.
std::size_t output_features(std::string_view attributes, std::size_t rank) {
  std::size_t at = attributes.find("dim_labels=");
  std::string_view labels;
  if (at != std::string_view::npos) {
    labels = attributes.substr(std::min(attributes.find('_', at + 11) + 1, attributes.size()));
    labels = labels.substr(0, labels.find("->"));
  } else if (at = attributes.find("]x["); at != std::string_view::npos) {
    labels = attributes.substr(at + 3);
    labels = labels.substr(0, labels.find(']'));
  }
  std::size_t position = 0;
  for (const char c : labels) {
    if (c == 'o' && position < rank) return position;
    position += c == ',' || c == ' ' ? 0U : 1U;
  }
  return rank - 1;
}

std::int64_t convolution_flops(const Instruction& conv, const Shape* filter) {
  if (filter == nullptr || filter->sides.empty() || conv.results.empty()) return 0;
  const std::int64_t features =
      filter->sides[output_features(conv.attributes, filter->sides.size())];
  // Per result element: the filter's elements of one output feature.
  const std::int64_t window = features > 0 ? filter->elements() / features : 0;
  return times(2, times(conv.results.front().elements(), window));
}

}  // namespace

std::int64_t Shape::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t side : sides) n = side > 0 && n > most_size / side ? most_size : n * side;
  return n;
}

std::int64_t Shape::bytes() const {
  std::int64_t bits = 0;
  for (std::size_t i = 0; i < type.size() && bits == 0; ++i)
    if (type[i] >= '0' && type[i] <= '9')
      bits = parse_number<std::int64_t>(
                 type.substr(i, std::min(type.find_first_not_of("0123456789", i), type.size()) - i))
                 .value_or(0);
  if (type == "pred" || type == "i1") bits = 8;
  if (bits > 1024) bits = 0;
  return elements() > most_size / std::max<std::int64_t>(1, bits) ? most_size
                                                                  : (elements() * bits + 7) / 8;
}

std::vector<std::int64_t> numbers_after(std::string_view text, std::string_view key) {
  std::vector<std::int64_t> found;
  std::size_t at = text.find(key);
  if (at == std::string_view::npos) return found;
  at = text.find_first_of("{[", at + key.size());
  if (at == std::string_view::npos) return found;
  std::string_view list = text.substr(at + 1);
  list = list.substr(0, list.find_first_of("}]"));
  while (!list.empty()) {
    const std::size_t first = list.find_first_of("0123456789");
    if (first == std::string_view::npos) break;
    list.remove_prefix(first);
    const std::size_t end = std::min(list.find_first_not_of("0123456789"), list.size());
    found.push_back(parse_number<std::int64_t>(list.substr(0, end)).value_or(0));
    list.remove_prefix(end);
  }
  return found;
}

bool is_transparent(std::string_view opcode) {
  return one_of(opcode,
                {"tuple", "get-tuple-element", "bitcast", "optimization-barrier", "opt-barrier"});
}

bool is_free(std::string_view opcode) {
  return is_transparent(opcode) ||
         one_of(opcode, {"parameter", "constant", "after-all", "partition-id", "replica-id",
                         "add-dependency", "bitcast-convert"}) ||
         opcode.ends_with("-done");
}

bool is_known(std::string_view opcode) {
  if (is_free(opcode) || moves(opcode)) return true;
  // The start of what runs beside others is told by its name.
  if (opcode.ends_with("-start")) opcode.remove_suffix(6);
  if (opcode.ends_with("-update")) return true;
  return one_of(opcode, {"abs",
                         "acos",
                         "acosh",
                         "add",
                         "all-gather",
                         "all-reduce",
                         "all-to-all",
                         "and",
                         "asin",
                         "asinh",
                         "async",
                         "atan",
                         "atan2",
                         "atanh",
                         "batch-norm-grad",
                         "batch-norm-inference",
                         "batch-norm-training",
                         "call",
                         "case",
                         "cbrt",
                         "ceil",
                         "cholesky",
                         "clamp",
                         "collective-broadcast",
                         "collective-permute",
                         "compare",
                         "complex",
                         "composite",
                         "conditional",
                         "convolution",
                         "cosh",
                         "cosine",
                         "count-leading-zeros",
                         "custom-call",
                         "custom-jvp-call",
                         "divide",
                         "domain",
                         "dot",
                         "dot-general",
                         "dynamic-broadcast-in-dim",
                         "dynamic-conv",
                         "dynamic-gather",
                         "dynamic-iota",
                         "dynamic-pad",
                         "einsum",
                         "erf",
                         "exp",
                         "exponential",
                         "exponential-minus-one",
                         "fft",
                         "floor",
                         "fusion",
                         "get-dimension-size",
                         "if",
                         "imag",
                         "infeed",
                         "is-finite",
                         "is-inf",
                         "is-nan",
                         "log",
                         "log-plus-one",
                         "logistic",
                         "map",
                         "maximum",
                         "minimum",
                         "multiply",
                         "negate",
                         "not",
                         "or",
                         "outfeed",
                         "popcnt",
                         "popcount",
                         "power",
                         "ragged-all-to-all",
                         "ragged-dot",
                         "real",
                         "real-dynamic-slice",
                         "recv",
                         "reduce",
                         "reduce-precision",
                         "reduce-scatter",
                         "reduce-window",
                         "remainder",
                         "rng",
                         "rng-bit-generator",
                         "rng-get-and-update-state",
                         "round-nearest-afz",
                         "round-nearest-even",
                         "rsqrt",
                         "scaled-dot",
                         "scan",
                         "select",
                         "select-and-scatter",
                         "send",
                         "set-dimension-size",
                         "shift-left",
                         "shift-right-arithmetic",
                         "shift-right-logical",
                         "sign",
                         "sine",
                         "sinh",
                         "sort",
                         "sqrt",
                         "stochastic-convert",
                         "subtract",
                         "tan",
                         "tanh",
                         "topk",
                         "torch-index-select",
                         "triangular-solve",
                         "uniform-dequantize",
                         "uniform-quantize",
                         "while",
                         "xor"});
}

/// How often a loop runs: told by XLA, or by the one constant that its condition
/// compares with. 1 if neither says.
std::int64_t Works::trips(const Instruction& loop) {
  ++loops_;
  constexpr std::string_view key = "known_trip_count";
  if (const std::size_t at = loop.attributes.find(key); at != std::string::npos) {
    const std::size_t digit = loop.attributes.find_first_of("0123456789", at);
    if (digit != std::string::npos) {
      const std::size_t end = loop.attributes.find_first_not_of("0123456789", digit);
      if (const auto n = parse_number<std::int64_t>(loop.attributes.substr(digit, end - digit)))
        return std::min(*n, most_size);
    }
  }
  std::vector<std::int64_t> bounds;
  const auto condition = loop.calls.empty() ? module_.computations.end()
                                            : module_.computations.find(loop.calls.front());
  if (condition != module_.computations.end())
    for (const Instruction& i : condition->second.instructions)
      if (i.opcode == "constant" && i.value) bounds.push_back(*i.value);
  if (bounds.size() == 1 && bounds.front() > 0) return std::min(bounds.front(), most_size);
  ++unknown_;
  return 1;
}

OpWork Works::of_computation(std::string_view name) {
  if (const auto found = done_.find(name); found != done_.end()) return found->second;
  const auto computation = module_.computations.find(name);
  OpWork sum;
  if (computation == module_.computations.end() || depth_ > 50) return sum;
  done_.emplace(std::string(name), sum);  // a computation that calls itself does nothing more
  ++depth_;
  for (const Instruction& instruction : computation->second.instructions) {
    const OpWork work = of(computation->second, instruction);
    sum.flops = plus(sum.flops, work.flops);
    sum.traffic = {plus(sum.traffic.count, work.traffic.count)};
  }
  --depth_;
  done_.insert_or_assign(std::string(name), sum);
  return sum;
}

OpWork Works::of(const Computation& computation, const Instruction& instruction) {
  OpWork work;
  const std::string& op = instruction.opcode;
  if (is_free(op)) return work;
  if (op == "while" || op == "call" || op == "conditional" || op == "case" || op == "if") {
    const bool branches = op != "while" && op != "call";
    for (const std::string& name : instruction.calls) {
      const OpWork inner = of_computation(name);
      work.flops = branches ? std::max(work.flops, inner.flops) : plus(work.flops, inner.flops);
      work.traffic = {branches ? std::max(work.traffic.count, inner.traffic.count)
                               : plus(work.traffic.count, inner.traffic.count)};
    }
    if (op != "while") return work;
    const std::int64_t n = trips(instruction);
    return {.flops = times(n, work.flops), .traffic = {times(n, work.traffic.count)}};
  }
  std::int64_t written = 0, read = 0, largest = 0;
  for (const Shape& result : instruction.results) {
    written = plus(written, result.bytes());
    largest = std::max(largest, result.elements());
  }
  for (std::size_t i = 0; i < instruction.operands.size(); ++i)
    if (const Shape* shape = shape_of(computation, instruction, i)) {
      read = plus(read, shape->bytes());
      largest = std::max(largest, shape->elements());
    }
  work.traffic = {moves(op) ? plus(written, written) : plus(read, written)};
  const bool calls_library = op == "custom-call";
  const std::string& text = instruction.attributes;
  if (op == "dot" || op == "dot-general" ||
      (calls_library &&
       (text.find("gemm") != std::string::npos || text.find("matmul") != std::string::npos))) {
    work.flops = product_flops(instruction, shape_of(computation, instruction, 0));
  } else if (op == "convolution" ||
             (calls_library && text.find("dim_labels=") != std::string::npos)) {
    work.flops = convolution_flops(instruction, shape_of(computation, instruction, 1));
  } else if (op == "fusion" || op == "async-start") {
    for (const std::string& name : instruction.calls)
      work.flops = plus(work.flops, of_computation(name).flops);
  } else if (calls_library) {
    ++opaque_;
  } else if (!moves(op)) {
    work.flops = largest;
  }
  if (!instruction.results.empty()) {
    if (instruction.results.front().type == "f16") work.precision = Precision::fp16;
    if (instruction.results.front().type == "bf16") work.precision = Precision::bf16;
  }
  return work;
}

}  // namespace baechi::hlo
