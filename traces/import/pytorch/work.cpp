#include "traces/import/pytorch/execution_trace.h"
#include "traces/import/rank_files.h"

namespace baechi::pytorch {
namespace {

/// Splits at commas outside brackets: "a" and "b[c, d]" of "a, b[c, d]".
std::vector<std::string_view> split_outside_brackets(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    if (c == ',' && depth == 0) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (begin < text.size()) parts.push_back(text.substr(begin));
  for (std::string_view& part : parts)
    while (part.starts_with(' ')) part.remove_prefix(1);
  return parts;
}

/// Whether `value` is a tensor with a storage. Undefined tensors have none; Python's numbers, which
/// are recorded as 0-d tensors on the CPU, do not count. Does not check ranges.
bool is_tensor(const Value& value, std::string_view type, const Value& shape) {
  if (!type.starts_with("Tensor(") || value.items.size() < 5) return false;
  for (std::size_t i = 0; i < 5; ++i)
    if (!value.items[i].is_number) return false;
  const std::string_view device =
      value.items.size() > 5 ? std::string_view(value.items[5].text) : "cpu";
  if (value.items[1].number == 0 || device.empty()) return false;
  const bool number = shape.is_list && shape.items.empty() && device == "cpu" &&
                      (type.starts_with("Tensor(double") || type.starts_with("Tensor(long"));
  return !number;
}

TensorView tensor_of(const Value& value, std::string_view type, const Value& shape) {
  TensorView t{.storage = value.items[1].number,
               .offset = value.items[2].number,
               .elements = value.items[3].number,
               .element_bytes = value.items[4].number,
               .shape = {},
               .precision = precision_of_type(type)};
  for (const Value& side : shape.items) t.shape.push_back(side.number);
  return t;
}

const Value no_shape{.text = {}, .is_list = false, .items = {}};

void collect(const Value& value, std::string_view type, const Value& shape, Argument& argument) {
  if (is_tensor(value, type, shape)) {
    argument.tensors.push_back(tensor_of(value, type, shape));
    return;
  }
  constexpr std::string_view list = "GenericList[";
  if (!type.starts_with(list) || !type.ends_with(']')) return;
  argument.list = true;
  const auto types =
      split_outside_brackets(type.substr(list.size(), type.size() - list.size() - 1));
  for (std::size_t i = 0; i < std::min(types.size(), value.items.size()); ++i)
    collect(value.items[i], types[i], i < shape.items.size() ? shape.items[i] : no_shape, argument);
}

using Dims = std::vector<std::int64_t>;

/// a * b, at most 2^56: sizes in files may be anything.
std::int64_t times(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t most = std::int64_t{1} << 56;
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? most : std::min(product, most);
}

std::vector<const TensorView*> tensors(const std::vector<Argument>& arguments) {
  std::vector<const TensorView*> all;
  for (const Argument& a : arguments)
    for (const TensorView& t : a.tensors) all.push_back(&t);
  return all;
}

const Dims* shape(const std::vector<const TensorView*>& all, std::size_t i) {
  return i < all.size() && !all[i]->shape.empty() ? &all[i]->shape : nullptr;
}

std::int64_t elements(const std::vector<const TensorView*>& all) {
  std::int64_t most = 0;
  for (const TensorView* t : all) most = std::max(most, t->elements);
  return most;
}

/// Flops of a matmul with left operand `left` and `results` output elements.
std::int64_t matmul(const Dims* left, std::int64_t results) {
  return left == nullptr ? 0 : times(2 * results, left->back());
}

/// Flops of a convolution: each output element is a sum over one filter, `weight` without its first
/// dimension.
std::int64_t convolution(const Dims* weight, std::int64_t results) {
  if (weight == nullptr || weight->size() < 3) return 0;
  std::int64_t filter = 2;
  for (std::size_t i = 1; i < weight->size(); ++i) filter = times(filter, (*weight)[i]);
  return times(filter, results);
}

bool has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

/// Whether a convolution is transposed: its output channels differ from the filter's first
/// dimension. Its multiply-adds are per input element.
bool transposed(std::string_view name, const Dims* weight, const Dims* written) {
  return has(name, "transpose") || (weight != nullptr && written != nullptr &&
                                    written->size() > 1 && (*written)[1] != weight->front());
}

/// Flops of a recurrent layer: each weight matrix is multiplied once per token and sample, twice in
/// the backward pass.
std::int64_t recurrent(std::string_view name, const std::vector<const TensorView*>& in) {
  const Dims* input = shape(in, 0);
  if (input == nullptr || input->size() < 2 || has(name, "fused")) return 0;
  const std::int64_t tokens = input->size() > 2 ? times((*input)[0], (*input)[1]) : input->front();
  const std::int64_t gates = has(name, "lstm") ? 4 : has(name, "gru") ? 3 : 1;
  std::int64_t weights = 0;
  for (std::size_t i = 1; i < in.size(); ++i)
    if (in[i]->shape.size() == 2 && in[i]->shape.front() % gates == 0 && in[i]->shape.front() > 1)
      weights += in[i]->elements;
  return times((has(name, "backward") ? 4 : 2) * tokens, std::min(weights, std::int64_t{1} << 40));
}

/// Flops of attention: two matmuls of queries x keys x width; five in the backward pass, which
/// recomputes the first. Source: FlashAttention (Dao et al., 2022).
std::int64_t attention(std::string_view name, const Dims* queries, const Dims* keys) {
  if (queries == nullptr || keys == nullptr || keys->size() < 2) return 0;
  // [.., heads, length, width], but [batch, length, heads, width] in PyTorch's internal calls.
  const bool length_first = keys->size() == 4 && (name.starts_with("_flash_attention") ||
                                                  name.starts_with("_efficient_attention"));
  std::int64_t flops = 2 * (*keys)[length_first ? 1 : keys->size() - 2];
  for (const std::int64_t dim : *queries) flops = times(flops, dim);
  return times(flops, has(name, "backward") ? 5 : 2);
}

/// Flops of matmuls; 0 for other calls, or if shapes are unknown.
std::int64_t multiply_adds(const Call& call) {
  const auto in = tensors(call.inputs), out = tensors(call.outputs);
  const std::string_view name = call.name;
  const std::int64_t results = elements(out);
  if (has(name, "convolution_backward") || has(name, "conv_backward")) {
    // Gradients of the input and of the weights. Arguments: output gradient, input, weights.
    const std::size_t each = transposed(name, shape(in, 2), shape(in, 0)) ? 1 : 0;
    return times(out.size() > 1 ? 2 : 1,
                 convolution(shape(in, 2), each < in.size() ? in[each]->elements : 0));
  }
  if (has(name, "conv"))
    return convolution(shape(in, 1),
                       transposed(name, shape(in, 1), shape(out, 0)) ? in[0]->elements : results);
  if (name == "mm" || name == "bmm" || name == "matmul" || name == "linear" || name == "mv" ||
      name == "_int_mm" || name == "_scaled_mm")
    return matmul(shape(in, 0), results);
  if (name == "addmm" || name == "baddbmm" || name == "addmm_" || name == "addmv")
    return matmul(shape(in, 1), results);
  if (has(name, "attention")) {
    const std::size_t first = has(name, "backward") ? 1 : 0;  // after the gradient
    return attention(name, shape(in, first), shape(in, first + 1));
  }
  if (has(name, "lstm") || has(name, "gru") || has(name, "rnn")) return recurrent(name, in);
  return 0;
}

}  // namespace

std::vector<Argument> arguments_of(std::string_view schema) {
  std::vector<Argument> arguments;
  const std::size_t open = schema.find('(');
  const std::size_t arrow = schema.find(" -> ");
  if (open == std::string_view::npos || arrow == std::string_view::npos || arrow < open + 2)
    return arguments;
  for (std::string_view text : split_outside_brackets(schema.substr(open + 1, arrow - open - 2))) {
    if (text == "*") continue;
    const bool mutated = text.find("!)") != std::string_view::npos;
    text = text.substr(0, text.find('='));
    arguments.push_back(
        {.name = std::string(text.substr(text.rfind(' ') + 1)), .mutated = mutated, .tensors = {}});
  }
  return arguments;
}

void fill(const Values& from, std::vector<Argument>& arguments) {
  const std::size_t n = std::min(from.values.size(), from.types.size());
  arguments.resize(std::max(arguments.size(), n));
  for (std::size_t i = 0; i < n; ++i)
    collect(from.values[i], from.types[i], i < from.shapes.size() ? from.shapes[i] : no_shape,
            arguments[i]);
}

OpWork work_of(const Call& call, Precision of_convolutions) {
  const auto in = tensors(call.inputs), out = tensors(call.outputs);
  OpWork work{.flops = multiply_adds(call)};
  if (!in.empty()) work.precision = in.front()->precision;
  if (work.precision == Precision::fp32 && has(call.name, "conv")) work.precision = of_convolutions;
  if (work.flops == 0) work.flops = std::max(elements(in), elements(out));
  std::set<std::pair<std::int64_t, std::int64_t>> counted;  // storage, offset
  for (const auto* all : {&in, &out})
    for (const TensorView* t : *all)
      if (counted.emplace(t->storage, t->offset).second) work.traffic += Bytes{t->bytes()};
  return work;
}

}  // namespace baechi::pytorch
