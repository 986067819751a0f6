#include "placers/whole_modules.h"

#include "sim/error.h"
#include "tests/prelude.h"

namespace {

/// An op that reads what each of `inputs` writes, one byte.
//   stem -> block.conv1 -> block.conv2 -> sum -> mix.left  -> cat -> head
//       \--------------------------------/ \---> mix.right --/
//   sum is directly inside net.block, cat directly inside net.mix
OpGraph residual_and_branches() {
  return graph_of(
      "stem10,w1,i:net.stem -s1> conv1=10,w1,i:net.block.conv1 -1> conv2=10,w1,i:net.block.conv2; "
      "stem -s> sum10,i:net.block; conv2 -1> sum -t1> left10,w1,i:net.mix.left; sum -t> "
      "right30,w1,i:net.mix.right; left -1> cat10,i:net.mix; right -1> cat; cat -1> "
      "head10,w1,i:net.head -1> .");
}

//   m0(10) -> m1(10) -> m2(30) -> m3(10), 1 byte of weights each
OpGraph line() {
  return graph_of("a10,w1,i:m0 -1> b10,w1,i:m1 -1> c30,w1,i:m2 -1> d10,w1,i:m3 -1> .");
}

}  // namespace

TEST_SUITE_BEGIN("whole modules");
TEST_CASE("modules whose results an op directly inside their parent reads are together") {
  const OpGraph graph = residual_and_branches();
  const WholeModules modules = whole_modules(graph);
  // sum reads the block's input, which is moved to the block's device, and the result of conv2.
  CHECK(modules.names == std::vector<std::string>{"net.stem", "net.block.conv1", "net.block.conv2",
                                                  "net.mix.left", "net.mix.right", "net.head",
                                                  "net.block"});
  CHECK(modules.num_whole == 6);
  CHECK(modules.together == std::vector<std::uint32_t>{0, 1, 2, 3, 3, 5, 2});
  CHECK(modules.of[*graph.find("sum")] == 2);
  CHECK(modules.of[*graph.find("cat")] == 3);
  CHECK(modules.join[3] == *graph.find("cat"));
  // conv1 apart: the block is a key of the map, too.
  using Map = std::vector<std::pair<std::string, DeviceId>>;
  CHECK(device_map(modules, {gpu0, gpu1, gpu0, gpu0, gpu0, gpu0, gpu0}) ==
        Map{{"net.stem", gpu0},
            {"net.block.conv1", gpu1},
            {"net.block.conv2", gpu0},
            {"net.mix", gpu0},
            {"net.head", gpu0},
            {"net.block", gpu0}});
}

TEST_CASE("for stages, and by name, such a block is whole") {
  const OpGraph graph = residual_and_branches();
  const std::vector<std::string> names{"net.stem", "net.block", "net.mix.left", "net.mix.right",
                                       "net.head"};
  CHECK(whole_modules(graph, {.stages = true}).names == names);
  CHECK(whole_modules(graph, {.no_split = {"net.b*"}}).names == names);
}

TEST_CASE("modules go where their ops compute longest, and the map names as few as possible") {
  const OpGraph graph = residual_and_branches();
  const WholeModules modules = whole_modules(graph, {.stages = true});
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

// Blocks may be dictionaries of modules, which nobody calls: a framework that knows "body.0"
// alone would not move the inputs of what is inside.
TEST_CASE("the map names what is called: not a block without ops of its own") {
  const OpGraph graph =
      graph_of("a10,w1,i:body.0.first -1> b10,w1,i:body.0.next -1> c10,w1,i:head -1> .");
  std::vector<std::string> keys;
  for (const auto& [name, d] : device_map(whole_modules(graph), {gpu0, gpu0, gpu1}))
    keys.push_back(name);
  CHECK(keys == std::vector<std::string>{"body.0.first", "body.0.next", "head"});
}

TEST_CASE("a graph without modules is whole") {
  CHECK(whole_modules(one_tensor_two_readers()).names == std::vector<std::string>{""});
}

TEST_CASE("a line is cut into the shortest longest stages, whatever the order of devices") {
  const OpGraph graph = line();
  const WholeModules modules = whole_modules(graph);
  const auto cut = [&](const std::vector<std::int64_t>& memory) {
    Cluster cluster = gpus(memory.size());
    IdVector<DeviceId, Bytes> limit;
    for (const std::int64_t m : memory) {
      cluster.set_memory(static_cast<DeviceId>(limit.size()), {m});
      limit.push_back({m});
    }
    const ProfiledCosts costs(graph, cluster);
    std::vector<std::vector<std::uint32_t>> all;
    for (const PipelineCuts& cuts : cut_line({graph, cluster, costs}, modules, limit))
      all.push_back(cuts.first);
    return all;
  };
  using Cuts = std::vector<std::vector<std::uint32_t>>;
  CHECK(cut({9, 9}) == Cuts{{0}, {0, 2}});  // 60; 20 | 40
  CHECK(cut({2, 2}) == Cuts{{0, 2}});       // one stage does not fit
  CHECK(cut({3, 1}) == Cuts{{0, 1}});       // 10 | 50, or 50 | 10: the earlier cut
  CHECK(cut({1, 3}) == Cuts{{0, 1}});       // the same
  CHECK(cut({9, 9, 9}).back() == std::vector<std::uint32_t>{0, 2, 3});  // 20 | 30 | 10
  CHECK(cut({1, 1}).empty());
}
