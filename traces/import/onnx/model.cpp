#include "traces/import/onnx/model.h"

#include "sim/error.h"
#include "traces/format/wire.h"

namespace baechi::onnx {
namespace {

// Field numbers from onnx/onnx.proto, for all versions of the format.

constexpr std::int64_t most_elements = std::int64_t{1} << 60;

std::int64_t dim(std::int64_t n) { return n < 0 || n > most_dim ? -1 : n; }

ElementType type_of(std::uint64_t number) {
  return number < 32 ? static_cast<ElementType>(number) : ElementType::unknown;
}

/// Bytes of an element; 0 for types whose values are not read.
std::size_t width_of(ElementType type) {
  constexpr ElementType read[] = {ElementType::int64, ElementType::float64, ElementType::int32,
                                  ElementType::float32, ElementType::boolean};
  return std::ranges::find(read, type) == std::end(read)
             ? 0
             : static_cast<std::size_t>(bits_of(type)) / 8;
}

/// The little-endian number at `bytes`, as in TensorProto.raw_data.
double number_at(const char* bytes, ElementType type) {
  std::uint64_t n = 0;
  for (std::size_t b = width_of(type); b-- > 0;) n = n << 8U | static_cast<std::uint8_t>(bytes[b]);
  const auto half = static_cast<std::uint32_t>(n);
  if (type == ElementType::float64) return std::bit_cast<double>(n);
  if (type == ElementType::float32) return std::bit_cast<float>(half);
  if (type == ElementType::int32) return static_cast<std::int32_t>(half);
  return static_cast<double>(static_cast<std::int64_t>(n));
}

/// Reads a TensorProto: shape, type and, if there are at most most_values, the elements.
Initializer read_tensor(Wire& wire) {
  Initializer tensor;
  TensorInfo& info = tensor.info;
  info.shape.emplace();
  std::vector<double> listed;
  std::string raw;  // raw_data, or a packed list of floats in the same encoding
  wire.message([&](std::uint32_t field) {
    if (field == 1) {
      wire.each_whole([&](std::int64_t n) {
        if (n < 0 || n > most_dim) wire.broken("a dimension out of range");
        info.shape->push_back(n);
      });
    } else if (field == 2) {
      info.type = type_of(wire.varint());
    } else if ((field == 5 || field == 7) && wire.length() <= 10 * most_values) {
      wire.each_whole([&](std::int64_t n) { listed.push_back(static_cast<double>(n)); });
    } else if (field == 8) {
      tensor.name = wire.text();
    } else if ((field == 4 || field == 9 || field == 10) && wire.length() <= 8 * most_values) {
      raw += wire.bytes();
    } else if (field == 13) {
      tensor.external = true;
    }
  });
  const auto elements = info.elements();
  const std::size_t width = width_of(info.type);
  if (width == 0 || !elements || *elements > static_cast<std::int64_t>(most_values)) return tensor;
  for (std::size_t at = 0; at + width <= raw.size(); at += width)
    listed.push_back(number_at(raw.data() + at, info.type));
  if (listed.size() == static_cast<std::size_t>(*elements)) info.values = listed;
  return tensor;
}

/// TypeProto.Tensor of a ValueInfoProto.
void read_tensor_type(Wire& wire, ValueInfo& value) {
  wire.message([&](std::uint32_t field) {
    if (field == 1) value.type = type_of(wire.varint());
    if (field != 2) return;
    value.shape.emplace();
    wire.message([&](std::uint32_t dimension) {
      if (dimension != 1) return;
      std::int64_t length = -1;
      std::string symbol;
      wire.message([&](std::uint32_t f) {
        if (f == 1) length = dim(wire.whole());
        if (f == 2) symbol = wire.text();
      });
      value.shape->push_back(length);
      value.symbols.push_back(std::move(symbol));
    });
  });
}

ValueInfo read_value(Wire& wire) {
  ValueInfo value;
  wire.message([&](std::uint32_t field) {
    if (field == 1) value.name = wire.text();
    if (field == 2)
      wire.message([&](std::uint32_t kind) {
        if (kind == 1) read_tensor_type(wire, value);
      });
  });
  return value;
}

void read_attribute(Wire& wire, Node& node) {
  std::string name;
  Attribute attribute;
  wire.message([&](std::uint32_t field) {
    if (field == 1) name = wire.text();
    if (field == 2 || field == 7) wire.each_real([&](double x) { attribute.floats.push_back(x); });
    if (field == 3) attribute.i = wire.whole();
    if (field == 4 && wire.length() <= 65536) attribute.s = wire.text();
    if (field == 5) attribute.tensor = read_tensor(wire).info;
    if (field == 6 || field == 11) attribute.has_graph = true;
    if (field == 8) wire.each_whole([&](std::int64_t n) { attribute.ints.push_back(n); });
  });
  node.attributes[name] = std::move(attribute);
}

Node read_node(Wire& wire) {
  Node node{.position = wire.position()};
  wire.message([&](std::uint32_t field) {
    if (field == 1) node.inputs.push_back(wire.text());
    if (field == 2) node.outputs.push_back(wire.text());
    if (field == 3) node.name = wire.text();
    if (field == 4) node.op_type = wire.text();
    if (field == 5) read_attribute(wire, node);
    if (field == 7) node.domain = wire.text();
  });
  return node;
}

void read_graph(Wire& wire, Model& model) {
  wire.message([&](std::uint32_t field) {
    if (field == 1) model.nodes.push_back(read_node(wire));
    if (field == 2) model.name = wire.text();
    if (field == 5) model.initializers.push_back(read_tensor(wire));
    if (field == 11) model.inputs.push_back(read_value(wire));
    if (field == 12) model.outputs.push_back(read_value(wire));
    if (field == 13) model.values.push_back(read_value(wire));
  });
}

void read_opset(Wire& wire, Model& model) {
  std::string domain;
  std::int64_t version = 0;
  wire.message([&](std::uint32_t field) {
    if (field == 1) domain = wire.text();
    if (field == 2) version = wire.whole();
  });
  if (domain.empty() || domain == "ai.onnx") model.opset = version;
}

}  // namespace

std::string_view word_of(ElementType type) {
  constexpr std::pair<int, std::string_view> words[] = {
      {10, "float16"},    {16, "bfloat16"},       {17, "float8e4m3fn"}, {18, "float8e4m3fnuz"},
      {19, "float8e5m2"}, {20, "float8e5m2fnuz"}, {23, "float4e2m1"}};
  for (const auto& [number, word] : words)
    if (number == static_cast<int>(type)) return word;
  return "";
}

std::int64_t bits_of(ElementType type) {
  // unknown, float, uint8, int8, uint16, int16, int32, int64; string, bool, float16, double,
  // uint32, uint64, complex64, complex128; bfloat16, four formats of 8 bits, uint4, int4,
  // float4e2m1; float8e8m0, uint2, int2
  constexpr std::int64_t bits[] = {0,  32,  8,  8, 16, 16, 32, 64, 0, 8, 16, 64, 32, 64,
                                   64, 128, 16, 8, 8,  8,  8,  4,  4, 4, 8,  2,  2};
  const auto number = static_cast<std::size_t>(type);
  return number < std::size(bits) ? bits[number] : 8;
}

std::optional<std::int64_t> TensorInfo::elements() const {
  if (!shape) return std::nullopt;
  std::int64_t n = 1;
  for (const std::int64_t length : *shape) {
    if (length < 0 || (length > 0 && n > most_elements / length)) return std::nullopt;
    n *= length;
  }
  return n;
}

std::optional<std::int64_t> TensorInfo::bytes() const {
  const auto n = elements();
  const std::int64_t width = bits_of(type);
  if (!n || width == 0 || *n > most_elements / width) return std::nullopt;
  return (*n * width + 7) / 8;
}

const Attribute* Node::attribute(std::string_view name) const {
  const auto found = attributes.find(name);
  return found == attributes.end() ? nullptr : &found->second;
}
std::string_view Node::text(std::string_view name) const {
  const Attribute* found = attribute(name);
  return found == nullptr ? std::string_view() : found->s;
}
std::int64_t Node::integer(std::string_view name, std::int64_t fallback) const {
  const Attribute* found = attribute(name);
  return found == nullptr ? fallback : found->i;
}
std::optional<std::vector<std::int64_t>> Node::integers(std::string_view name) const {
  const Attribute* found = attribute(name);
  return found == nullptr ? std::nullopt : std::optional(found->ints);
}

Model read_model(TextFile& file) {
  Model model;
  Wire wire(file);
  wire.fields([&](std::uint32_t field) {
    if (field == 1) model.ir_version = wire.whole();
    if (field == 2) model.producer = wire.text();
    if (field == 8) read_opset(wire, model);
    if (field == 25)
      wire.message([&](std::uint32_t f) {
        if (f == 1) model.functions.push_back(wire.text());
      });
    if (field == 7) read_graph(wire, model);
  });
  if (model.nodes.empty())
    throw InputError(fmt::format("{}: no graph with nodes: not an ONNX model", file.path()));
  return model;
}

}  // namespace baechi::onnx
