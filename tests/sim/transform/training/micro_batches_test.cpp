#include "tests/prelude.h"
#include "tests/sim/transform/transforms.h"

namespace {

/// a (100 B of weights) -> b -> gradient g of a -> update u of a, which next's ops do not read.
OpGraph one_layer() { return graph_of("a10,w100 -8> b10 -8> g20,b:a -100> u1,u"); }

std::vector<std::string> inputs(const OpGraph& graph, std::string_view name) {
  std::vector<std::string> all;
  for (const OpId u : graph.predecessors(*graph.find(name))) all.emplace_back(graph.name(u));
  return all;
}

}  // namespace

TEST_SUITE_BEGIN("micro_batches");
TEST_CASE("forward and backward ops are copied, and the update reads all their gradients") {
  const OpGraph graph = apply("micro_batches", one_layer(), {{"count", "3"}}).graph;
  CHECK(graph.num_ops() == 3 * 3 + 1);
  CHECK(inputs(graph, "b@2") == std::vector<std::string>{"a@2"});
  CHECK(inputs(graph, "u") == std::vector<std::string>{"g", "g@1", "g@2"});
  CHECK(graph.name(graph.op(*graph.find("g@1")).forward) == "a@1");
  CHECK(step_totals(graph).compute == 3 * 40ns + 1ns);
}

TEST_CASE("shared weights are held once and colocate their ops; own weights do not") {
  const OpGraph shared = apply("micro_batches", one_layer(), {{"count", "2"}}).graph;
  CHECK(step_totals(shared).persistent == 100_B);
  CHECK(shared.num_groups() == 2);  // and so are the copies that add to one gradient
  CHECK(shared.members(GroupId{1}).size() == 2);
  CHECK(shared.op(*shared.find("a")).group == shared.op(*shared.find("a@1")).group);
  const OpGraph own =
      apply("micro_batches", one_layer(), {{"count", "2"}, {"weights", "own"}}).graph;
  CHECK(step_totals(own).persistent == 200_B);
  CHECK(own.num_groups() == 0);
}

// g@1 makes its gradient of 100 B in workspace while the sum of 100 B is there, and adds it: with
// weights of 100 B and b's tensor of 8 B 308 B, in two micro-batches as in 16. In one 208 B.
TEST_CASE("gradient tensors accumulate in one") {
  const auto peak = [](const char* count, const char* weights) {
    const OpGraph graph =
        apply("micro_batches", one_layer(), {{"count", count}, {"weights", weights}}).graph;
    return step_on_gpu0(graph, {.queue = ReadyOrder::program}).devices[gpu0].peak;
  };
  CHECK(peak("1", "shared") == 208_B);
  CHECK(peak("2", "shared") == 308_B);
  CHECK(peak("16", "shared") == 308_B);
  CHECK(peak("2", "own") == 408_B);  // towers have gradients of their own: two of each
}

TEST_CASE("towers have groups of their own") {
  const OpGraph graph =
      apply("micro_batches", graph_of("a0,c:left; b0,c:left"), {{"count", "2"}, {"weights", "own"}})
          .graph;
  CHECK(groups(graph) == "left left left@1 left@1");
}

TEST_CASE("a group named like an op with weights is a different group") {
  // w, with weights of its own, is in no group; x and y are in group "w", and may be elsewhere.
  const OpGraph graph =
      apply("micro_batches", graph_of("w0,w100; x0,c:w; y0,c:w"), {{"count", "2"}}).graph;
  CHECK(groups(graph) == "w w@2 w@2 w w@2 w@2");
}

TEST_CASE("copies are identified by their origin, not by name") {
  // b@1 is an op of the graph: its copies have one more @. Copies of copies are of the first.
  const OpGraph graph = graph_of("b1,b; b@1=1,b");
  for (const OpId v : graph.ops()) CHECK(graph.micro_batch(v).first == v);
  const OpGraph twice = apply("micro_batches", graph, {{"count", "2"}}).graph;
  CHECK(twice.find("b@@1").has_value());
  CHECK(twice.micro_batch(*twice.find("b@1@@1")).first == *twice.find("b@1"));
  const OpGraph four = apply("micro_batches", twice, {{"count", "2"}}).graph;
  CHECK(four.micro_batch(*four.find("b@@1@@@1")).first == *four.find("b"));
  CHECK(four.micro_batch(*four.find("b@@@1")).number == 2);
  CHECK(four.micro_batch(*four.find("b@@1@@@1")).number == 3);
}

TEST_CASE("one copy is the graph, except for groups of weights") {
  CHECK(text(apply("micro_batches", one_layer(), {{"count", "1"}, {"weights", "own"}}).graph) ==
        text(one_layer()));
}

namespace {

//   a(1)   b(1)   c(1)   d(1)     each writes 100 B
//     \______\______/______/
//            AddN s(50), 5 flops, 500 B, then t(1)
OpGraph sum_of_four() {
  return graph_of(
      "a1,k:MatMul; b1,k:MatMul; c1,k:MatMul; d1,k:MatMul; a -100> s50,k:AddN,b,f5,m500 -100> t1; "
      "b -100> s; c -100> s; d -100> s");
}

/// Random ops that write a tensor, and AddN ops of some of the tensors.
OpGraph random_sums(Random& random) {
  OpGraphBuilder g;
  std::vector<TensorId> terms;
  for (std::uint32_t i = 0; i < 2 + random.below(20); ++i)
    terms.push_back(g.add_tensor(g.add_op({.name = fmt::format("op{}", i)}), 8_B));
  for (std::uint32_t i = 0; i < 1 + random.below(5); ++i) {
    const OpId sum = g.add_op({.name = fmt::format("sum{}", i), .kind = "AddN"});
    for (const TensorId t : terms)
      if (random.below(2) == 0) g.add_edge(t, sum);
  }
  return std::move(g).build();
}

PlacedStep split(const OpGraph& graph, std::initializer_list<DeviceId> devices) {
  IdVector<OpId, DeviceId> device;
  for (const DeviceId d : devices) device.push_back(d);
  return transform("split_sums")->after_placing(graph, device);
}

}  // namespace

TEST_SUITE_BEGIN("split_sums");
TEST_CASE("two or more terms on another device are added there first") {
  // a is where the sum is, d alone on gpu2; b and c are added on gpu1: of the 4 terms and the
  // sum, 2 terms and a sum, 3/5; there remain a, d and the sum of b and c: 4/5.
  const PlacedStep step = split(sum_of_four(), {gpu0, gpu1, gpu1, gpu2, gpu0, gpu0});
  const OpGraph& g = step.graph;
  REQUIRE(g.num_ops() == 7);
  const OpId part = g.find("s/on_1").value(), whole = g.find("s").value();
  CHECK(step.device[part] == gpu1);
  CHECK(step.device[whole] == gpu0);
  CHECK(g.kind(part) == "AddN");
  CHECK(g.op(part).phase == Phase::backward);
  CHECK(g.op(part).compute == 30ns);
  CHECK(g.op(whole).compute == 40ns);
  CHECK(g.work(part) == OpWork{.flops = 3, .traffic = 300_B});
  CHECK(g.work(whole) == OpWork{.flops = 4, .traffic = 400_B});
  CHECK(g.in_edges(part).size() == 2);
  CHECK(g.in_edges(whole).size() == 3);
  CHECK(g.tensor(*g.outputs(part).begin()).size == 100_B);
  for (const char* name : {"a", "b", "c", "d", "t"}) CHECK(g.find(name).has_value());
}

TEST_CASE("kernels of other ops stay as they are, with their shapes and weights") {
  const OpWork product{
      .flops = 16, .traffic = 48_B, .weights = 16_B, .matrix = {MatrixKind::product, 1, 0, 2, 2}};
  OpGraphBuilder g;
  g.add_kernel(g.add_op({.name = "a"}), product);
  const PlacedStep step = split(std::move(g).build(), {gpu0});
  REQUIRE(step.graph.kernels(OpId{}).size() == 1);
  CHECK(step.graph.kernels(OpId{}).front() == product);
}

TEST_CASE("a control edge is no term") {
  const OpGraph graph =
      graph_of("before0; a1; b1; c1; a -100> s40,k:AddN; b -100> s; c -100> s; before ~> s");
  const OpGraph made = split(graph, {gpu0, gpu1, gpu1, gpu0, gpu0}).graph;
  CHECK(made.op(made.find("s/on_1").value()).compute == 30ns);
  CHECK(made.op(made.find("s").value()).compute == 30ns);
}

TEST_CASE("without two terms on another device, nothing changes") {
  const OpGraph graph = sum_of_four();
  CHECK(text(split(graph, {gpu0, gpu0, gpu0, gpu0, gpu0, gpu0}).graph) == text(graph));
  CHECK(text(split(graph, {gpu0, gpu1, gpu2, gpu3, gpu0, gpu1}).graph) == text(graph));
}

TEST_CASE("random steps keep their ops, terms and devices") {
  std::size_t all_parts = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const OpGraph graph = random_sums(random);
    IdVector<OpId, DeviceId> device;
    for (std::size_t i = 0; i < graph.num_ops(); ++i)
      device.push_back(static_cast<DeviceId>(random.below(3)));
    const PlacedStep step = transform("split_sums")->after_placing(graph, device);
    REQUIRE(step.device.size() == step.graph.num_ops());
    const std::size_t parts = step.graph.num_ops() - graph.num_ops();
    all_parts += parts;
    CHECK(step.graph.num_edges() == graph.num_edges() + parts);  // one more for each sum
    for (const OpId v : graph.ops())
      CHECK(step.device[step.graph.find(graph.name(v)).value()] == device[v]);
  }
  CHECK(all_parts > 300);
}
