#include "traces/import/tensorflow/protos.h"

#include <algorithm>

#include "sim/error.h"
#include "traces/format/wire.h"

namespace baechi::tensorflow {
namespace {

// Field numbers from tensorflow/core/framework/{graph,node_def,attr_value,tensor_shape,
// step_stats,tensor_description,allocation_description}.proto, core/protobuf/{config,meta_graph,
// saved_model}.proto.

constexpr std::int64_t most_bytes = std::int64_t{1} << 50;
constexpr std::int64_t longest_us = 10'000'000'000;

constexpr WireField schema[] = {
    {"GraphDef", "node", 1, WireType::message, "NodeDef"},
    {"GraphDef", "library", 2, WireType::message, "Library"},
    {"Library", "function", 1, WireType::message, "Function"},
    {"NodeDef", "name", 1, WireType::text},
    {"NodeDef", "op", 2, WireType::text},
    {"NodeDef", "input", 3, WireType::text},
    {"NodeDef", "attr", 5, WireType::message, "Attr"},
    {"Attr", "key", 1, WireType::text},
    {"Attr", "value", 2, WireType::message, "AttrValue"},
    {"AttrValue", "list", 1, WireType::message, "ListValue"},
    {"AttrValue", "type", 6, WireType::whole},
    {"AttrValue", "tensor", 8, WireType::message, "Tensor"},
    {"Tensor", "tensor_shape", 2, WireType::message, "Shape"},
    {"ListValue", "s", 2, WireType::text},
    {"ListValue", "shape", 7, WireType::message, "Shape"},
    {"Shape", "dim", 2, WireType::message, "Dim"},
    {"Shape", "unknown_rank", 3, WireType::whole},
    {"Dim", "size", 1, WireType::whole},
    {"RunMetadata", "step_stats", 1, WireType::message, "StepStats"},
    {"StepStats", "dev_stats", 1, WireType::message, "DeviceStepStats"},
    {"DeviceStepStats", "device", 1, WireType::text},
    {"DeviceStepStats", "node_stats", 2, WireType::message, "NodeExecStats"},
    {"NodeExecStats", "node_name", 1, WireType::text},
    {"NodeExecStats", "op_start_rel_micros", 3, WireType::whole},
    {"NodeExecStats", "op_end_rel_micros", 4, WireType::whole},
    {"NodeExecStats", "all_end_rel_micros", 5, WireType::whole},
    {"NodeExecStats", "output", 7, WireType::message, "NodeOutput"},
    {"NodeExecStats", "memory_stats", 12, WireType::message, "MemoryStats"},
    {"NodeExecStats", "op_start_rel_nanos", 14, WireType::whole},
    {"NodeExecStats", "op_end_rel_nanos", 15, WireType::whole},
    {"NodeExecStats", "all_end_rel_nanos", 16, WireType::whole},
    {"NodeOutput", "slot", 1, WireType::whole},
    {"NodeOutput", "tensor_description", 3, WireType::message, "TensorDescription"},
    {"TensorDescription", "allocation_description", 4, WireType::message, "Allocation"},
    {"Allocation", "requested_bytes", 1, WireType::whole},
    {"Allocation", "allocated_bytes", 2, WireType::whole},
    {"MemoryStats", "temp_memory_size", 1, WireType::whole},
    {"MemoryStats", "persistent_memory_size", 3, WireType::whole},
};

struct DataType {
  std::string_view name;
  std::uint64_t number;
  std::int64_t bytes;
};
constexpr DataType types[] = {
    {"DT_FLOAT", 1, 4},   {"DT_DOUBLE", 2, 8},    {"DT_INT32", 3, 4},       {"DT_UINT8", 4, 1},
    {"DT_INT16", 5, 2},   {"DT_INT8", 6, 1},      {"DT_COMPLEX64", 8, 8},   {"DT_INT64", 9, 8},
    {"DT_BOOL", 10, 1},   {"DT_BFLOAT16", 14, 2}, {"DT_UINT16", 17, 2},     {"DT_HALF", 19, 2},
    {"DT_UINT32", 22, 4}, {"DT_UINT64", 23, 8},   {"DT_COMPLEX128", 18, 16}};

std::uint64_t enum_value(std::string_view text) {
  for (const DataType& type : types)
    if (text == type.name || text == std::string(type.name) + "_REF") return type.number;
  return text == "true" ? 1 : 0;
}

std::int64_t bytes_of_type(std::uint64_t number) {
  for (const DataType& type : types)
    if (type.number == number % 100) return type.bytes;  // reference types are 101, ...
  return 0;
}

/// Elements of a TensorShapeProto; -1 if unknown.
std::int64_t read_shape(Wire& wire) {
  std::int64_t elements = 1;
  wire.message([&](std::uint32_t field) {
    if (field == 3 && wire.varint() != 0) elements = -1;
    if (field != 2) return;
    std::int64_t dim = 0;
    wire.message([&](std::uint32_t f) {
      if (f == 1) dim = wire.whole();
    });
    if (elements >= 0)
      elements = dim < 0 || (dim > 0 && elements > most_bytes / 16 / dim) ? -1 : elements * dim;
  });
  return elements;
}

struct Attr {
  std::string key;
  std::uint64_t type = 0;
  std::vector<std::string> texts;
  std::vector<std::int64_t> shapes;  // elements
};

Attr read_attr(Wire& wire) {
  Attr attr;
  wire.message([&](std::uint32_t field) {
    if (field == 1) attr.key = wire.text();
    if (field != 2) return;
    wire.message([&](std::uint32_t value) {
      if (value == 6) attr.type = wire.varint();
      if (value == 8)
        wire.message([&](std::uint32_t f) {
          if (f == 2) attr.shapes.push_back(read_shape(wire));
        });
      if (value != 1 || (attr.key != "_class" && attr.key != "_output_shapes")) return;
      wire.message([&](std::uint32_t f) {
        if (f == 2) attr.texts.push_back(wire.text());
        if (f == 7) attr.shapes.push_back(read_shape(wire));
      });
    });
  });
  return attr;
}

/// The output type, if it is not the input type (`T`); else 0.
std::uint64_t written_type(std::string_view op,
                           const std::map<std::string, std::uint64_t, std::less<>>& stated_types) {
  const auto stated = [&](std::string_view key, std::uint64_t otherwise) {
    const auto found = stated_types.find(key);
    return found == stated_types.end() || found->second == 0 ? otherwise : found->second;
  };
  for (const std::string_view name :
       {"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "ApproximateEqual",
        "IsNan", "IsInf", "IsFinite", "InTopK", "InTopKV2"})
    if (op == name) return enum_value("DT_BOOL");
  if (op == "Cast") return stated("DstT", 0);
  if (op == "Shape" || op == "ShapeN" || op == "Size")
    return stated("out_type", enum_value("DT_INT32"));
  if (op == "Rank") return enum_value("DT_INT32");
  if (op == "ArgMax" || op == "ArgMin") return stated("output_type", enum_value("DT_INT64"));
  if (op == "Where") return enum_value("DT_INT64");
  return 0;
}

Node read_node(Wire& wire) {
  Node node;
  std::uint64_t type = 0;
  bool is_dtype = false;
  std::map<std::string, std::uint64_t, std::less<>> stated_types;
  wire.message([&](std::uint32_t field) {
    if (field == 1) node.name = wire.text();
    if (field == 2) node.op = wire.text();
    if (field == 3) node.inputs.push_back(wire.text());
    if (field != 5) return;
    const Attr attr = read_attr(wire);
    constexpr std::string_view prefix = "loc:@";
    if (attr.key == "_class")
      for (const std::string& text : attr.texts)
        if (text.starts_with(prefix)) node.classes.push_back(text.substr(prefix.size()));
    if (attr.key == "_output_shapes" || (attr.key == "value" && node.output_bytes.empty()))
      node.output_bytes = attr.shapes;
    if (attr.key == "dtype" || (attr.key == "T" && !is_dtype)) type = attr.type;
    is_dtype = is_dtype || attr.key == "dtype";
    stated_types[attr.key] = attr.type;
  });
  if (const std::uint64_t written = written_type(node.op, stated_types); written != 0)
    type = written;
  const std::int64_t width = bytes_of_type(type);
  for (std::int64_t& n : node.output_bytes) n = n < 0 || width == 0 ? -1 : n * width;
  return node;
}

/// Reads a field of a GraphDef: 1 is a node, 2 the library of functions.
void read_part(Wire& wire, std::uint32_t field, Graph& graph) {
  if (field == 1) graph.nodes.push_back(read_node(wire));
  if (field == 2) wire.message([&](std::uint32_t f) { graph.functions += f == 1 ? 1U : 0U; });
}

Bytes size(Wire& wire) { return {std::clamp<std::int64_t>(wire.whole(), 0, most_bytes)}; }

/// NodeExecStats of an op or, on a GPU stream, of a kernel.
struct NodeRecord {
  std::string name;
  std::int64_t start_us = 0, op_us = 0, all_us = 0;
  std::int64_t start_ns = 0, op_ns = 0, all_ns = 0;
  Cost cost;

  static Duration span(std::int64_t from_us, std::int64_t to_us, std::int64_t from_ns,
                       std::int64_t to_ns) {
    const auto within = [](std::int64_t n, std::int64_t most) {
      return std::clamp<std::int64_t>(n, 0, most);
    };
    if (to_ns > 0)
      return Duration{std::max<std::int64_t>(
          0, within(to_ns, 1000 * longest_us) - within(from_ns, 1000 * longest_us))};
    return std::chrono::microseconds(
        std::max<std::int64_t>(0, within(to_us, longest_us) - within(from_us, longest_us)));
  }
  Duration own() const { return span(start_us, op_us, start_ns, op_ns); }
  Duration all() const { return span(start_us, all_us, start_ns, all_ns); }
  /// Duration of a kernel: its op_end is relative to its own start.
  Duration kernel() const { return span(0, op_us, 0, op_ns); }
};

NodeRecord read_record(Wire& wire) {
  NodeRecord r;
  wire.message([&](std::uint32_t field) {
    if (field == 1) r.name = wire.text();
    if (field == 3) r.start_us = wire.whole();
    if (field == 4) r.op_us = wire.whole();
    if (field == 5) r.all_us = wire.whole();
    if (field == 14) r.start_ns = wire.whole();
    if (field == 15) r.op_ns = wire.whole();
    if (field == 16) r.all_ns = wire.whole();
    if (field == 7) {
      std::int64_t slot = 0;
      Bytes allocated{}, requested{};
      wire.message([&](std::uint32_t output) {
        if (output == 1) slot = wire.whole();
        if (output != 3) return;
        wire.message([&](std::uint32_t description) {
          if (description != 4) return;
          wire.message([&](std::uint32_t f) {
            if (f == 1) requested = size(wire);
            if (f == 2) allocated = size(wire);
          });
        });
      });
      r.cost.outputs[slot] = {allocated, requested};
    }
    if (field == 12)
      wire.message([&](std::uint32_t f) {
        if (f == 1) r.cost.temporary = size(wire);
        if (f == 3) r.cost.persistent = size(wire);
      });
  });
  return r;
}

/// "Conv2D" of the kernel "Conv2D:Conv2D".
std::string node_of(const std::string& kernel) { return kernel.substr(0, kernel.find(':')); }

void read_device(Wire& wire, Costs& costs) {
  std::string device;
  std::vector<NodeRecord> records;
  wire.message([&](std::uint32_t field) {
    if (field == 1) device = wire.text();
    if (field == 2) records.push_back(read_record(wire));
  });
  if (device.ends_with("/stream:all")) {
    for (const NodeRecord& r : records) {
      auto& sum = costs[node_of(r.name)].kernels;
      sum = sum.value_or(Duration{}) + r.kernel();
    }
    return;
  }
  if (device.find("/stream:") != std::string::npos || device.ends_with("/memcpy")) return;
  for (NodeRecord& r : records) {
    Cost& cost = costs[r.name];
    cost.recorded = true;
    cost.own += r.own();
    cost.all += r.all();
    cost.temporary = std::max(cost.temporary, r.cost.temporary);
    cost.persistent = std::max(cost.persistent, r.cost.persistent);
    for (const auto& [slot, bytes] : r.cost.outputs) cost.outputs[slot] = bytes;
  }
}

/// The text from its first field on, without comments (lines that begin with #); "" if it is
/// binary.
std::string_view without_comments(std::string_view beginning) {
  if (beginning.find('\0') != std::string_view::npos) return {};
  for (;;) {
    const std::size_t first = beginning.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return {};
    beginning.remove_prefix(first);
    if (!beginning.starts_with('#')) return beginning;
    const std::size_t end = beginning.find('\n');
    if (end == std::string_view::npos) return {};
    beginning.remove_prefix(end);
  }
}

bool is_text(std::string_view beginning) {
  for (const std::string_view word : {"node", "versions", "library", "step_stats"})
    if (without_comments(beginning).starts_with(word)) return true;
  return false;
}

/// Calls read(wire) with the message `name` of the file, in binary or text form.
template <class Read>
void read_any(TextFile& file, std::string_view name, Read&& read) {
  if (!is_text(file.beginning())) {
    Wire wire(file);
    return read(wire);
  }
  const std::string bytes = bytes_of_text(file.rest(), file.path(), name, schema, enum_value);
  TextFile inner(file.path(), bytes, Content::any);
  Wire wire(inner);
  read(wire);
}

}  // namespace

Graph read_graph(TextFile& file) {
  Graph graph;
  const bool saved_model = file.beginning().starts_with("\x08\x01\x12");
  read_any(file, "GraphDef", [&](Wire& wire) {
    wire.fields([&](std::uint32_t field) {
      if (!saved_model) read_part(wire, field, graph);
      if (saved_model && field == 2)
        wire.message([&](std::uint32_t meta) {
          if (meta == 2) wire.message([&](std::uint32_t part) { read_part(wire, part, graph); });
        });
    });
  });
  return graph;
}

Costs read_costs(TextFile& file) {
  Costs costs;
  read_any(file, "RunMetadata", [&](Wire& wire) {
    wire.fields([&](std::uint32_t field) {
      if (field != 1) return;
      wire.message([&](std::uint32_t f) {
        if (f == 1) read_device(wire, costs);
      });
    });
  });
  return costs;
}

bool looks_like_graph(std::string_view beginning) {
  if (beginning.starts_with("\x08\x01\x12")) return true;  // SavedModel
  if (is_text(beginning)) {
    const std::string_view start = without_comments(beginning);
    return (start.starts_with("node {") || start.starts_with("node{")) &&
           start.find("name:") != std::string_view::npos;
  }
  // A GraphDef begins with a node, whose first fields are its name and its op.
  std::size_t at = 1;
  if (beginning.size() < 8 || beginning[0] != '\x0a') return false;
  while (at < beginning.size() && (static_cast<unsigned char>(beginning[at]) & 128U) != 0) ++at;
  ++at;
  if (at + 2 >= beginning.size() || beginning[at] != '\x0a') return false;
  const auto length = static_cast<unsigned char>(beginning[at + 1]);
  const std::size_t next = at + 2 + length;
  return length < 128 && beginning[at + 2] != '\x0a' && next < beginning.size() &&
         beginning[next] == '\x12';
}

}  // namespace baechi::tensorflow
