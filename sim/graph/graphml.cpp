#include <boost/graph/graphml.hpp>
#include <boost/property_map/function_property_map.hpp>
#include <sstream>

#include "sim/graph/bgl.h"
#include "sim/graph/graph_io.h"
#include "sim/graph/phase_names.h"

namespace baechi {
namespace {

/// `text` with control characters, which XML cannot hold, other than line breaks and tabs, replaced
/// by their Unicode control pictures (ESC is U+241B).
std::string xml_text(std::string_view text) {
  std::string fit;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code == 0x7F)
      fit += "\u2421";
    else if (code >= 0x20 || c == '\n' || c == '\t')
      fit += c;
    else  // U+2400 is E2 90 80
      fit += {'\xE2', '\x90', static_cast<char>(0x80 + code)};
  }
  return fit;
}

}  // namespace

std::string to_graphml(const OpGraph& graph) {
  boost::dynamic_properties properties;
  const auto of_op = [&](const char* name, auto value) {
    properties.property(name, boost::make_function_property_map<OpId>(value));
  };
  const auto of_edge = [&](const char* name, auto value) {
    properties.property(name, boost::make_function_property_map<EdgeId>(value));
  };
  const auto tensor = [&](EdgeId e) -> const Tensor& { return graph.tensor(graph.edge(e).tensor); };
  of_op("name", [&](OpId v) { return xml_text(graph.name(v)); });
  of_op("kind", [&](OpId v) { return xml_text(graph.kind(v)); });
  of_op("phase", [&](OpId v) { return std::string(to_text(graph.op(v).phase)); });
  of_op("forward", [&](OpId v) {
    const OpId f = graph.op(v).forward;
    return f == no_op ? std::string() : xml_text(graph.name(f));
  });
  of_op("colocation", [&](OpId v) {
    const GroupId g = graph.op(v).group;
    return g == no_group ? std::string() : xml_text(graph.group_name(g));
  });
  of_op("compute_us", [&](OpId v) { return to_us(graph.compute(v, 0).value_or(Duration{})); });
  of_op("persistent_bytes", [&](OpId v) { return graph.op(v).persistent.count; });
  of_op("temporary_bytes", [&](OpId v) { return graph.op(v).temporary.count; });
  of_edge("output", [&](EdgeId e) {
    return static_cast<std::int64_t>(index(graph.edge(e).tensor) -
                                     index(*graph.outputs(graph.edge(e).src).begin()));
  });
  of_edge("bytes", [&](EdgeId e) { return tensor(e).size.count; });
  of_edge("control", [&](EdgeId e) { return tensor(e).control; });
  std::ostringstream out;
  out.imbue(std::locale::classic());
  boost::write_graphml(out, graph, bgl::OpIndex{}, properties, true);
  return out.str();
}

}  // namespace baechi
