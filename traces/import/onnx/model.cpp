#include "traces/import/onnx/model.h"

#include <fmt/format.h>

#include <bit>

#include "sim/error.h"
#include "traces/format/wire.h"

namespace baechi::onnx {
namespace {

// Field numbers from onnx/onnx.proto, for all versions of the format.

constexpr std::int64_t most_elements = std::int64_t{1} << 60;

std::string text(Wire& wire) {
  return wire.text();
}

std::int64_t dim(std::int64_t n) {
  return n < 0 || n > most_dim ? -1 : n;
}

ElementType type_of(std::uint64_t number) {
  return number < 32 ? static_cast<ElementType>(number) : ElementType::unknown;
}

/// Bytes of an element; 0 for types whose values are not read.
std::size_t width_of(ElementType type) {
  switch (type) {
    case ElementType::int64:
    case ElementType::float64:
      return 8;
    case ElementType::int32:
    case ElementType::float32:
      return 4;
    case ElementType::boolean:
      return 1;
    default:
      return 0;
  }
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
      tensor.name = text(wire);
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
        if (f == 2) symbol = text(wire);
      });
      value.shape->push_back(length);
      value.symbols.push_back(std::move(symbol));
    });
  });
}

ValueInfo read_value(Wire& wire) {
  ValueInfo value;
  wire.message([&](std::uint32_t field) {
    if (field == 1) value.name = text(wire);
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
    if (field == 1) name = text(wire);
    if (field == 3) attribute.i = wire.whole();
    if (field == 4 && wire.length() <= 65536) attribute.s = text(wire);
    if (field == 5) attribute.tensor = read_tensor(wire).info;
    if (field == 6 || field == 11) attribute.has_graph = true;
    if (field == 8) wire.each_whole([&](std::int64_t n) { attribute.ints.push_back(n); });
  });
  node.attributes[name] = std::move(attribute);
}

Node read_node(Wire& wire) {
  Node node{.position = wire.position()};
  wire.message([&](std::uint32_t field) {
    if (field == 1) node.inputs.push_back(text(wire));
    if (field == 2) node.outputs.push_back(text(wire));
    if (field == 3) node.name = text(wire);
    if (field == 4) node.op_type = text(wire);
    if (field == 5) read_attribute(wire, node);
    if (field == 7) node.domain = text(wire);
  });
  return node;
}

/// Reads the name of a FunctionProto.
std::string read_function(Wire& wire) {
  std::string name;
  wire.message([&](std::uint32_t field) {
    if (field == 1) name = text(wire);
  });
  return name;
}

void read_graph(Wire& wire, Model& model) {
  wire.message([&](std::uint32_t field) {
    if (field == 1) model.nodes.push_back(read_node(wire));
    if (field == 2) model.name = text(wire);
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
    if (field == 1) domain = text(wire);
    if (field == 2) version = wire.whole();
  });
  if (domain.empty() || domain == "ai.onnx") model.opset = version;
}

}  // namespace

std::string_view word_of(ElementType type) {
  switch (static_cast<int>(type)) {
    case 10:
      return "float16";
    case 16:
      return "bfloat16";
    case 17:
      return "float8e4m3fn";
    case 18:
      return "float8e4m3fnuz";
    case 19:
      return "float8e5m2";
    case 20:
      return "float8e5m2fnuz";
    case 23:
      return "float4e2m1";
    default:
      return "";
  }
}

std::int64_t bits_of(ElementType type) {
  switch (static_cast<int>(type)) {
    case 1:   // float
    case 6:   // int32
    case 12:  // uint32
      return 32;
    case 7:   // int64
    case 11:  // double
    case 13:  // uint64
    case 14:  // complex64
      return 64;
    case 4:   // uint16
    case 5:   // int16
    case 10:  // float16
    case 16:  // bfloat16
      return 16;
    case 15:  // complex128
      return 128;
    case 21:  // uint4
    case 22:  // int4
    case 23:  // float4e2m1
      return 4;
    case 25:  // uint2
    case 26:  // int2
      return 2;
    case 0:  // unknown
    case 8:  // string
      return 0;
    default:
      return 8;
  }
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

std::int64_t Node::integer(std::string_view attribute, std::int64_t fallback) const {
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? fallback : found->second.i;
}

std::optional<std::vector<std::int64_t>> Node::integers(std::string_view attribute) const {
  const auto found = attributes.find(attribute);
  if (found == attributes.end()) return std::nullopt;
  return found->second.ints;
}

Model read_model(TextFile& file) {
  Model model;
  bool has_graph = false;
  Wire wire(file);
  wire.fields([&](std::uint32_t field) {
    if (field == 1) model.ir_version = wire.whole();
    if (field == 2) model.producer = text(wire);
    if (field == 8) read_opset(wire, model);
    if (field == 25) model.functions.push_back(read_function(wire));
    if (field == 7) {
      has_graph = true;
      read_graph(wire, model);
    }
  });
  if (!has_graph || model.nodes.empty())
    throw InputError(fmt::format("{}: no graph with nodes: not an ONNX model", file.path()));
  return model;
}

}  // namespace baechi::onnx
