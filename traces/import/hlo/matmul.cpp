#include "traces/import/hlo/module.h"

namespace baechi::hlo {
namespace {

/// The list after the first `key` and its '=': "3x3", "[3, 3]", "array<i64: 3, 3>", "dense<[3,
/// 3]>", or "dense<3> : tensor<2xi64>".
std::vector<std::int64_t> list_behind(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  const std::size_t equals = at == std::string_view::npos ? at : text.find('=', at + key.size());
  if (equals == std::string_view::npos) return {};
  text.remove_prefix(std::min(text.find_first_not_of(" =", equals), text.size()));
  if (text.starts_with("array<")) {
    text.remove_prefix(std::min(text.find(':'), text.size()));
    return whole_numbers(text.substr(0, text.find('>')));
  }
  if (text.starts_with("dense<")) {
    const auto numbers = whole_numbers(text.substr(0, text.find('>')));
    const std::size_t type = text.find("tensor<");
    if (numbers.size() != 1 || type == std::string_view::npos) return numbers;
    const auto count = whole_numbers(text.substr(type, text.find('x', type) - type));
    const std::int64_t dims = count.empty() ? 1 : std::min<std::int64_t>(count[0], 64);
    return std::vector<std::int64_t>(static_cast<std::size_t>(dims), numbers[0]);
  }
  if (text.starts_with('[')) return whole_numbers(text.substr(0, text.find(']')));
  return whole_numbers(text.substr(0, text.find_first_not_of("0123456789x")));
}

std::int64_t product_of(const std::vector<std::int64_t>& numbers) {
  std::int64_t all = 1;
  for (const std::int64_t n : numbers) all = capped_product(all, std::max<std::int64_t>(1, n));
  return all;
}

/// The target of a custom-call: "__cublas$gemm".
std::string_view target_of(std::string_view attributes) {
  for (const std::string_view key : {"custom_call_target=\"", "call_target_name = \""})
    if (const std::size_t at = attributes.find(key); at != std::string_view::npos) {
      attributes.remove_prefix(at + key.size());
      return attributes.substr(0, attributes.find('"'));
    }
  if (!attributes.starts_with(" @")) return {};
  return attributes.substr(2, attributes.find('(') - 2);
}

bool target_has(const Instruction& call, std::string_view part) {
  return call.opcode == "custom-call" &&
         target_of(call.attributes).find(part) != std::string_view::npos;
}

/// Index of the filter's output feature dimension: of 'o' in "b01f_01io->b01f" or in "[b, 0, 1,
/// f]x[0, 1, i, o]->[b, 0, 1, f]"; the last dimension if there are no labels.
std::size_t output_features(std::string_view attributes, std::size_t rank) {
  std::size_t at = attributes.find("dim_labels=");
  std::string_view labels;
  if (at != std::string_view::npos)
    labels = attributes.substr(attributes.find('_', at + 11) + 1);
  else if (at = attributes.find("]x["); at != std::string_view::npos)
    labels = attributes.substr(at + 3);
  std::size_t position = 0;
  for (const char c : labels) {
    if (c == 'o' && position < rank) return position;
    position += c == ',' || c == ' ' ? 0U : 1U;
  }
  return rank - 1;
}

}  // namespace

std::int64_t scratch_bytes(const Instruction& instruction) {
  if (instruction.opcode != "custom-call" || instruction.results.size() < 2) return 0;
  if (!target_has(instruction, "__cublas") && !target_has(instruction, "__cudnn")) return 0;
  const Shape& last = instruction.results.back();
  const bool bytes =
      last.type == "u8" || last.type == "s8" || last.type == "ui8" || last.type == "i8";
  return bytes && last.dims.size() == 1 ? last.bytes() : 0;
}

bool is_matmul(const Instruction& instruction) {
  const std::string& op = instruction.opcode;
  return op == "dot" || op == "dot-general" || op == "ragged-dot" || op == "scaled-dot" ||
         target_has(instruction, "gemm") || target_has(instruction, "matmul");
}

bool is_convolution(const Instruction& instruction) {
  const std::string& op = instruction.opcode;
  return op == "convolution" || op == "dynamic-conv" ||
         (op == "custom-call" && instruction.attributes.find("dim_labels=") != std::string::npos);
}

bool is_annotation(const Instruction& instruction) {
  if (instruction.opcode == "sharding-constraint" || instruction.opcode == "reshard") return true;
  if (instruction.opcode != "custom-call") return false;
  const std::string_view target = target_of(instruction.attributes);
  return target == "Sharding" || target == "SPMDFullToShardShape" ||
         target == "SPMDShardToFullShape" || target == "annotate_device_placement" ||
         target.starts_with("xla.sdy.");
}

std::int64_t matmul_flops(const Instruction& matmul, const Shape* left) {
  if (left == nullptr || matmul.results.empty()) return 0;
  const auto rank = static_cast<std::int64_t>(left->dims.size());
  std::vector<std::int64_t> dims;
  bool stated = false;
  for (const char* key :
       {"lhs_contracting_dims=", "lhs_contracting_dimensions", " contracting_dims = "}) {
    if (stated || matmul.attributes.find(key) == std::string::npos) continue;
    stated = true;
    dims = numbers_after(matmul.attributes, key);
  }
  // A dot_general without contracting dimensions is an outer matmul.
  if (!stated && matmul.opcode != "dot-general") dims.push_back(rank - 1);
  std::int64_t flops = capped_product(2, matmul.results.front().elements());
  for (const std::int64_t dim : dims)
    if (dim >= 0 && dim < rank)
      flops = capped_product(flops, left->dims[static_cast<std::size_t>(dim)]);
  // A ragged dimension that is contracted is cut into the groups that the result lists first.
  for (const std::int64_t dim : numbers_after(matmul.attributes, "lhs_ragged_dims"))
    if (std::ranges::find(dims, dim) != dims.end() && !matmul.results.front().dims.empty())
      flops /= std::max<std::int64_t>(1, matmul.results.front().dims.front());
  return flops;
}

std::int64_t convolution_flops(const Instruction& conv, const Shape* left, const Shape* right) {
  if (left == nullptr || right == nullptr || conv.results.empty()) return 0;
  const Shape *filter = right, *written = &conv.results.front();
  if (target_has(conv, "convBackwardInput")) written = left;
  if (target_has(conv, "convBackwardFilter")) std::swap(filter, written);
  if (filter->dims.empty()) return 0;
  const std::int64_t features = filter->dims[output_features(conv.attributes, filter->dims.size())];
  const std::int64_t window = features > 0 ? filter->elements() / features : 0;
  const std::int64_t zeros = product_of(list_behind(conv.attributes, "lhs_dilat"));
  return capped_product(2, capped_product(written->elements(), window)) / zeros;
}

std::int64_t window_elements(const Instruction& instruction) {
  const std::string& text = instruction.attributes;
  const std::int64_t hlo = product_of(list_behind(text, "window={size"));
  return hlo > 1 ? hlo : product_of(list_behind(text, "window_dimensions"));
}

}  // namespace baechi::hlo
