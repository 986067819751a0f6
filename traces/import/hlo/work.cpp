#include <unordered_set>

#include "sim/error.h"
#include "traces/import/hlo/module.h"
#include "traces/import/rank_files.h"

namespace baechi::hlo {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 60, most_size = std::int64_t{1} << 50,
                       most_elements = std::int64_t{1} << 53;

std::int64_t capped_sum(std::int64_t a, std::int64_t b) { return std::min(most, a + b); }

using NameSet = std::unordered_set<std::string_view>;

NameSet names_in(std::string_view list) {
  NameSet names;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    names.insert(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return names;
}

/// Whether the instruction has no flops and only moves bytes.
bool moves(std::string_view opcode) {
  static const NameSet moving = names_in(
      "broadcast broadcast-in-dim concatenate convert copy copy-start dynamic-broadcast-in-dim "
      "dynamic-gather dynamic-iota dynamic-pad dynamic-reshape dynamic-slice dynamic-update-slice "
      "gather iota pad real-dynamic-slice reshape reverse scatter slice slice-start "
      "torch-index-select transpose");
  return moving.contains(opcode);
}

/// The instruction that defines `operand`; null if there is none.
const Instruction* producer_of(const Computation& computation, const Operand& operand) {
  return operand.producer == Operand::unknown ? nullptr
                                              : &computation.instructions[operand.producer];
}

/// The array that is the reader's operand `i`; null if it is unknown.
const Shape* shape_of(const Computation& computation, const Instruction& reader, std::size_t i) {
  if (i >= reader.operands.size()) return nullptr;
  const Instruction* made = producer_of(computation, reader.operands[i]);
  const std::int64_t part = std::max(reader.operands[i].part, std::int64_t{0});
  if (made == nullptr || part >= static_cast<std::int64_t>(made->results.size())) return nullptr;
  return &made->results[static_cast<std::size_t>(part)];
}

/// Whether the instruction reads only as much of its first operand as it writes.
bool slices(std::string_view opcode) {
  static const NameSet slicing =
      names_in("dynamic-gather dynamic-slice gather real-dynamic-slice slice torch-index-select");
  return slicing.contains(opcode);
}

std::int64_t bytes_of(const Computation& computation, const Instruction& reader, std::size_t i) {
  const Shape* shape = shape_of(computation, reader, i);
  return shape == nullptr ? 0 : shape->bytes();
}

const Instruction& root_of(const Computation& computation) {
  const auto& all = computation.instructions;
  const auto root = std::ranges::find(all, true, &Instruction::root);
  return root == all.end() ? all.back() : *root;
}

/// Bytes that a fusion reads of parameter `name`: `all`, unless its users only read slices of it or
/// update it in place.
std::int64_t read_inside(const Computation& fused, std::string_view name, std::int64_t all,
                         int depth = 0) {
  std::int64_t sum = 0;
  for (const Instruction& user : fused.instructions)
    for (std::size_t i = 0; i < user.operands.size(); ++i) {
      if (user.operands[i].name != name) continue;
      if (user.opcode == "bitcast" && depth < 10)
        sum = capped_sum(sum, read_inside(fused, user.name, all, depth + 1));
      else if (i == 0 && slices(user.opcode) && !user.results.empty())
        sum = capped_sum(sum, user.results.front().bytes());
      else if (i > 0 || user.opcode != "dynamic-update-slice")
        return all;
    }
  return std::min(sum, all);
}

/// Bytes that a fusion writes of the result that `made` defines: all, or the part that is updated
/// in place; 0 for null.
std::int64_t written_inside(const Computation& fused, const Instruction* made, int depth = 0) {
  if (made == nullptr) return 0;
  std::int64_t sum = 0;
  if (made->opcode == "tuple" && depth < 10) {
    for (const Operand& part : made->operands)
      sum = capped_sum(sum, written_inside(fused, producer_of(fused, part), depth + 1));
    return sum;
  }
  if (made->opcode == "bitcast" && depth < 10 && !made->operands.empty())
    return written_inside(fused, producer_of(fused, made->operands.front()), depth + 1);
  if (made->opcode == "dynamic-update-slice") return bytes_of(fused, *made, 1);
  for (const Shape& shape : made->results) sum = capped_sum(sum, shape.bytes());
  return sum;
}

/// Traffic of an instruction without a computation. Slices and in-place updates only access a part
/// of their operand.
std::int64_t traffic_of(const Computation& computation, const Instruction& i, std::int64_t read,
                        std::int64_t written) {
  if (i.opcode == "copy-start" || i.opcode == "slice-start")
    return i.results.empty() ? 0 : 2 * i.results.front().bytes();
  if (slices(i.opcode)) return capped_sum(written, written);
  if (i.opcode == "dynamic-update-slice") return 2 * bytes_of(computation, i, 1);
  if (i.opcode != "scatter" || i.operands.size() < 3) return capped_sum(read, written);
  // Operands are n inputs, the indices, n updates. Reads an update, reads and writes an element.
  const std::size_t inputs = (i.operands.size() - 1) / 2;
  std::int64_t sum = bytes_of(computation, i, inputs);
  for (std::size_t u = inputs + 1; u < i.operands.size(); ++u)
    sum = capped_sum(sum, 3 * bytes_of(computation, i, u));
  return sum;
}

}  // namespace

void find_producers(Module& module) {
  for (auto& [name, computation] : module.computations) {
    std::unordered_map<std::string_view, std::size_t> producers;
    for (std::size_t i = 0; i < computation.instructions.size(); ++i)
      producers.emplace(computation.instructions[i].name, i);
    for (Instruction& reader : computation.instructions)
      for (Operand& operand : reader.operands)
        if (const auto made = producers.find(operand.name); made != producers.end())
          operand.producer = made->second;
  }
}

std::int64_t Shape::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t dim : dims)
    n = dim > 0 && n > most_elements / dim ? most_elements : n * dim;
  return n;
}

std::int64_t Shape::bytes() const {
  const std::string_view t = type;
  const auto numbers = whole_numbers(t);
  std::int64_t bits = numbers.empty() ? 0 : numbers[0];
  if (t == "pred" || t == "i1") bits = 8;
  if (t == "index") bits = 64;
  if (t.starts_with("complex<")) bits *= 2;
  if (bits > 128) bits = 0;
  return std::min(most_size, (elements() * bits + 7) / 8);
}

std::int64_t capped_product(std::int64_t a, std::int64_t b) {
  return a > 0 && b > most / a ? most : a * b;
}

std::vector<std::int64_t> whole_numbers(std::string_view text) {
  std::vector<std::int64_t> found;
  for (std::size_t at = text.find_first_of("0123456789"); at != std::string_view::npos;
       at = text.find_first_of("0123456789", at)) {
    const std::size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    found.push_back(parse_number<std::int64_t>(text.substr(at, end - at)).value_or(1));
    at = end;
  }
  return found;
}

std::int64_t stated_devices(std::string_view text, std::string_view replicas,
                            std::string_view partitions) {
  std::int64_t devices = 0;
  for (const std::string_view key : {replicas, partitions})
    if (const std::size_t at = text.find(key); at != std::string_view::npos) {
      const auto n = whole_numbers(text.substr(at + key.size(), 20));
      devices = std::max<std::int64_t>(1, devices) *
                std::clamp<std::int64_t>(n.empty() ? 1 : n[0], 1, std::int64_t{1} << 20);
    }
  return devices;
}

std::vector<std::int64_t> numbers_after(std::string_view text, std::string_view key) {
  std::size_t at = text.find(key);
  if (at != std::string_view::npos) at = text.find_first_of("{[", at + key.size());
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + 1);
  return whole_numbers(text.substr(0, text.find_first_of("}]")));
}

bool is_transparent(std::string_view opcode) {
  static const NameSet views =
      names_in("bitcast get-tuple-element opt-barrier optimization-barrier tuple");
  return opcode.ends_with("-done") || opcode == "async-update" || views.contains(opcode);
}

bool is_free(std::string_view opcode) {
  static const NameSet free = names_in(
      "add-dependency after-all bitcast-convert constant parameter partition-id replica-id");
  return is_transparent(opcode) || free.contains(opcode);
}

std::optional<CollectiveKind> collective_kind(std::string_view opcode) {
  if (opcode.ends_with("-start")) opcode.remove_suffix(6);
  constexpr std::pair<std::string_view, CollectiveKind> kinds[] = {
      {"all-reduce", CollectiveKind::all_reduce},
      {"all-gather", CollectiveKind::all_gather},
      {"reduce-scatter", CollectiveKind::reduce_scatter},
      {"all-to-all", CollectiveKind::all_to_all},
      {"collective-permute", CollectiveKind::send_recv},
      {"collective-broadcast", CollectiveKind::broadcast}};
  for (const auto& [name, kind] : kinds)
    if (opcode == name) return kind;
  return std::nullopt;
}

bool is_known(std::string_view opcode) {
  if (is_free(opcode) || moves(opcode)) return true;
  // `X-start` is the asynchronous form of X.
  if (opcode.ends_with("-start")) opcode.remove_suffix(6);
  static const NameSet computing = names_in(
      "abs acos acosh add all-gather all-reduce all-to-all and asin asinh async atan atan2 atanh "
      "batch-norm-grad batch-norm-inference batch-norm-training call case cbrt ceil cholesky clamp "
      "collective-broadcast collective-permute compare complex composite conditional convolution "
      "cosh cosine count-leading-zeros custom-call custom-jvp-call divide domain dot dot-general "
      "dynamic-conv einsum erf exp exponential exponential-minus-one fft floor fusion "
      "get-dimension-size if imag infeed is-finite is-inf is-nan log log-plus-one logistic map "
      "maximum minimum multiply negate not or outfeed popcnt popcount power ragged-all-to-all "
      "ragged-dot real recv reduce reduce-precision reduce-scatter reduce-window remainder rng "
      "rng-bit-generator rng-get-and-update-state round-nearest-afz round-nearest-even rsqrt "
      "scaled-dot scan select select-and-scatter send set-dimension-size shift-left "
      "shift-right-arithmetic shift-right-logical sign sine sinh sort sqrt stochastic-convert "
      "subtract tan tanh topk triangular-solve uniform-dequantize uniform-quantize while xor");
  return computing.contains(opcode);
}

/// Trip count of a loop: XLA's known_trip_count, or the only constant of its condition; else 1.
std::int64_t WorkModel::trips(const Instruction& loop) {
  ++loops_;
  constexpr std::string_view key = "known_trip_count";
  if (const std::size_t at = loop.attributes.find(key); at != std::string::npos)
    if (const auto n = whole_numbers(std::string_view(loop.attributes).substr(at)); !n.empty())
      return std::min(n[0], most_size);
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

OpWork WorkModel::of_computation(std::string_view name) {
  if (const auto found = done_.find(name); found != done_.end()) return found->second;
  const auto computation = module_.computations.find(name);
  OpWork sum;
  if (computation == module_.computations.end()) return sum;
  if (depth_ >= 1000)
    throw InputError(module_.path + ": computations call each other more than 1000 deep");
  done_.emplace(std::string(name), sum);  // ends recursion of a computation that calls itself
  ++depth_;
  std::array<std::int64_t, std::size(names_of(Precision{}))>
      flops{};  // by precision; the sum has the precision of most flops
  for (const Instruction& instruction : computation->second.instructions) {
    if (collective_kind(instruction.opcode) || instruction.opcode == "ragged-all-to-all")
      ++inner_collectives_;
    const OpWork work = of(computation->second, instruction);
    std::int64_t& same = flops[static_cast<std::size_t>(work.precision)];
    same = capped_sum(same, work.flops);
    sum.flops = capped_sum(sum.flops, work.flops);
    sum.traffic = {capped_sum(sum.traffic.count, work.traffic.count)};
  }
  sum.precision = static_cast<Precision>(std::ranges::max_element(flops) - flops.begin());
  --depth_;
  done_.insert_or_assign(std::string(name), sum);
  return sum;
}

OpWork WorkModel::of(const Computation& computation, const Instruction& instruction) {
  OpWork work;
  const std::string& op = instruction.opcode;
  if (is_free(op)) return work;
  const bool whole = op == "while" || op == "call" || op == "composite";
  if ((whole && (op != "composite" || !instruction.calls.empty())) || op == "conditional" ||
      op == "case" || op == "if") {
    const bool branches = !whole;
    for (const std::string& name : instruction.calls) {
      const OpWork inner = of_computation(name);
      if (inner.flops > work.flops) work.precision = inner.precision;
      work.flops =
          branches ? std::max(work.flops, inner.flops) : capped_sum(work.flops, inner.flops);
      work.traffic = {branches ? std::max(work.traffic.count, inner.traffic.count)
                               : capped_sum(work.traffic.count, inner.traffic.count)};
    }
    if (op != "while") return work;
    const std::int64_t n = trips(instruction);
    return {.flops = capped_product(n, work.flops),
            .traffic = {capped_product(n, work.traffic.count)},
            .precision = work.precision};
  }
  std::int64_t written = 0, read = 0, largest = 0;
  for (const Shape& result : instruction.results) {
    written = capped_sum(written, result.bytes());
    largest = std::max(largest, result.elements());
  }
  written -= std::min(written, scratch_bytes(instruction));
  for (std::size_t i = 0; i < instruction.operands.size(); ++i)
    if (const Shape* shape = shape_of(computation, instruction, i)) {
      read = capped_sum(read, shape->bytes());
      largest = std::max(largest, shape->elements());
    }
  work.traffic = {traffic_of(computation, instruction, read, written)};
  if (!instruction.results.empty())
    work.precision = precision_of_type(instruction.results.front().type);
  const Shape *left = shape_of(computation, instruction, 0),
              *right = shape_of(computation, instruction, 1);
  if (is_matmul(instruction) || is_convolution(instruction)) {
    work.flops = is_matmul(instruction) ? matmul_flops(instruction, left)
                                        : convolution_flops(instruction, left, right);
    // By the wider operand: a bf16 matmul may accumulate and write f32.
    if (left != nullptr) work.precision = precision_of_type(left->type);
    if (right != nullptr) work.precision = std::min(work.precision, precision_of_type(right->type));
  } else if (op == "fusion" || op == "async-start") {
    std::int64_t most_flops = 0;
    for (const std::string& name : instruction.calls) {
      const OpWork inner = of_computation(name);
      if (inner.flops > most_flops) work.precision = inner.precision;
      most_flops = std::max(most_flops, inner.flops);
      work.flops = capped_sum(work.flops, inner.flops);
    }
    if (op == "fusion") work.traffic = {fusion_traffic(computation, instruction)};
  } else if (op == "custom-call") {
    ++opaque_;
  } else if (op == "reduce-window" || op == "select-and-scatter") {
    // One flop per element of each window; select-and-scatter has a window per source element.
    const Shape* windows = op == "reduce-window" ? nullptr : right;
    const std::int64_t count = windows != nullptr            ? windows->elements()
                               : instruction.results.empty() ? 0
                                                             : instruction.results[0].elements();
    work.flops = capped_product(count, window_elements(instruction));
  } else if (!moves(op)) {
    work.flops = largest;
  }
  return work;
}

/// Memory traffic of a fusion.
std::int64_t WorkModel::fusion_traffic(const Computation& computation,
                                       const Instruction& fusion) const {
  const auto called = fusion.calls.empty() ? module_.computations.end()
                                           : module_.computations.find(fusion.calls.front());
  const bool known = called != module_.computations.end() && !called->second.instructions.empty();
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < fusion.operands.size(); ++i) {
    const std::int64_t all = bytes_of(computation, fusion, i);
    const auto is_parameter = [&](const Instruction& inside) {
      return inside.opcode == "parameter" && inside.value == static_cast<std::int64_t>(i);
    };
    const Instruction* inside = nullptr;
    if (known)
      if (const auto at = std::ranges::find_if(called->second.instructions, is_parameter);
          at != called->second.instructions.end())
        inside = &*at;
    sum = capped_sum(sum, inside == nullptr ? all : read_inside(called->second, inside->name, all));
  }
  if (known) return capped_sum(sum, written_inside(called->second, &root_of(called->second)));
  for (const Shape& result : fusion.results) sum = capped_sum(sum, result.bytes());
  return sum;
}

}  // namespace baechi::hlo
