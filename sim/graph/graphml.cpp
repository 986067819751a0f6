#include <expat.h>

#include <cmath>
#include <memory>

#include "sim/graph/graph_io.h"
#include "sim/options.h"
#include "sim/text.h"

// Expat and not boost::read_graphml, which drops the nodes' ids (the names of a NetworkX graph);
// Expat also gives positions and does not recurse.

namespace baechi {
namespace {

struct Position {
  std::size_t line = 0, column = 0;  ///< from 1
};

/// <data key="...">text</data>
struct Data {
  Position at{};
  std::string key{}, text{};
};

/// A <node> or an <edge>.
struct Element {
  Position at{};
  std::string id{};                ///< of a node
  std::string source{}, target{};  ///< of an edge: ids of nodes
  std::vector<Data> data{};
};

/// <key id="..." for="..." attr.name="..."><default>fallback</default></key>
struct Key {
  std::string name{};
  std::string of{};  ///< "node", "edge", "all", ...
  std::optional<std::string> fallback{};
};

/// The contents of a GraphML file, elements in file order.
struct Graphml {
  std::map<std::string, Key> keys{};  ///< by id
  std::vector<Element> nodes{}, edges{};
};

/// Reads the text of one file.
class GraphmlParser {
 public:
  explicit GraphmlParser(const std::string& path)
      : path_(path), parser_(XML_ParserCreate(nullptr)) {
    BAECHI_CHECK(parser_ != nullptr, "no memory for an XML parser");
    XML_SetUserData(parser_.get(), this);
    XML_SetElementHandler(parser_.get(), on_start, on_end);
    XML_SetCharacterDataHandler(parser_.get(), on_text);
    XML_SetEntityDeclHandler(parser_.get(), on_entity);
    XML_SetSkippedEntityHandler(parser_.get(), on_skipped_entity);
  }

  /// Throws InputError at the first mistake.
  Graphml parse(std::string_view text) {
    constexpr std::size_t piece = std::size_t{1} << 24U;  // Expat counts in int
    bool last = false;
    for (std::size_t at = 0; !last; at += piece) {
      const std::string_view part = text.substr(std::min(at, text.size()), piece);
      last = at + piece >= text.size();
      const auto status =
          XML_Parse(parser_.get(), part.data(), static_cast<int>(part.size()), last);
      if (!mistake_.empty()) throw InputError(mistake_);
      if (status != XML_STATUS_OK)
        throw InputError(at_position(
            fmt::format("not XML: {}", XML_ErrorString(XML_GetErrorCode(parser_.get())))));
    }
    if (!has_graph_) throw InputError(fmt::format("{}: no element <graph> in <graphml>", path_));
    return std::move(read_);
  }

 private:
  using Attributes = const XML_Char**;  // name, value, name, value, ..., null
  static constexpr std::size_t deepest = 1000;

  static void on_start(void* self, const XML_Char* tag, Attributes attributes) {
    static_cast<GraphmlParser*>(self)->start(tag, attributes);
  }
  static void on_end(void* self, const XML_Char* /*tag*/) {
    static_cast<GraphmlParser*>(self)->end();
  }
  static void on_text(void* self, const XML_Char* text, int size) {
    auto& parser = *static_cast<GraphmlParser*>(self);
    if (parser.text_ != nullptr && parser.tags_.size() == parser.text_depth_)
      parser.text_->append(text, static_cast<std::size_t>(size));
  }
  static void on_entity(void* self, const XML_Char* name, int, const XML_Char*, int,
                        const XML_Char*, const XML_Char*, const XML_Char*, const XML_Char*) {
    static_cast<GraphmlParser*>(self)->refuse(
        fmt::format("the entity '{}' is declared: declared entities are not read", name));
  }
  static void on_skipped_entity(void* self, const XML_Char* name, int) {
    static_cast<GraphmlParser*>(self)->refuse(fmt::format("the entity '{}' is not declared", name));
  }

  static std::string_view attribute(Attributes attributes, std::string_view name,
                                    std::string_view otherwise = "") {
    for (; *attributes != nullptr; attributes += 2)
      if (*attributes == name) return attributes[1];
    return otherwise;
  }

  Position position() const {
    return {static_cast<std::size_t>(XML_GetCurrentLineNumber(parser_.get())),
            static_cast<std::size_t>(XML_GetCurrentColumnNumber(parser_.get())) + 1};
  }
  std::string at_position(std::string_view what) const {
    const Position at = position();
    return fmt::format("{}:{}:{}: {}", path_, at.line, at.column, what);
  }
  /// Stops the parser; the first message is kept.
  void refuse(std::string_view what) {
    if (mistake_.empty()) mistake_ = at_position(what);
    XML_StopParser(parser_.get(), XML_FALSE);
  }

  void start(std::string_view tag, Attributes attributes) {
    const std::string parent = tags_.empty() ? "" : tags_.back();
    tags_.emplace_back(tag);
    if (tags_.size() > deepest) return refuse(fmt::format("XML nested more than {} deep", deepest));
    if (tags_.size() == 1) {
      if (tag != "graphml")
        refuse(fmt::format("the outermost element is <{}>, not <graphml>", tag.substr(0, 40)));
    } else if (tag == "graph") {
      start_graph(parent, attributes);
    } else if (tag == "key" && parent == "graphml") {
      key_ = &read_.keys[std::string(attribute(attributes, "id"))];
      *key_ = {.name = std::string(attribute(attributes, "attr.name")),
               .of = std::string(attribute(attributes, "for", "all"))};
    } else if (tag == "default" && parent == "key") {
      collect(key_->fallback.emplace());
    } else if (tag == "node" && parent == "graph") {
      read_.nodes.push_back({.at = position(), .id = std::string(attribute(attributes, "id"))});
      element_ = &read_.nodes.back();
    } else if (tag == "edge" && parent == "graph") {
      read_.edges.push_back({.at = position(),
                             .source = std::string(attribute(attributes, "source")),
                             .target = std::string(attribute(attributes, "target"))});
      element_ = &read_.edges.back();
    } else if (tag == "hyperedge" && parent == "graph") {
      refuse("a <hyperedge>: only edges with one source and one target are read");
    } else if (tag == "data" && (parent == "node" || parent == "edge")) {
      element_->data.push_back(
          {.at = position(), .key = std::string(attribute(attributes, "key"))});
      collect(element_->data.back().text);
    }
  }

  void start_graph(std::string_view parent, Attributes attributes) {
    if (parent != "graphml")
      return refuse("a <graph> inside of another: nested graphs are not read");
    if (has_graph_) return refuse("a second <graph>: one graph per file is read");
    has_graph_ = true;
    if (attribute(attributes, "edgedefault", "directed") != "directed")
      refuse(
          "the graph is undirected, but an operator graph is directed (edgedefault=\"directed\")");
  }

  /// Appends the text of the current element, without that of nested elements, to `text`.
  void collect(std::string& text) {
    text_ = &text;
    text_depth_ = tags_.size();
  }

  void end() {
    if (tags_.size() == text_depth_) text_ = nullptr;
    tags_.pop_back();
  }

  const std::string& path_;
  struct Free {
    void operator()(XML_Parser parser) const { XML_ParserFree(parser); }
  };
  std::unique_ptr<XML_ParserStruct, Free> parser_;
  Graphml read_;
  std::vector<std::string> tags_;  // of the open elements, the outermost first
  Key* key_ = nullptr;             // the latest
  Element* element_ = nullptr;     // the latest
  std::string* text_ = nullptr;    // receives the text of the element at text_depth_
  std::size_t text_depth_ = 0;
  bool has_graph_ = false;
  std::string mistake_;
};

/// Adds a parsed file to a builder.
class GraphmlReader {
 public:
  GraphmlReader(const std::string& path, OpGraphBuilder& builder)
      : path_(path), builder_(builder) {}

  std::vector<std::string> read(const Graphml& file) {
    for (const Element& node : file.nodes) read_node(node, attributes(file, node, "node"));
    for (const Element& edge : file.edges) read_edge(edge, attributes(file, edge, "edge"));
    for (const auto& [op, name] : forwards_) {
      if (const auto forward = builder_.find(name.text))
        builder_.set_forward(op, *forward);
      else
        mistake(name.at, fmt::format("forward: no node '{}'", name.text));
    }
    mistakes_.throw_if_any();
    add_tensors_and_edges();
    return {ignored_.begin(), ignored_.end()};
  }

 private:
  struct Value {
    std::string text{};
    Position at{};
  };
  using Attributes = std::map<std::string, Value>;  // by name
  struct Read {
    OpId from, to;
    std::int64_t output;
  };

  void mistake(Position at, std::string_view what) {
    constexpr std::size_t most_listed = 20;
    if (++found_ <= most_listed)
      mistakes_.add(fmt::format("{}:{}:{}: {}", path_, at.line, at.column, what));
    else if (found_ == most_listed + 1)
      mistakes_.add(fmt::format("{}: and more of the kind", path_));
  }

  Attributes attributes(const Graphml& file, const Element& element, const std::string& of) {
    Attributes values;
    for (const auto& [id, key] : file.keys)
      if (key.fallback && (key.of == of || key.of == "all"))
        values[key.name] = {*key.fallback, element.at};
    for (const Data& data : element.data) {
      const auto key = file.keys.find(data.key);
      if (key != file.keys.end())
        values[key->second.name] = {data.text, data.at};
      else
        mistake(data.at, fmt::format("data of an undeclared key '{}'", data.key));
    }
    return values;
  }

  void read_node(const Element& node, Attributes values) {
    std::string name = take(values, "name").text;
    if (name.empty()) name = node.id;
    const std::string about = fmt::format("node '{}': ", node.id);
    const Value phase = take(values, "phase");
    const auto known = phase.text.empty() ? Phase::forward : parse<Phase>(phase.text);
    if (!known) mistake(phase.at, fmt::format("{}phase: {}", about, not_one_of<Phase>(phase.text)));
    const Value compute = take(values, "compute_us");
    const auto time = from_us(number(compute, about + "compute_us"));
    if (!time) mistake(compute.at, about + "compute_us: not a time below 146 years");
    const std::string kind = take(values, "kind").text;
    const OpId op = builder_.add_op(
        {.name = name,
         .kind = kind,
         .compute = time.value_or(Duration{}),
         .persistent = bytes(take(values, "persistent_bytes"), about + "persistent_bytes"),
         .temporary = bytes(take(values, "temporary_bytes"), about + "temporary_bytes"),
         .phase = known.value_or(Phase::forward)});
    if (const auto group = take(values, "colocation").text; !group.empty())
      builder_.colocate(op, group);
    if (const auto forward = take(values, "forward"); !forward.text.empty())
      forwards_.emplace_back(op, forward);
    if (!op_of_.emplace(node.id, op).second)
      mistake(node.at, fmt::format("two nodes have the id '{}'", node.id));
    ignore(values);
  }

  void read_edge(const Element& edge, Attributes values) {
    const auto from = end_of(edge, "source", edge.source), to = end_of(edge, "target", edge.target);
    const Bytes size = bytes(take(values, "bytes"), "an edge: bytes");
    const std::int64_t output = bytes(take(values, "output"), "an edge: output").count;
    const std::string control = take(values, "control").text;
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

  std::optional<OpId> end_of(const Element& edge, const char* which, const std::string& id) {
    const auto it = op_of_.find(id);
    if (it != op_of_.end()) return it->second;
    mistake(edge.at, fmt::format("an edge's {} is '{}', but no node has that id", which, id));
    return std::nullopt;
  }

  static Value take(Attributes& from, const std::string& name) {
    const auto node = from.extract(name);
    return node.empty() ? Value{} : std::move(node.mapped());
  }

  double number(const Value& value, const std::string& what) {
    const std::string& text = value.text;
    if (text.empty()) return 0.0;
    double x = -1.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
    if (error == std::errc{} && end == text.data() + text.size() && x >= 0.0 && x < 0x1p62)
      return x;
    mistake(value.at, fmt::format("{}: '{}' is not a number >= 0", what, text.substr(0, 40)));
    return 0.0;
  }

  Bytes bytes(const Value& value, const std::string& what) {
    return {static_cast<std::int64_t>(std::ceil(number(value, what)))};
  }
  void ignore(const Attributes& rest) {
    for (const auto& [name, value] : rest) ignored_.insert(name);
  }

  /// Outputs without readers are unknown: the n-th output of an op is the n-th one that is read.
  void add_tensors_and_edges() {
    std::map<std::pair<OpId, std::int64_t>, TensorId> tensor;
    for (const auto& [output, size] : size_)
      tensor[output] = builder_.add_tensor(output.first, size);
    for (const Read& r : reads_) builder_.add_edge(tensor[{r.from, r.output}], r.to);
    for (const auto& [before, after] : controls_) builder_.add_control(before, after);
  }

  const std::string& path_;
  OpGraphBuilder& builder_;
  Mistakes mistakes_;
  std::size_t found_ = 0;  // mistakes
  std::unordered_map<std::string, OpId> op_of_;
  std::vector<std::pair<OpId, Value>> forwards_;
  std::map<std::pair<OpId, std::int64_t>, Bytes> size_;  // of each output that is read
  std::vector<Read> reads_;
  std::vector<std::pair<OpId, OpId>> controls_;
  std::set<std::string> ignored_;
};

/// `text` for XML, with control characters, which XML cannot hold, other than line breaks and tabs,
/// replaced by their Unicode control pictures (ESC is U+241B).
std::string xml_text(std::string_view text) {
  std::string fit;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code == 0x7F)
      fit += "\u2421";
    else if (code >= 0x20 || c == '\n' || c == '\t')
      fit += c == '\'' ? "&apos;" : escaped(std::string_view(&c, 1));
    else  // U+2400 is E2 90 80
      fit += {'\xE2', '\x90', static_cast<char>(0x80 + code)};
  }
  if (!fit.empty() && fit.find_first_not_of(' ') == std::string::npos) fit.replace(0, 1, "&#32;");
  return fit;
}

}  // namespace

GraphmlLosses graphml_losses(const OpGraph& graph) {
  std::size_t lanes = 0, timed = 0, modules = 0, measured = 0, references = 0, unread = 0,
              fixed = 0, caches = 0;
  for (const OpId v : graph.ops()) {
    lanes += graph.lane(v) != compute_lane ? 1U : 0U;
    timed += graph.op(v).compute > Duration{} ? 1U : 0U;
    modules += graph.module(v).empty() ? 0U : 1U;
    caches += graph.cache(v) > Bytes{} ? 1U : 0U;
  }
  for (const TensorId t : graph.tensors()) {
    measured += graph.measured_transfer(t) ? 1U : 0U;
    references += graph.tensor(t).reference ? 1U : 0U;
    unread += graph.readers(t).empty() ? 1U : 0U;
    fixed += graph.tensor(t).fixed_size ? 1U : 0U;
  }
  GraphmlLosses losses;
  const auto lose = [](std::vector<std::string>& list, std::size_t count, std::string_view what) {
    if (count > 0) list.push_back(fmt::format("{} {}", count, what));
  };
  const std::size_t work = graph.has_work() ? graph.num_ops() : 0;
  lose(losses.of_step, lanes, "ops in lanes other than 'compute'");
  lose(losses.of_step, graph.collectives().size(), "collectives");
  lose(losses.of_step, measured, "measured transfer times");
  lose(losses.of_step, references, "outputs whose memory is counted elsewhere (reference)");
  lose(losses.of_step, graph.device_kinds().size() > 1 ? graph.device_kinds().size() - 1 : 0,
       "further device types with times of their own");
  if (timed == 0) lose(losses.of_step, work, "ops with work, from which their times follow");
  if (timed > 0) lose(losses.others, work, "ops with work (kernels)");
  lose(losses.others, unread, "outputs that no op reads, with their memory");
  lose(losses.others, modules, "ops with modules");
  lose(losses.others, fixed, "outputs of fixed size");
  lose(losses.others, caches, "caches, but as weights");
  lose(losses.others, graph.device_kinds().size() == 1 ? 1 : 0, "device type of its times");
  return losses;
}

std::string to_graphml(const OpGraph& graph) {
  std::string out =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<graphml "
      "xmlns=\"http://graphml.graphdrawing.org/xmlns\" "
      "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
      "xsi:schemaLocation=\"http://graphml.graphdrawing.org/xmlns "
      "http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd\">\n";
  constexpr std::array<std::array<std::string_view, 3>, 11> keys{
      {{"edge", "bytes", "long"},
       {"node", "colocation", "string"},
       {"node", "compute_us", "double"},
       {"edge", "control", "boolean"},
       {"node", "forward", "string"},
       {"node", "kind", "string"},
       {"node", "name", "string"},
       {"edge", "output", "long"},
       {"node", "persistent_bytes", "long"},
       {"node", "phase", "string"},
       {"node", "temporary_bytes", "long"}}};
  for (std::size_t k = 0; k < keys.size(); ++k)
    out += fmt::format("  <key id=\"key{}\" for=\"{}\" attr.name=\"{}\" attr.type=\"{}\" />\n", k,
                       keys[k][0], keys[k][1], keys[k][2]);
  out +=
      "  <graph id=\"G\" edgedefault=\"directed\" parse.nodeids=\"canonical\" "
      "parse.edgeids=\"canonical\" parse.order=\"nodesfirst\">\n";
  const auto data = [&](int key, const auto& value) {
    out += fmt::format("      <data key=\"key{}\">{}</data>\n", key, value);
  };
  for (const OpId v : graph.ops()) {
    const Op& op = graph.op(v);
    out += fmt::format("    <node id=\"n{}\">\n", index(v));
    data(1, op.group == no_group ? "" : xml_text(graph.group_name(op.group)));
    data(2, fmt::format("{:g}", to_us(graph.compute(v, 0).value_or(Duration{}))));
    data(4, op.forward == no_op ? "" : xml_text(graph.name(op.forward)));
    data(5, xml_text(graph.kind(v)));
    data(6, xml_text(graph.name(v)));
    data(8, op.persistent.count);
    data(9, to_text(op.phase));
    data(10, op.temporary.count);
    out += "    </node>\n";
  }
  for (const EdgeId e : graph.edges()) {
    const auto& [src, dst, t] = graph.edge(e);
    out += fmt::format("    <edge id=\"e{}\" source=\"n{}\" target=\"n{}\">\n", index(e),
                       index(src), index(dst));
    data(0, graph.tensor(t).size.count);
    data(3, graph.tensor(t).control ? 1 : 0);
    data(7, index(t) - index(*graph.outputs(src).begin()));
    out += "    </edge>\n";
  }
  return out + "  </graph>\n</graphml>\n";
}

std::vector<std::string> read_graphml(const std::string& text, const std::string& path,
                                      OpGraphBuilder& builder) {
  return GraphmlReader(path, builder).read(GraphmlParser(path).parse(text));
}

}  // namespace baechi
