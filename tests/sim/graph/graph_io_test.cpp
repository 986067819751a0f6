#include "sim/graph/graph_io.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dag_shortest_paths.hpp>
#include <boost/graph/strong_components.hpp>
#include <boost/graph/topological_sort.hpp>
#include <numeric>

#include "sim/error.h"
#include "sim/graph/analysis.h"
#include "sim/random.h"
#include "tests/prelude.h"

namespace {

/// Ops added in a random order, one tensor each, edges with probability `density`.
OpGraph random_dag(std::uint64_t seed, std::uint32_t ops, double density) {
  Random random(seed);
  OpGraphBuilder b;
  std::vector<std::uint32_t> rank(ops);
  std::iota(rank.begin(), rank.end(), 0U);
  for (std::uint32_t i = ops; i > 1; --i) std::swap(rank[i - 1], rank[random.below(i)]);
  std::vector<TensorId> output;
  for (std::uint32_t i = 0; i < ops; ++i) {
    const OpId v = b.add_op({.name = fmt::format("v{}", i), .compute = Duration{random.below(99)}});
    output.push_back(b.add_tensor(v, {random.below(1000)}));
  }
  for (std::uint32_t i = 0; i < ops; ++i) {
    for (std::uint32_t j = 0; j < ops; ++j)
      if (rank[i] < rank[j] && random.uniform() < density)
        b.add_edge(output[i], static_cast<OpId>(j));
  }
  return std::move(b).build();
}

using BoostGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property,
                          boost::property<boost::edge_weight_t, std::int64_t>>;
/// An edge weighs the negated time of the op that it enters, so that the shortest path is the
/// longest.
BoostGraph for_boost(const OpGraph& g) {
  BoostGraph copy(g.num_ops());
  for (const EdgeId e : g.edges())
    add_edge(index(g.edge(e).src), index(g.edge(e).dst), -g.op(g.edge(e).dst).compute.count(),
             copy);
  return copy;
}

/// The longest path of op times: a source's own time plus that of each op entered.
Duration longest_path_by_boost(const OpGraph& g, const BoostGraph& copy) {
  Duration longest{};
  for (const OpId source : g.ops()) {
    if (!g.in_edges(source).empty()) continue;
    std::vector<std::int64_t> distance(g.num_ops());
    boost::dag_shortest_paths(
        copy, index(source),
        boost::distance_map(distance.data()).distance_inf(std::int64_t{1} << 50));
    for (const std::int64_t d : distance)
      if (d <= 0) longest = std::max(longest, g.op(source).compute - Duration{d});
  }
  return longest;
}

OpGraph read_back(const OpGraph& g) {
  OpGraphBuilder b;
  CHECK(read_graphml(to_graphml(g), "g.graphml", b).empty());
  return std::move(b).build();
}
std::string round_trip(const OpGraph& g) { return to_graphml(read_back(g)); }

std::string graphml_error(const std::string& text) {
  OpGraphBuilder b;
  return message<InputError>([&] { read_graphml(text, "g.graphml", b); });
}

}  // namespace

TEST_SUITE_BEGIN("graph_io");
TEST_CASE("our topological ids and critical path agree with Boost's algorithms") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const OpGraph g = random_dag(seed, 1 + random.below(60), 0.02 + 0.2 * random.uniform());
    const BoostGraph copy = for_boost(g);
    std::vector<std::size_t> order;  // reverse topological
    boost::topological_sort(copy, std::back_inserter(order));
    CHECK(order.size() == g.num_ops());
    for (const EdgeId e : g.edges()) CHECK(g.edge(e).src < g.edge(e).dst);
    CHECK(critical_path(g) == longest_path_by_boost(g, copy));
    std::vector<int> component(g.num_ops());
    CHECK(std::cmp_equal(boost::strong_components(copy, component.data()), g.num_ops()));
  }
}

TEST_CASE("ids keep insertion order: of the ready ops the first added comes first") {
  // By Kahn's algorithm the least name among the ready ones is the next id.
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const OpGraph g = random_dag(seed, 40, 0.1);
    std::set<std::pair<int, OpId>> ready;
    IdVector<OpId, std::size_t> unmet(g.num_ops());
    const auto added = [&](OpId v) { return std::stoi(std::string(g.name(v).substr(1))); };
    for (const OpId v : g.ops())
      if ((unmet[v] = g.in_edges(v).size()) == 0) ready.emplace(added(v), v);
    for (const OpId v : g.ops()) {
      REQUIRE(!ready.empty());
      CHECK(ready.begin()->second == v);
      ready.erase(ready.begin());
      for (const EdgeId e : g.out_edges(v)) {
        const OpId reader = g.edge(e).dst;
        if (--unmet[reader] == 0) ready.emplace(added(reader), reader);
      }
    }
  }
}

TEST_CASE("GraphML that is written reads back as the same graph") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const OpGraph g = random_dag(seed, 20, 0.15);
    CHECK(round_trip(g) == to_graphml(g));
  }
  OpGraphBuilder b;
  const OpId a = b.add_op(
      {.name = "a & <b>", .kind = "\"x\"", .compute = 1500ns, .persistent = 7_B, .temporary = 8_B});
  const OpId c = b.add_op({.name = "c", .phase = Phase::backward});
  b.set_forward(c, a);
  b.colocate(a, "g");
  b.colocate(c, "g");
  b.add_edge(b.add_tensor(a, 5_B), c);
  b.add_edge(b.add_tensor(a, 6_B), c);
  b.add_control(a, c);
  const OpGraph g = std::move(b).build();
  CHECK(round_trip(g) == to_graphml(g));
  const OpGraph h = read_back(g);
  CHECK(h.name(OpId{0}) == "a & <b>");
  CHECK(h.op(OpId{0}).compute == 1500ns);
  CHECK(h.op(OpId{0}).temporary == 8_B);
  CHECK(h.op(OpId{1}).forward == OpId{0});
  CHECK(h.num_groups() == 1);
  CHECK(h.num_tensors() == 3);
  CHECK(h.tensor(TensorId{2}).control);
}

// XML has no ESC: its control picture replaces it, also where another op names this one.
TEST_CASE("GraphML of names with control characters can be read") {
  OpGraphBuilder b;
  const OpId a = b.add_op({.name = "a\x1b[31m", .kind = "k\x01"});
  const OpId c = b.add_op({.name = "c\x7f", .phase = Phase::backward});
  b.set_forward(c, a);
  b.add_edge(b.add_tensor(a, 5_B), c);
  const OpGraph g = std::move(b).build();
  CHECK(round_trip(g) == to_graphml(g));
  const OpGraph h = read_back(g);
  CHECK(h.name(OpId{0}) == "a\u241b[31m");
  CHECK(h.name(OpId{1}) == "c\u2421");
  CHECK(h.op(OpId{1}).forward == OpId{0});
}

TEST_CASE("GraphML as NetworkX writes it: ids are names, defaults apply, the rest is reported") {
  OpGraphBuilder b;
  const auto ignored = read_graphml(R"(<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <key id="d2" for="edge" attr.name="bytes" attr.type="long"><default>3</default></key>
  <key id="d1" for="node" attr.name="weight" attr.type="double"/>
  <key id="d0" for="node" attr.name="compute_us" attr.type="double"/>
  <graph edgedefault="directed">
    <node id="conv 1"><data key="d0">2.5</data><data key="d1">1.0</data></node>
    <node id="conv 2"/>
    <node id="conv 3"/>
    <edge source="conv 1" target="conv 2"><data key="d2">10</data></edge>
    <edge source="conv 1" target="conv 3"/>
  </graph>
</graphml>)",
                                    "n.graphml", b);
  CHECK(ignored == std::vector<std::string>{"weight"});
  const OpGraph g = std::move(b).build();
  CHECK(g.name(OpId{0}) == "conv 1");
  CHECK(g.op(OpId{0}).compute == 2500ns);
  CHECK(g.num_edges() == 2);
  REQUIRE(g.num_tensors() == 1);  // read twice
  CHECK(g.tensor(TensorId{0}).size == 10_B);
}

TEST_CASE("deeply nested XML is rejected, also after what only looks like an end") {
  // A comment, a CDATA section and an attribute each hold a "</a>" that ends nothing.
  for (const char* open : {"<a>", "<a><!-- </a> -->", "<a><![CDATA[</a>]]>", "<a x='</a>'>"}) {
    CAPTURE(open);
    std::string deep = "<graphml>";
    for (int i = 0; i < 200'000; ++i) deep += open;
    const bool attribute = holds(std::string_view(open), "x=");
    const std::string text = graphml_error(deep);
    if (attribute)  // "<" may not stand in an attribute
      CHECK(text == "g.graphml:1:16: not XML: not well-formed (invalid token)");
    else
      CHECK(text.ends_with(": XML nested more than 1000 deep"));
  }
  // <graphml> is the first; of "<a>" at columns 10, 13, ... the 1000th is the 1001st element.
  std::string deep = "<graphml>";
  for (int i = 0; i < 2000; ++i) deep += "<a>";
  CHECK(graphml_error(deep) == "g.graphml:1:3007: XML nested more than 1000 deep");
}

TEST_CASE("GraphML that is no operator graph is rejected with line and column") {
  const auto graph = [](const std::string& inside) {
    return "<graphml>\n<graph edgedefault=\"directed\">\n" + inside + "</graph></graphml>";
  };
  CHECK(graphml_error("") == "g.graphml:1:1: not XML: no element found");
  CHECK(graphml_error("<gexf/>") ==
        "g.graphml:1:1: the outermost element is <gexf>, not <graphml>");
  CHECK(graphml_error("<graphml/>") == "g.graphml: no element <graph> in <graphml>");
  CHECK(graphml_error(graph("<node id='a'><graph><node id='b'/></graph></node>")) ==
        "g.graphml:3:14: a <graph> inside of another: nested graphs are not read");
  CHECK(graphml_error("<graphml><graph/>\n<graph/></graphml>") ==
        "g.graphml:2:1: a second <graph>: one graph per file is read");
  CHECK(graphml_error(graph("<hyperedge/>")) ==
        "g.graphml:3:1: a <hyperedge>: only edges with one source and one target are read");
  CHECK(graphml_error(graph("<node id='a&nbsp;b'/>")) ==
        "g.graphml:3:1: not XML: undefined entity");
  CHECK(graphml_error("<!DOCTYPE graphml [<!ENTITY x \"y\">]>" + graph("<node id='&x;'/>"))
            .ends_with("the entity 'x' is declared: declared entities are not read"));
  CHECK(graphml_error(graph("<node id='\xff'/>")) ==
        "g.graphml:3:11: not XML: not well-formed (invalid token)");
  CHECK(graphml_error(graph("<node id='a'/>\n<node id='a'/>")) ==
        "g.graphml:4:1: two nodes have the id 'a'");
}

TEST_CASE("text in CDATA and in pieces is one value; text of inner elements is ignored") {
  OpGraphBuilder b;
  read_graphml(R"(<graphml><key id="d0" for="node" attr.name="name"/>
<key id="d1" for="node" attr.name="kind"/>
<graph><node id="n"><data key="d0">a &amp; <![CDATA[<b>]]></data>
<data key="d1">x<y:Shape xmlns:y="y">inner</y:Shape>y</data></node></graph></graphml>)",
               "g.graphml", b);
  const OpGraph g = std::move(b).build();
  CHECK(g.name(OpId{0}) == "a & <b>");
  CHECK(g.kind(OpId{0}) == "xy");
}

TEST_CASE("a long cycle is named by its beginning") {
  OpGraphBuilder b;
  for (std::uint32_t i = 0; i < 100; ++i) b.add_op({.name = fmt::format("v{}", i)});
  for (std::uint32_t i = 0; i < 100; ++i)
    b.add_edge(b.add_tensor(OpId{i}, 1_B), OpId{(i + 1) % 100});
  std::string names;
  for (int i = 0; i < 20; ++i) names += fmt::format("v{} -> ", i);
  CHECK_REFUSED(std::move(b).build(),
                fmt::format("graph: a cycle: {}(80 more) -> v0", names).c_str());
}

TEST_CASE("Graphviz: a node per op, coloured by device") {
  const std::string dot = to_dot(one_tensor_two_readers(), on({gpu0, gpu1, gpu0}).device);
  CHECK(dot ==
        "digraph ops {\n"
        "  node [shape=box, style=filled, fillcolor=white];\n"
        "  n0 [label=\"a\\n 10 ns\", fillcolor=\"#8dd3c7\"];\n"
        "  n1 [label=\"b\\n 20 ns\", fillcolor=\"#ffffb3\"];\n"
        "  n2 [label=\"c\\n 30 ns\", fillcolor=\"#8dd3c7\"];\n"
        "  n0 -> n1 [label=\"100 B\"];\n"
        "  n0 -> n2 [label=\"100 B\"];\n"
        "}\n");
  CHECK_FALSE(holds(to_dot(one_tensor_two_readers()), "#8dd3c7"));
}

TEST_CASE("Graphviz of a large graph: a node per layer and device, of layers where too many") {
  const auto nodes = [](const std::string& dot) {
    std::size_t n = 0;
    for (auto at = dot.find(" [label="); at != std::string::npos; at = dot.find(" [label=", at + 1))
      n += dot.compare(dot.rfind('\n', at) + 3, 1, "n") == 0 &&
                   !holds(dot.substr(dot.rfind('\n', at), at - dot.rfind('\n', at)), "->")
               ? 1U
               : 0U;
    return n;
  };
  // 3 layers of 1000 ops; op i of a layer reads op i of the layer before.
  OpGraphBuilder wide;
  std::vector<TensorId> before;
  for (std::uint32_t i = 0; i < 3000; ++i) {
    const OpId v = wide.add_op({.name = fmt::format("v{}", i), .compute = 1ns});
    if (i >= 1000) wide.add_edge(before[i - 1000], v);
    before.push_back(wide.add_tensor(v, 1_B));
  }
  const OpGraph g = std::move(wide).build();
  const std::string dot = to_dot(g);
  CHECK(nodes(dot) == 3);
  CHECK(holds(dot, "label=\"layer 1\\n1000 ops, 1.000 us\""));
  CHECK(holds(dot, "n0 -> n1 [label=\"1000 B\"]"));
  IdVector<OpId, DeviceId> device(3000);
  for (const OpId v : g.ops()) device[v] = DeviceId{static_cast<std::uint32_t>(index(v) % 2)};
  CHECK(nodes(to_dot(g, device)) == 6);
  // A chain of 5000 layers is drawn as 2000 nodes.
  OpGraphBuilder chain;
  for (std::uint32_t i = 0; i < 5000; ++i) {
    const OpId v = chain.add_op({.name = fmt::format("v{}", i)});
    if (i > 0) chain.add_edge(static_cast<TensorId>(i - 1), v);
    chain.add_tensor(v, 1_B);
  }
  CHECK(nodes(to_dot(std::move(chain).build())) == 2000);
}
