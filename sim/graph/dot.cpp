#include <map>

#include "sim/error.h"
#include "sim/graph/analysis.h"
#include "sim/graph/graph_io.h"

namespace baechi {
namespace {

constexpr std::size_t most_nodes = 2000;

std::string_view colour(DeviceId device) {
  static constexpr std::array<std::string_view, 12> palette{
      "#8dd3c7", "#ffffb3", "#bebada", "#fb8072", "#80b1d3", "#fdb462",
      "#b3de69", "#fccde5", "#d9d9d9", "#bc80bd", "#ccebc5", "#ffed6f"};
  return palette[index(device) % palette.size()];
}

/// Escapes text for a quoted Graphviz string.
std::string quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

struct Node {
  std::string label;
  DeviceId device{};
};

struct Drawing {
  std::vector<Node> nodes;
  IdVector<OpId, std::uint32_t> node_of;
};

Drawing op_by_op(const OpGraph& graph, const IdVector<OpId, DeviceId>& device) {
  Drawing d{.nodes = {}, .node_of = IdVector<OpId, std::uint32_t>(graph.num_ops())};
  for (const OpId v : graph.ops()) {
    d.node_of[v] = static_cast<std::uint32_t>(d.nodes.size());
    d.nodes.push_back({fmt::format("{}\\n{} {}", quoted(graph.name(v)), quoted(graph.kind(v)),
                                   to_text(graph.compute(v, 0).value_or(Duration{}))),
                       device.empty() ? DeviceId{} : device[v]});
  }
  return d;
}

Drawing by_layer(const OpGraph& graph, const IdVector<OpId, DeviceId>& device) {
  const IdVector<OpId, std::uint32_t> layer = layers(graph);
  std::size_t num_layers = 0, num_devices = 1;
  for (const OpId v : graph.ops()) {
    num_layers = std::max<std::size_t>(num_layers, layer[v] + 1U);
    if (!device.empty()) num_devices = std::max(num_devices, index(device[v]) + 1);
  }
  const std::size_t bands =
      std::min(num_layers, std::max<std::size_t>(1, most_nodes / num_devices));
  struct Group {
    std::size_t ops = 0, first_layer = 0, last_layer = 0;
    Duration compute{};
  };
  std::map<std::pair<std::size_t, DeviceId>, Group> groups;
  const auto key = [&](OpId v) {
    return std::pair(layer[v] * bands / num_layers, device.empty() ? DeviceId{} : device[v]);
  };
  for (const OpId v : graph.ops()) {
    Group& g = groups[key(v)];
    if (g.ops++ == 0) g.first_layer = g.last_layer = layer[v];
    g.first_layer = std::min<std::size_t>(g.first_layer, layer[v]);
    g.last_layer = std::max<std::size_t>(g.last_layer, layer[v]);
    g.compute += graph.compute(v, 0).value_or(Duration{});
  }
  Drawing d{.nodes = {}, .node_of = IdVector<OpId, std::uint32_t>(graph.num_ops())};
  std::map<std::pair<std::size_t, DeviceId>, std::uint32_t> number;
  for (const auto& [k, g] : groups) {
    number[k] = static_cast<std::uint32_t>(d.nodes.size());
    const std::string where = g.first_layer == g.last_layer
                                  ? fmt::format("layer {}", g.first_layer)
                                  : fmt::format("layers {}-{}", g.first_layer, g.last_layer);
    d.nodes.push_back({fmt::format("{}\\n{} ops, {}", where, g.ops, to_text(g.compute)), k.second});
  }
  for (const OpId v : graph.ops()) d.node_of[v] = number[key(v)];
  return d;
}

}  // namespace

std::string to_dot(const OpGraph& graph, const IdVector<OpId, DeviceId>& device) {
  const Drawing d =
      graph.num_ops() <= most_nodes ? op_by_op(graph, device) : by_layer(graph, device);
  std::map<std::pair<std::uint32_t, std::uint32_t>, Bytes> passed;
  for (const EdgeId e : graph.edges()) {
    const Edge& edge = graph.edge(e);
    if (d.node_of[edge.src] != d.node_of[edge.dst])
      passed[{d.node_of[edge.src], d.node_of[edge.dst]}] += graph.tensor(edge.tensor).size;
  }
  fmt::memory_buffer out;
  const auto append = fmt::appender(out);
  fmt::format_to(append, "digraph ops {{\n  node [shape=box, style=filled, fillcolor=white];\n");
  for (std::size_t i = 0; i < d.nodes.size(); ++i) {
    fmt::format_to(append, "  n{} [label=\"{}\"", i, d.nodes[i].label);
    if (!device.empty()) fmt::format_to(append, ", fillcolor=\"{}\"", colour(d.nodes[i].device));
    fmt::format_to(append, "];\n");
  }
  for (const auto& [ends, size] : passed)
    fmt::format_to(append, "  n{} -> n{} [label=\"{}\"];\n", ends.first, ends.second,
                   to_text(size));
  fmt::format_to(append, "}}\n");
  return fmt::to_string(out);
}

}  // namespace baechi
