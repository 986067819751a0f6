#include "sim/graph/graph_io.h"

#include <fmt/format.h>

#include <boost/graph/graphml.hpp>
#include <boost/property_map/function_property_map.hpp>
#include <locale>
#include <sstream>

#include "sim/graph/bgl.h"

namespace baechi {
namespace {

std::string_view to_text(Phase phase) {
  if (phase == Phase::forward) return "forward";
  return phase == Phase::backward ? "backward" : "update";
}

std::string dot_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

/// XML 1.0 has no way to write most control characters.
std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return out;
}

}  // namespace

std::string dot(const OpGraph& graph, std::string_view name) {
  std::string text = fmt::format("digraph {} {{\n  node [shape=box];\n", dot_string(name));
  for (const OpId v : graph.ops()) {
    const Op& op = graph.op(v);
    text += fmt::format("  {} [label={}", index(v),
                        dot_string(fmt::format("{}\n{}", graph.name(v), to_text(op.compute))));
    if (op.phase != Phase::forward) text += ", style=filled, fillcolor=grey90";
    if (op.group != no_group)
      text += fmt::format(", penwidth=2, colorscheme=paired12, color={}", index(op.group) % 12 + 1);
    text += "];\n";
  }
  for (const EdgeId e : graph.edges()) {
    const Edge& edge = graph.edge(e);
    const Tensor& tensor = graph.tensor(edge.tensor);
    text += fmt::format("  {} -> {} [{}];\n", index(edge.src), index(edge.dst),
                        tensor.control ? "style=dashed"
                                       : fmt::format("label={}", dot_string(to_text(tensor.size))));
  }
  return text + "}\n";
}

std::string graphml(const OpGraph& graph) {
  using boost::make_function_property_map;
  boost::dynamic_properties properties;
  const auto of_op = [&properties](const char* name, auto value) {
    properties.property(name, make_function_property_map<OpId>(value));
  };
  const auto of_edge = [&properties, &graph](const char* name, auto value) {
    properties.property(name, make_function_property_map<EdgeId>([&graph, value](EdgeId e) {
                          return value(graph.tensor(graph.edge(e).tensor), graph.edge(e).tensor);
                        }));
  };
  of_op("name", [&graph](OpId v) { return printable(graph.name(v)); });
  of_op("kind", [&graph](OpId v) { return printable(graph.kind(v)); });
  of_op("phase", [&graph](OpId v) { return std::string(to_text(graph.op(v).phase)); });
  of_op("compute_us", [&graph](OpId v) { return fmt::format("{}", to_us(graph.op(v).compute)); });
  of_op("persistent_bytes", [&graph](OpId v) { return graph.op(v).persistent.count; });
  of_op("temporary_bytes", [&graph](OpId v) { return graph.op(v).temporary.count; });
  of_op("group", [&graph](OpId v) {
    const GroupId group = graph.op(v).group;
    return group == no_group ? std::string() : printable(graph.group_name(group));
  });
  of_edge("tensor", [](const Tensor&, TensorId t) { return static_cast<long>(index(t)); });
  of_edge("bytes", [](const Tensor& tensor, TensorId) { return tensor.size.count; });
  of_edge("control", [](const Tensor& tensor, TensorId) { return tensor.control; });

  std::ostringstream out;
  out.imbue(std::locale::classic());
  boost::write_graphml(out, graph, bgl::OpIndex{}, properties, true);
  return std::move(out).str();
}

}  // namespace baechi
