#include <algorithm>
#include <boost/graph/graphml.hpp>
#include <boost/property_map/function_property_map.hpp>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <unordered_map>

#include "sim/error.h"
#include "sim/graph/bgl.h"
#include "sim/graph/graph_io.h"

namespace baechi {
namespace {

constexpr std::string_view phase_names[] = {"forward", "backward", "update"};

// Reading: by Boost's XML parser rather than boost::read_graphml, which does not tell the nodes'
// ids, and those are the names of a NetworkX graph.

using boost::property_tree::ptree;

/// The parser recurses; nothing sensible nests deeper than this.
void check_depth(std::string_view text, const std::string& path) {
  constexpr int deepest = 1000;
  int depth = 0;
  for (std::size_t i = text.find('<'); i != std::string_view::npos; i = text.find('<', i + 1)) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (next == '/') --depth;
    if (next == '/' || next == '!' || next == '?') continue;
    const std::size_t end = text.find('>', i);
    if (end == std::string_view::npos || text[end - 1] != '/') ++depth;
    if (depth > deepest)
      throw InputError(fmt::format("{}: XML nested more than {} deep", path, deepest));
  }
}

class GraphmlReader {
 public:
  GraphmlReader(const std::string& path, OpGraphBuilder& builder)
      : path_(path), builder_(builder) {}

  std::vector<std::string> read(const std::string& text);

 private:
  using Attributes = std::map<std::string, std::string>;

  void read_keys(const ptree& graphml);
  Attributes attributes(const ptree& element, const std::string& of);
  void read_node(const ptree& node);
  void read_edge(const ptree& edge);
  std::string take(Attributes& from, const std::string& name);
  double number(const std::string& text, const std::string& what);
  Bytes bytes(const std::string& text, const std::string& what);
  void ignore(const Attributes& rest) {
    for (const auto& [name, value] : rest) ignored_.insert(name);
  }

  struct Key {
    std::string name;
    std::string of;  // "node", "edge", "all", ...
    std::string fallback;
    bool has_fallback = false;
  };
  struct Read {
    OpId from, to;
    std::int64_t output;
  };
  const std::string& path_;
  OpGraphBuilder& builder_;
  Mistakes mistakes_;
  std::map<std::string, Key> keys_;  // by the file's id for them
  std::unordered_map<std::string, OpId> op_of_;
  std::vector<std::pair<OpId, std::string>> forwards_;
  std::map<std::pair<OpId, std::int64_t>, Bytes> size_;  // of each output that is read
  std::vector<Read> reads_;
  std::vector<std::pair<OpId, OpId>> controls_;
  std::set<std::string> ignored_;
};

std::string GraphmlReader::take(Attributes& from, const std::string& name) {
  const auto node = from.extract(name);
  return node.empty() ? std::string() : std::move(node.mapped());
}

double GraphmlReader::number(const std::string& text, const std::string& what) {
  if (text.empty()) return 0.0;
  double x = -1.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error == std::errc{} && end == text.data() + text.size() && x >= 0.0 && x < 0x1p62) return x;
  mistakes_.add(fmt::format("{}: {}: '{}' is not a number >= 0", path_, what, text.substr(0, 40)));
  return 0.0;
}

Bytes GraphmlReader::bytes(const std::string& text, const std::string& what) {
  return {static_cast<std::int64_t>(std::ceil(number(text, what)))};
}

void GraphmlReader::read_keys(const ptree& graphml) {
  for (const auto& [tag, element] : graphml) {
    if (tag != "key") continue;
    const auto fallback = element.get_optional<std::string>("default");
    keys_[element.get("<xmlattr>.id", "")] = {
        .name = element.get(ptree::path_type("<xmlattr>/attr.name", '/'), ""),
        .of = element.get("<xmlattr>.for", "all"),
        .fallback = fallback.value_or(""),
        .has_fallback = fallback.has_value()};
  }
}

GraphmlReader::Attributes GraphmlReader::attributes(const ptree& element, const std::string& of) {
  Attributes values;
  for (const auto& [id, key] : keys_)
    if (key.has_fallback && (key.of == of || key.of == "all")) values[key.name] = key.fallback;
  for (const auto& [tag, data] : element) {
    if (tag != "data") continue;
    const auto key = keys_.find(data.get("<xmlattr>.key", ""));
    if (key != keys_.end())
      values[key->second.name] = data.data();
    else
      mistakes_.add(
          fmt::format("{}: data of an undeclared key '{}'", path_, data.get("<xmlattr>.key", "")));
  }
  return values;
}

void GraphmlReader::read_node(const ptree& node) {
  const auto id = node.get("<xmlattr>.id", "");
  Attributes values = attributes(node, "node");
  std::string name = take(values, "name");
  if (name.empty()) name = id;
  const std::string phase = take(values, "phase");
  const auto* const known = std::ranges::find(phase_names, phase.empty() ? phase_names[0] : phase);
  if (known == std::end(phase_names))
    mistakes_.add(fmt::format("{}: node '{}': phase: '{}' is not one of {}", path_, id, phase,
                              fmt::join(phase_names, ", ")));
  const std::string at = fmt::format("node '{}': ", id);
  const auto time = from_us(number(take(values, "compute_us"), at + "compute_us"));
  if (!time) mistakes_.add(fmt::format("{}: {}compute_us: not a time below 146 years", path_, at));
  const std::string kind = take(values, "kind");
  const OpId op = builder_.add_op(
      {.name = name,
       .kind = kind,
       .compute = time.value_or(Duration{}),
       .persistent = bytes(take(values, "persistent_bytes"), at + "persistent_bytes"),
       .temporary = bytes(take(values, "temporary_bytes"), at + "temporary_bytes"),
       .phase = static_cast<Phase>((known - phase_names) % 3)});
  if (const auto group = take(values, "colocation"); !group.empty()) builder_.colocate(op, group);
  if (const auto forward = take(values, "forward"); !forward.empty())
    forwards_.emplace_back(op, forward);
  if (!op_of_.emplace(id, op).second)
    mistakes_.add(fmt::format("{}: two nodes have the id '{}'", path_, id));
  ignore(values);
}

void GraphmlReader::read_edge(const ptree& edge) {
  const auto end = [&](const char* which) {
    const auto id = edge.get(fmt::format("<xmlattr>.{}", which), "");
    const auto it = op_of_.find(id);
    if (it != op_of_.end()) return std::optional(it->second);
    mistakes_.add(
        fmt::format("{}: an edge's {} is '{}', but no node has that id", path_, which, id));
    return std::optional<OpId>();
  };
  const auto from = end("source"), to = end("target");
  Attributes values = attributes(edge, "edge");
  const Bytes size = bytes(take(values, "bytes"), "an edge: bytes");
  const std::int64_t output = bytes(take(values, "output"), "an edge: output").count;
  const std::string control = take(values, "control");
  ignore(values);
  if (!from || !to) return;
  if (control == "true" || control == "True" || control == "1") {
    controls_.emplace_back(*from, *to);
    return;
  }
  Bytes& largest = size_[{*from, output}];
  largest = std::max(largest, size);
  reads_.push_back({*from, *to, output});
}

std::vector<std::string> GraphmlReader::read(const std::string& text) {
  check_depth(text, path_);
  ptree file;
  std::istringstream in(text);
  try {
    boost::property_tree::read_xml(in, file);
  } catch (const boost::property_tree::xml_parser_error& e) {
    throw InputError(fmt::format("{}:{}: not XML: {}", path_, e.line(), e.message()));
  }
  const auto graphml = file.get_child_optional("graphml");
  if (!graphml) throw InputError(fmt::format("{}: no element <graphml>", path_));
  const auto graph = graphml->get_child_optional("graph");
  if (!graph) throw InputError(fmt::format("{}: no element <graph> in <graphml>", path_));
  if (graph->get("<xmlattr>.edgedefault", "directed") != "directed")
    throw InputError(
        fmt::format("{}: the graph is undirected, but an operator graph is directed "
                    "(edgedefault=\"directed\")",
                    path_));
  read_keys(*graphml);
  for (const auto& [tag, element] : *graph)
    if (tag == "node") read_node(element);
  for (const auto& [tag, element] : *graph)
    if (tag == "edge") read_edge(element);
  for (const auto& [op, name] : forwards_) {
    const auto forward = builder_.find(name);
    if (forward)
      builder_.set_forward(op, *forward);
    else
      mistakes_.add(fmt::format("{}: forward: no node '{}'", path_, name));
  }
  mistakes_.throw_if_any();
  // The n-th output of an op is its n-th that is read.
  std::map<std::pair<OpId, std::int64_t>, TensorId> tensor;
  for (const auto& [output, size] : size_) tensor[output] = builder_.add_tensor(output.first, size);
  for (const Read& r : reads_) builder_.add_edge(tensor[{r.from, r.output}], r.to);
  for (const auto& [before, after] : controls_) builder_.add_control(before, after);
  return {ignored_.begin(), ignored_.end()};
}

}  // namespace

std::vector<std::string> read_graphml(const std::string& text, const std::string& path,
                                      OpGraphBuilder& builder) {
  return GraphmlReader(path, builder).read(text);
}

std::string to_graphml(const OpGraph& graph) {
  boost::dynamic_properties properties;
  const auto of_op = [&](const char* name, auto value) {
    properties.property(name, boost::make_function_property_map<OpId>(value));
  };
  const auto of_edge = [&](const char* name, auto value) {
    properties.property(name, boost::make_function_property_map<EdgeId>(value));
  };
  const auto tensor = [&](EdgeId e) -> const Tensor& { return graph.tensor(graph.edge(e).tensor); };
  of_op("name", [&](OpId v) { return std::string(graph.name(v)); });
  of_op("kind", [&](OpId v) { return std::string(graph.kind(v)); });
  of_op("phase", [&](OpId v) {
    return std::string(phase_names[static_cast<std::size_t>(graph.op(v).phase)]);
  });
  of_op("forward", [&](OpId v) {
    const OpId f = graph.op(v).forward;
    return f == no_op ? std::string() : std::string(graph.name(f));
  });
  of_op("colocation", [&](OpId v) {
    const GroupId g = graph.op(v).group;
    return g == no_group ? std::string() : graph.group_name(g);
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
