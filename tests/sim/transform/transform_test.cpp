
#include "sim/graph/analysis.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"
#include "tests/sim/transform/transforms.h"

namespace {

/// Graphs for the contract: none, one op, small ones, random ones.
std::vector<OpGraph> many_graphs() {
  std::vector<OpGraph> graphs;
  graphs.push_back(OpGraphBuilder().build());
  graphs.push_back(graph_of("only3,w5"));
  graphs.push_back(one_tensor_two_readers());
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    graphs.push_back(random_graph({.ops = 1 + random.below(40), .reach = 8}, random));
    graphs.push_back(training_graph(1 + random.below(20), random));
  }
  return graphs;
}

/// Only a transform of the model may add ops without a counterpart in the input.
void check_result(const OpGraph& graph, const Transformed& result, TransformUse use) {
  REQUIRE(result.mapped_op.size() == graph.num_ops());
  std::set<OpId> used;
  for (const OpId v : result.mapped_op) {
    if (v == no_op) continue;
    REQUIRE(index(v) < result.graph.num_ops());
    used.insert(v);
  }
  if (use != TransformUse::model) CHECK(used.size() == result.graph.num_ops());
  for (const EdgeId e : result.graph.edges())
    CHECK(result.graph.edge(e).src < result.graph.edge(e).dst);
}

/// Any placement of the result that keeps its groups whole keeps those of the input whole.
void check_expansion(const OpGraph& graph, const Transformed& result, Random& random) {
  const Placement p = random_placement(result.graph, gpus(4), random);
  for (const GroupId g : graph.groups()) {
    std::set<DeviceId> devices;
    for (const OpId v : graph.members(g))
      if (result.mapped_op[v] != no_op) devices.insert(p.device[result.mapped_op[v]]);
    CHECK(devices.size() <= 1);
  }
}

/// Ops a, b, c, ... with edges "ab", "bc" of 10 bytes each and all in one group; `lone` are not.
OpGraph lettered(std::initializer_list<std::string_view> edges, std::string_view lone = "") {
  OpGraphBuilder g;
  char last = 'a';
  for (const std::string_view e : edges) last = std::max({last, e[0], e[1]});
  for (char c = 'a'; c <= last; ++c) {
    const OpId v = g.add_op({.name = std::string(1, c), .compute = 1ns, .temporary = 1_B});
    if (lone.find(c) == lone.npos) g.colocate(v, "group");
  }
  for (const std::string_view e : edges)
    g.add_edge(g.add_tensor(OpId{static_cast<std::uint32_t>(e[0] - 'a')}, 10_B),
               OpId{static_cast<std::uint32_t>(e[1] - 'a')});
  return std::move(g).build();
}

/// Whether `to` can be reached from `from`; with `indirect`, by way of another op.
bool has_path(const OpGraph& g, OpId from, OpId to, bool indirect) {
  std::vector<OpId> open{from};
  std::set<OpId> seen;
  while (!open.empty()) {
    const OpId v = open.back();
    open.pop_back();
    for (const EdgeId e : g.out_edges(v)) {
      const OpId w = g.edge(e).dst;
      if (w == to && !(indirect && v == from)) return true;
      if (w != to && seen.insert(w).second) open.push_back(w);
    }
  }
  return false;
}

std::size_t num_neighbours(const OpGraph& g, OpId v, bool out) {
  std::set<OpId> found;
  if (out) {
    for (const EdgeId e : g.out_edges(v)) found.insert(g.edge(e).dst);
  } else {
    found.insert(g.predecessors(v).begin(), g.predecessors(v).end());
  }
  return found.size();
}

}  // namespace

TEST_SUITE_BEGIN("transforms");
TEST_CASE("every transform is pure, maps all ops and keeps groups together") {
  const std::vector<OpGraph> graphs = many_graphs();
  Random random(1);
  for (const TransformEntry& entry : transforms()) {
    CAPTURE(entry.name);
    const auto made = transform(std::string(entry.name));
    std::size_t refused = 0;
    for (const OpGraph& graph : graphs) {
      const std::string before = text(graph);
      Transformed result;
      try {
        result = made->apply(graph);
      } catch (const InputError& e) {  // a graph may lack what it works on
        CHECK(std::string(e.what()).starts_with(fmt::format("{}: ", entry.name)));
        ++refused;
        continue;
      }
      check_result(graph, result, entry.use);
      check_expansion(graph, result, random);
      const Transformed again = made->apply(graph);
      CHECK(text(again.graph) == text(result.graph));
      CHECK(again.mapped_op == result.mapped_op);
      CHECK(again.needs == result.needs);
      CHECK(text(graph) == before);
    }
    CHECK(refused < graphs.size());
  }
}

TEST_CASE("every transform rejects unknown options") {
  for (const TransformEntry& entry : transforms()) {
    const std::string name(entry.name);
    CHECK(message<InputError>([&] {
            transform(name, {{"no_such_option", "1"}});
          }).starts_with(fmt::format("x.yaml:1:2: {} has no option 'no_such_option'", entry.name)));
  }
  CHECK(message<InputError>([] {
          transform("fuze");
        }).starts_with("no transform 'fuze' (did you mean 'fuse'?) (transforms: "));
}

TEST_CASE("the README has a row for every transform") {
  std::ifstream file(source_dir() + "/sim/transform/README.md");
  std::stringstream readme;
  readme << file.rdbuf();
  for (const TransformEntry& entry : transforms()) {
    CAPTURE(entry.name);
    CHECK(holds(readme.str(), fmt::format("\n| `{}`", entry.name)));
  }
}

TEST_CASE("composition: ids map from the first graph to the last") {
  // Pruned: a b d, co-placed: all together, fused: one op, which stands for none of the pruned.
  const OpGraph graph = graph_of("a1 -1> b1; c1; b -1> d1");
  const Transformed result =
      then(then(apply("prune", graph), *transform("coplace")), *transform("fuse"));
  CHECK(leaders(graph, result) == "a a - a");
  CHECK(result.graph.op(OpId{0}).compute == 3ns);
}

TEST_CASE("of two needs the larger applies") {
  struct Needing final : Transform {
    Needing(Bytes n, std::string w) : needs(n), why(std::move(w)) {}
    Transformed apply(const OpGraph& graph) const override {
      Transformed result = same_ops(graph);
      result.needs = needs;
      result.needs_why = why;
      return result;
    }
    Bytes needs;
    std::string why;
  };
  const OpGraph graph = one_tensor_two_readers();
  const Needing small(5_B, "small"), large(7_B, "large");
  CHECK(then(small.apply(graph), large).needs_why == "large");
  CHECK(then(large.apply(graph), small).needs_why == "large");
  CHECK(then(large.apply(graph), small).needs == 7_B);
}

TEST_SUITE_BEGIN("coplace");
TEST_CASE("an op that one other reads joins it; with two readers it stays") {
  CHECK(groups(apply("coplace", lettered({"ab", "ac", "bd", "cd"}, "abcd")).graph) ==
        "- b b b");  // b and c go with d; a has two readers; the least name is b
  CHECK(groups(apply("coplace", lettered({"ab", "ab"}, "ab")).graph) == "a a");
}

TEST_CASE("existing groups are merged, under the shortest name") {
  CHECK(groups(apply("coplace", graph_of("a0,c:xx -1> b0,c:y; c0; d0,c:xx")).graph) == "y y - y");
}

TEST_CASE("control edges count as readers, or do not") {
  const OpGraph graph = graph_of("a0 -1> b0; a ~> c0");
  CHECK(groups(apply("coplace", graph).graph) == "- - -");
  CHECK(groups(apply("coplace", graph, {{"control_edges", "false"}}).graph) == "a a -");
}

TEST_SUITE_BEGIN("fuse");
TEST_CASE("a fused op takes the sums, its workspace what is live inside") {
  // a -t0(100)-> b -t1(10)-> c, a and b in one group, with t2(7) that nobody reads.
  // Running a: t0 is made, 100 + 5. Running b: t0 and t2 live beside 1: 108.
  OpGraphBuilder g;
  const OpId a = g.add_op({.name = "a", .kind = "A", .persistent = 3_B, .temporary = 5_B});
  const OpId b = g.add_op({.name = "b", .kind = "B", .persistent = 4_B, .temporary = 1_B});
  const OpId c = g.add_op({.name = "c", .kind = "C"});
  g.add_edge(g.add_tensor(a, 100_B), b);
  const TensorId t1 = g.add_tensor(b, 10_B);
  g.set_transfer(t1, 17ns);
  g.add_edge(t1, c);
  g.add_tensor(b, 7_B);
  for (const OpId v : {a, b}) {
    g.set_compute(v, "slow", 20ns);
    g.set_compute(v, "fast", 2ns);
    g.add_kernel(v, {.flops = 50, .traffic = 6_B});
    g.colocate(v, "g");
  }
  g.set_compute(c, "slow", 1ns);
  g.set_compute(c, "fast", std::nullopt);
  const OpGraph graph = std::move(g).build();

  const OpGraph fused = apply("fuse", graph).graph;
  REQUIRE(fused.num_ops() == 2);
  const OpId f{0};
  CHECK(fused.name(f) == "a");
  CHECK(fused.kind(f) == "A");
  CHECK(fused.compute(f, 0) == 40ns);
  CHECK(fused.compute(f, 1) == 4ns);
  CHECK_FALSE(fused.compute(OpId{1}, 1));
  CHECK(fused.op(f).persistent == 7_B);
  CHECK(fused.op(f).temporary == 108_B);
  CHECK(fused.work(f) == OpWork{.flops = 100, .traffic = 12_B});
  CHECK(fused.group_name(fused.op(f).group) == "g");
  REQUIRE(fused.outputs(f).size() == 1);
  CHECK(fused.tensor(TensorId{0}).size == 10_B);
  CHECK(fused.measured_transfer(TensorId{0}) == 17ns);
  // As the original: the largest workspace, as if nothing passed inside.
  CHECK(apply("fuse", graph, {{"compat", "true"}}).graph.op(f).temporary == 5_B);
}

TEST_CASE("a pair with neighbours on both sides is rejected, or its other path is searched") {
  // a -> b, with a -> c and d -> b outside the group: no other path.
  const OpGraph apart = lettered({"ab", "ac", "db"}, "cd");
  CHECK(leaders(apart, apply("fuse", apart)) == "a c d b");
  CHECK(leaders(apart, apply("fuse", apart, {{"disjoint_paths", "true"}})) == "a c d a");
}

TEST_CASE("a pair that closes a cycle is fused only with allow_cycle, and then rejected") {
  // a -> x -> b parallel to a -> b: x is outside the group.
  const OpGraph graph = lettered({"ab", "ac", "cb"}, "c");
  for (const char* disjoint : {"false", "true"})
    CHECK(apply("fuse", graph, {{"disjoint_paths", disjoint}}).graph.num_ops() == 3);
  CHECK_REFUSED(
      apply("fuse", graph, {{"allow_cycle", "true"}}),
      "fuse.allow_cycle: fusing every pair leads to a cycle (graph: a cycle: a -> c -> a)");
}

TEST_CASE("a rejected pair is retried; the original does not (Q24)") {
  // (a,b) comes first and is refused: c lies between. Then c goes into a, and nothing does.
  const OpGraph graph = lettered({"ab", "ac", "cb"});
  CHECK(leaders(graph, apply("fuse", graph)) == "a a a");
  for (const char* option : {"requeue", "compat"})
    CHECK(leaders(graph, apply("fuse", graph, {{option, *option == 'c' ? "true" : "false"}})) ==
          "a a b");
}

TEST_CASE("thousands of random graphs: no cycle, nothing lost, nothing left to fuse") {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const OpGraph graph = random.below(2) == 0
                              ? random_graph({.ops = 2 + random.below(30), .reach = 6}, random)
                              : training_graph(1 + random.below(12), random);
    const OpGraph grouped = random.below(2) == 0 ? apply("coplace", graph).graph : graph;
    const bool disjoint = random.below(2) == 0;
    const Transformed result =
        apply("fuse", grouped, {{"disjoint_paths", disjoint ? "true" : "false"}});
    check_result(grouped, result, TransformUse::placing);
    check_expansion(graph, result, random);
    CHECK(step_totals(result.graph) == step_totals(graph));
    for (const OpId v : grouped.ops()) {
      const OpId s = result.mapped_op[v];
      const auto name = [](const OpGraph& g, OpId op) {
        return g.op(op).group == no_group ? std::string() : g.group_name(g.op(op).group);
      };
      CHECK(name(result.graph, s) == name(grouped, v));
    }
    const OpGraph& fused = result.graph;
    for (const EdgeId e : fused.edges()) {
      const auto [a, b, tensor] = fused.edge(e);
      if (fused.op(a).group == no_group || fused.op(a).group != fused.op(b).group) continue;
      CHECK(num_neighbours(fused, a, true) > 1);
      CHECK(num_neighbours(fused, b, false) > 1);
      if (disjoint) CHECK(has_path(fused, a, b, true));
    }
    for (const EdgeId e : grouped.edges()) {
      const OpId src = result.mapped_op[grouped.edge(e).src];
      const OpId dst = result.mapped_op[grouped.edge(e).dst];
      if (src != dst) CHECK(has_path(fused, src, dst, false));
    }
  }
}

TEST_CASE("a fused op has the peak memory of its ops on one device") {
  // All in one group, so that disjoint paths leave one op per connected part.
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const OpGraph graph = training_graph(1 + random.below(12), random);
    const OpGraph together = graph.with_groups(IdVector<OpId, GroupId>(graph.num_ops(), GroupId{1}),
                                               std::vector<std::string>{"all"});
    const OpGraph fused = apply("fuse", together, {{"disjoint_paths", "true"}}).graph;
    if (fused.num_ops() > 1) continue;
    CHECK(footprint(fused, OpId{0}) == one_device_peak(graph));
  }
}
