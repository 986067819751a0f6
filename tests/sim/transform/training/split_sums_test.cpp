#include <doctest/doctest.h>

#include "tests/sim/transform/transforms.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;
using namespace baechi::literals;
using namespace std::chrono_literals;

namespace {

//   a(1)   b(1)   c(1)   d(1)     each writes 100 B
//     \______\______/______/
//            AddN s(50), 5 flops, 500 B, then t(1)
OpGraph sum_of_four() {
  OpGraphBuilder g;
  std::vector<TensorId> terms;
  for (const char* name : {"a", "b", "c", "d"})
    terms.push_back(
        g.add_tensor(g.add_op({.name = name, .kind = "MatMul", .compute = 1ns}), 100_B));
  const OpId s = g.add_op({.name = "s", .kind = "AddN", .compute = 50ns, .phase = Phase::backward});
  g.add_kernel(s, {.flops = 5, .traffic = 500_B});
  for (const TensorId t : terms) g.add_edge(t, s);
  g.add_edge(g.add_tensor(s, 100_B), g.add_op({.name = "t", .compute = 1ns}));
  return std::move(g).build();
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

TEST_SUITE("split_sums") {
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
    OpGraphBuilder g;
    const OpId before = g.add_op({.name = "before"});
    std::vector<TensorId> terms;
    for (const char* name : {"a", "b", "c"})
      terms.push_back(g.add_tensor(g.add_op({.name = name, .compute = 1ns}), 100_B));
    const OpId s = g.add_op({.name = "s", .kind = "AddN", .compute = 40ns});
    for (const TensorId t : terms) g.add_edge(t, s);
    g.add_control(before, s);
    // 3 terms and the sum: 2 and a sum on gpu1; there remain one, that sum and the whole sum.
    const OpGraph made = split(std::move(g).build(), {gpu0, gpu1, gpu1, gpu0, gpu0}).graph;
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
}
