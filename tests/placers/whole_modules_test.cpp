#include "placers/whole_modules.h"

#include <doctest/doctest.h>

#include "placers/pipeline_cuts.h"
#include "sim/error.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

/// An op that reads what each of `inputs` writes, one byte.
OpId op(OpGraphBuilder& g, const char* name, const char* module, std::initializer_list<int> inputs,
        Duration time = 10ns) {
  const OpId v = g.add_op({.name = name, .compute = time, .persistent = 1_B, .module = module});
  for (const int input : inputs) g.add_edge(static_cast<TensorId>(input), v);
  g.add_tensor(v, 1_B);
  return v;
}

//   stem -> block.conv1 -> block.conv2 -> sum -> mix.left  -> cat -> head
//       \--------------------------------/ \---> mix.right --/
//   sum is directly inside net.block, cat directly inside net.mix
OpGraph residual_and_branches() {
  OpGraphBuilder g;
  op(g, "stem", "net.stem", {});
  op(g, "conv1", "net.block.conv1", {0});
  op(g, "conv2", "net.block.conv2", {1});
  const OpId sum = g.add_op({.name = "sum", .compute = 10ns, .module = "net.block"});
  g.add_edge(TensorId{0}, sum);
  g.add_edge(TensorId{2}, sum);
  g.add_tensor(sum, 1_B);
  op(g, "left", "net.mix.left", {3});
  op(g, "right", "net.mix.right", {3}, 30ns);
  const OpId cat = g.add_op({.name = "cat", .compute = 10ns, .module = "net.mix"});
  g.add_edge(TensorId{4}, cat);
  g.add_edge(TensorId{5}, cat);
  g.add_tensor(cat, 1_B);
  op(g, "head", "net.head", {6});
  return std::move(g).build();
}

//   m0(10) -> m1(10) -> m2(30) -> m3(10), 1 byte of weights each
OpGraph line() {
  OpGraphBuilder g;
  op(g, "a", "m0", {});
  op(g, "b", "m1", {0});
  op(g, "c", "m2", {1}, 30ns);
  op(g, "d", "m3", {2});
  return std::move(g).build();
}

}  // namespace

TEST_SUITE("whole modules") {
  TEST_CASE("a module whose own op reads a tensor from outside is whole; branches are together") {
    const OpGraph graph = residual_and_branches();
    const WholeModules modules = whole_modules(graph);
    CHECK(modules.names == std::vector<std::string>{"net.stem", "net.block", "net.mix.left",
                                                    "net.mix.right", "net.head"});
    CHECK(modules.together == std::vector<std::uint32_t>{0, 1, 2, 2, 4});
    CHECK(modules.of[*graph.find("sum")] == 1);
    CHECK(modules.of[*graph.find("cat")] == WholeModules::none);
  }

  TEST_CASE("modules go where their ops compute longest, and the map names as few as possible") {
    const OpGraph graph = residual_and_branches();
    const WholeModules modules = whole_modules(graph);
    const Cluster cluster = gpus(2);
    const ProfiledCosts costs(graph, cluster);
    // The block computes 10 ns on gpu0 and 20 on gpu1, the branches 10 on gpu1 and 30 on gpu0.
    const Placement scattered = on({gpu0, gpu0, gpu1, gpu1, gpu1, gpu0, gpu1, gpu1});
    const auto device = devices_of_modules({graph, cluster, costs}, modules, scattered);
    CHECK(device == std::vector{gpu0, gpu1, gpu0, gpu0, gpu1});
    CHECK(place_on_modules(graph, modules, device).device ==
          on({gpu0, gpu1, gpu1, gpu1, gpu0, gpu0, gpu0, gpu1}).device);  // cat is with its inputs
    using Map = std::vector<std::pair<std::string, DeviceId>>;
    CHECK(device_map(modules, device) ==
          Map{{"net.stem", gpu0}, {"net.block", gpu1}, {"net.mix", gpu0}, {"net.head", gpu1}});
    CHECK(device_map(modules, std::vector(5, gpu1)) == Map{{"", gpu1}});
    // Placed again as whole modules: a group for the block, one for the branches.
    const OpGraph whole = group_modules(graph, modules);
    CHECK(whole.op(*graph.find("conv1")).group == whole.op(*graph.find("sum")).group);
    CHECK(whole.op(*graph.find("left")).group == whole.op(*graph.find("right")).group);
    CHECK(whole.op(*graph.find("stem")).group != whole.op(*graph.find("head")).group);
  }

  TEST_CASE("a graph without modules is refused") {
    CHECK_THROWS_AS(whole_modules(one_tensor_two_readers()), InputError);
  }

  TEST_CASE("a line is cut near the placement, or evenly, and never beyond memory") {
    const OpGraph graph = line();
    const WholeModules modules = whole_modules(graph);
    const Placement placement = on({gpu0, gpu1, gpu1, gpu1});
    const auto cut = [&](const Cluster& cluster, CutGoal goal) {
      const ProfiledCosts costs(graph, cluster);
      const auto cuts = cut_line({graph, cluster, costs}, modules, placement, goal);
      return cuts ? cuts->first : std::vector<std::uint32_t>{};
    };
    CHECK(cut(gpus(2), CutGoal::nearest) == std::vector<std::uint32_t>{0, 1});
    CHECK(cut(gpus(2), CutGoal::balanced) == std::vector<std::uint32_t>{0, 2});  // 20 | 40
    CHECK(cut(gpus(2, 2_B), CutGoal::nearest) == std::vector<std::uint32_t>{0, 2});
    CHECK(cut(gpus(2, 1_B), CutGoal::nearest).empty());
  }
}
