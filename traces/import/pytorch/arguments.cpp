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

}  // namespace baechi::pytorch
