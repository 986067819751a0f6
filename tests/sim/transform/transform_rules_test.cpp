#include "tests/prelude.h"
#include "tests/sim/transform/transforms.h"

TEST_SUITE_BEGIN("colocate");
// w (variable), read, loss, backward, Adam: update reads w, its slots m and v, and beta, which
// all updates share.
static OpGraph adam() {
  OpGraphBuilder g;
  const auto variable = [&](const char* name, Bytes size) {
    return g.add_op({.name = name, .kind = "VariableV2", .persistent = size});
  };
  std::vector<OpId> updates;
  const OpId beta = variable("beta", 4_B);
  const TensorId beta_out = g.add_tensor(beta, 4_B);
  for (const char* layer : {"1", "2"}) {
    const std::string n(layer);
    const OpId w = variable(("w" + n).c_str(), 100_B);
    const OpId m = variable(("m" + n).c_str(), 100_B);
    const OpId v = variable(("v" + n).c_str(), 100_B);
    const OpId read = g.add_op({.name = "read" + n, .kind = "Identity"});
    const OpId layer_op = g.add_op({.name = "layer" + n, .kind = "MatMul"});
    const OpId grad = g.add_op({.name = "grad" + n, .kind = "MatMul", .phase = Phase::backward});
    const OpId update =
        g.add_op({.name = "update" + n, .kind = "ApplyAdam", .phase = Phase::update});
    g.set_forward(grad, layer_op);
    const TensorId w_out = g.add_tensor(w, 100_B);
    g.add_edge(w_out, read);
    g.add_edge(g.add_tensor(read, 100_B), layer_op);
    g.add_edge(g.add_tensor(layer_op, 10_B), grad);
    for (const TensorId t : {w_out, g.add_tensor(m, 100_B), g.add_tensor(v, 100_B), beta_out,
                             g.add_tensor(grad, 100_B)})
      g.add_edge(t, update);
  }
  return std::move(g).build();
}

TEST_CASE("weights, slots, reads and updates go together, gradients with their forward op") {
  const OpGraph graph = adam();
  CHECK(groups(apply("colocate", graph).graph) ==
        "- m1 m1 m1 m1 grad1 grad1 m1 m2 m2 m2 m2 grad2 grad2 m2");
  CHECK(groups(apply("colocate", graph, {{"gradients", "false"}}).graph) ==
        "- m1 m1 m1 m1 - - m1 m2 m2 m2 m2 - - m2");
  CHECK(groups(apply("colocate", graph, {{"variables", "false"}}).graph) ==
        "- - - - - grad1 grad1 - - - - - grad2 grad2 -");
}

TEST_CASE("an op that is in a group is joined to no other; one that is not joins groups") {
  const OpGraph graph = graph_of("f0=0; f1=0,c:stated; g0=0,b:f0,c:stated; g1=0,b:f0");
  CHECK(groups(apply("colocate", graph).graph) == "f0 stated stated f0");
}

TEST_CASE("without variables of its own an update goes with the layer whose gradient it reads") {
  CHECK(groups(apply("colocate", graph_of("layer0,w9 -1> grad0,b:layer -9> update0,u")).graph) ==
        "grad grad grad");
}

TEST_SUITE_BEGIN("forward_only");
// f0 -> f1 -> g1 -> g0, sum reads g0 and g1 (more of g1), step waits for sum. g0, g1
// differentiate f0, f1; sum and step nothing.
static OpGraph chain() {
  return graph_of(
      "f0=1,w10 -t100> f1=2,w20 -50> g1=4,t5,b:f1 -d40> g0=8,t5,b:f0; f0 -t> g0; "
      "g0 -30> sum16,t5,u; g1 -d> sum ~> step32,t5,u");
}

TEST_CASE("backward ops go with their forward op, the others with their largest input") {
  const OpGraph graph = chain();
  const Transformed result = apply("forward_only", graph);
  CHECK(leaders(graph, result) == "f0 f1 f1 f0 f1 f1");
  CHECK(step_totals(result.graph) == Totals{.compute = 3ns, .persistent = 30_B});
  REQUIRE(result.graph.num_edges() == 1);
  CHECK(result.graph.num_tensors() == 2);  // f1's output stays, though nobody reads it now
}

TEST_CASE("with 'count: all' the placer sees the time and workspace of following ops") {
  const OpGraph graph = chain();
  const OpGraph counted = apply("forward_only", graph, {{"count", "all"}}).graph;
  CHECK(step_totals(counted) == step_totals(graph));
  CHECK(counted.op(OpId{0}).compute == 9ns);
  CHECK(counted.op(OpId{1}).compute == 54ns);
  CHECK(counted.op(OpId{1}).temporary == 5_B);
}

TEST_CASE("the whole model must fit one device, unless forced") {
  // Weights 30; t0 100 and f1's 50; g1 runs: 30 + 100 + 50 + 40 + 5.
  const Transformed result = apply("forward_only", chain());
  CHECK(result.needs == 225_B);
  CHECK(result.needs_why ==
        "forward_only is for models that fit on one device, and this one needs 225 B there; "
        "'force: true' places it anyway");
  CHECK(apply("forward_only", chain(), {{"force", "true"}}).needs == 0_B);
  CHECK(apply("forward_only", one_tensor_two_readers()).needs == 0_B);  // nothing is hidden
}

TEST_CASE("a group goes with its forward op, or as one where its first member goes") {
  const OpGraph graph = graph_of(  // the group "back" has no forward op
      "f0=0; f1=0,c:both; b0=0,b:f0,c:back; b1=0,b:f1,c:back; c0=0,b:f0,c:both");
  CHECK(leaders(graph, apply("forward_only", graph)) == "f0 f1 f0 f0 f1");
}

// f0 sends 1 B to s; f1 and f2 say only when s, t and u may start. s has a data edge, t and u
// none: t goes where its first control edge comes from, u where the only one goes.
TEST_CASE("control edges count where an op has no data edges") {
  // fewer bytes than a control edge has
  const OpGraph graph =
      graph_of("f0=0; f1=0; u0,u ~> f2=0; f1 ~> s0,u; f0 -1> s; f1 ~> t0,u; f2 ~> t");
  CHECK(leaders(graph, apply("forward_only", graph)) == "f0 f1 f2 f2 f0 f1");
}

TEST_CASE("an op without a path to a forward op is placed by itself") {
  const OpGraph graph = graph_of("f0; seed0,b; f -1> b0,b; seed -1> b; alone0,u");
  CHECK(leaders(graph, apply("forward_only", graph)) == "f f f alone");
}

TEST_SUITE_BEGIN("baechi bundle");
TEST_CASE("it applies its parts in order, each of which can be omitted") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    const OpGraph graph = training_graph(1 + random.below(30), random);
    const Transformed whole = apply("baechi", graph);
    const Transformed parts = then(
        then(then(apply("colocate", graph), *transform("forward_only")), *transform("coplace")),
        *transform("fuse"));
    CHECK(text(whole.graph) == text(parts.graph));
    CHECK(whole.mapped_op == parts.mapped_op);
    CHECK(whole.needs == parts.needs);
    const Values none{
        {"colocate", "false"}, {"forward_only", "false"}, {"coplace", "false"}, {"fuse", "false"}};
    CHECK(text(apply("baechi", graph, none).graph) == text(graph));
  }
}

TEST_SUITE_BEGIN("by_module");
// a -> b -> c, d and e beside; e was with d before.
static OpGraph modules() {
  return graph_of(
      "a1,i:net.left.conv -1> b1,i:net.left.norm -1> c1,i:net.right; d1,c:d; "
      "e1,i:net.right.conv,c:d");
}

TEST_CASE("ops with a common path prefix are a group, and join the groups they were in") {
  CHECK(groups(apply("by_module", modules()).graph) == "- - - d d");
  CHECK(groups(apply("by_module", modules(), {{"depth", "1"}}).graph) == "a a a a a");
  CHECK(groups(apply("by_module", modules(), {{"depth", "2"}}).graph) == "a a c c c");
  CHECK(groups(apply("by_module", modules(), {{"depth", "3"}}).graph) == "- - - d d");
}

TEST_CASE("a merged op is in the innermost common module") {
  const OpGraph graph = modules();
  const auto fused = [&](const char* depth) {
    return apply("fuse", apply("by_module", graph, {{"depth", depth}}).graph).graph;
  };
  CHECK(fused("2").module(OpId{0}) == "net.left");  // a and b
  CHECK(fused("1").module(OpId{0}) == "net");       // c, too
  CHECK(fused("0").module(OpId{0}) == "net.left.conv");
}

TEST_SUITE_BEGIN("prune, control_edges");
TEST_CASE("only ops without any edge are dropped") {
  const OpGraph graph = graph_of("a1; alone1 -5> .; a -1> b1; a ~> c1");
  const Transformed result = apply("prune", graph);
  CHECK(leaders(graph, result) == "a - b c");
  CHECK(result.graph.num_edges() == 2);
}

TEST_CASE("a free control edge takes no time and waits for no channel") {
  // a(10) sends t (100 bytes, 100 ns) to b, and c waits for a, both on the other device. As a
  // cost: t 10..110, then 4 bytes 110..114, c 114..115 beside b 110..130. Free: c 10..11.
  const OpGraph costly = graph_of("a10 -100> b20; a ~> c1");
  const OpGraph free = apply("control_edges", costly, {{"as", "free"}}).graph;
  const Cluster cluster = gpus(3);
  const Placement p = on({gpu0, gpu1, gpu2});
  struct Starts final : StepObserver {
    void on_op(OpId v, DeviceId, TimePoint start, TimePoint) override {
      if (v == OpId{2}) c = start.time_since_epoch();
    }
    Duration c{};
  };
  const auto start_of_c = [&](const OpGraph& graph) {
    const ProfiledCosts costs(graph, cluster);
    Starts starts;
    StepObserver* const observer = &starts;
    simulate({graph, cluster, costs}, p, {&observer, 1});
    return starts.c;
  };
  CHECK(start_of_c(costly) == 114ns);
  CHECK(start_of_c(free) == 10ns);
  CHECK(text(apply("control_edges", costly).graph) == text(costly));
  CHECK(apply("fuse", free).graph.free_controls());  // kept by what comes after
}
