#include "tests/prelude.h"
#include "tests/sim/transform/transforms.h"

namespace {

//   f0 -> f1 -> b1 -> b0, each as long as `each`; f are forward, b backward ops
OpGraph there_and_back(Duration each) {
  OpGraphBuilder g;
  TensorId before{};
  for (const char* name : {"f0", "f1", "b1", "b0"}) {
    const OpId v = g.add_op({.name = name,
                             .kind = name[0] == 'f' ? "Forward" : "Back",
                             .compute = each,
                             .phase = name[0] == 'f' ? Phase::forward : Phase::backward});
    g.add_kernel(v, {.flops = 1});
    g.add_kernel(v, {.flops = 2});
    if (g.num_ops() > 1) g.add_edge(before, v);
    before = g.add_tensor(v, 8_B);
  }
  return std::move(g).build();
}

PlacedStep hosted(const OpGraph& graph, const Values& options,
                  std::vector<DeviceId> devices = std::vector<DeviceId>(4, gpu0)) {
  IdVector<OpId, DeviceId> device;
  for (const DeviceId d : devices) device.push_back(d);
  return transform("host", options)->after_placing(graph, device);
}

/// On devices whose links take no time.
Duration step_of(const PlacedStep& step, ReadyOrder queue = ReadyOrder::program) {
  const Cluster cluster = Cluster::uniform(2, 1_GiB, {.bandwidth = {1e18}, .latency = {}});
  const ProfiledCosts costs(step.graph, cluster);
  return simulate(
             {.graph = step.graph, .cluster = cluster, .costs = costs, .engine = {.queue = queue}},
             {.device = step.device})
      .makespan;
}

}  // namespace

TEST_SUITE_BEGIN("host");
// Four ops of two kernels each.
TEST_CASE("per: kernel launches with the device type's own host time unless one is given") {
  const OpGraph graph = there_and_back(1us);
  const auto launches = [&](const Values& options) {
    const auto host = transform("host", options);
    const auto on_device = host->launching(35us);
    const PlacedStep step = (on_device ? on_device.get() : host.get())
                                ->after_placing(graph, IdVector<OpId, DeviceId>(4, gpu0));
    Duration all{};
    for (const OpId v : step.graph.ops())
      if (step.graph.kind(v) == "Launch") all += step.graph.op(v).compute;
    return all;
  };
  CHECK(launches({{"per", "kernel"}}) == 8 * 35us);
  CHECK(launches({{"per", "kernel"}, {"launch", "6 us"}}) == 8 * 6us);
  CHECK(launches({}) == 4 * 6us);
}

TEST_CASE("a step takes as long as its device or its host, whichever is longer") {
  for (const ReadyOrder queue : {ReadyOrder::program, ReadyOrder::fifo}) {
    // Device-bound: the first launch, then the device without gaps: 6 + 4 x 10.
    CHECK(step_of(hosted(there_and_back(10us), {{"launch", "6 us"}}), queue) == 46us);
    // Host-bound: four launches, then the last op: 4 x 20 + 10.
    CHECK(step_of(hosted(there_and_back(10us), {{"launch", "20 us"}}), queue) == 90us);
    CHECK(step_of(hosted(there_and_back(10us), {{"launch", "0 us"}}), queue) == 40us);
  }
}

TEST_CASE("the host time per step comes before the first launch") {
  CHECK(step_of(hosted(there_and_back(10us), {{"launch", "6 us"}, {"step", "100 us"}})) == 146us);
}

TEST_CASE("launches are of ops, or of kernels") {
  // Two kernels each: 4 x 2 x 20 + 10.
  CHECK(step_of(hosted(there_and_back(10us), {{"launch", "20 us"}, {"per", "kernel"}})) == 170us);
}

TEST_CASE("launches of a pass as one op") {
  // Two kernels of 7 us for each of two ops: launched until 28, when f1 may run, and, in the same
  // lane, until 56, when b0 may. The device needs 10 us an op: f0 0-10, f1 28-38, b1 38-48,
  // b0 56-66.
  CHECK(step_of(hosted(there_and_back(10us), {{"launch", "7 us"}, {"per", "pass"}})) == 66us);
  // Fast launches: the device decides.
  CHECK(step_of(hosted(there_and_back(10us), {{"launch", "1 us"}, {"per", "pass"}})) == 40us);
  // The backward pass on another device is launched when b1, which receives, has run: f1 until
  // 38, b1 38-48, launched until 76, b0 until 86; a byte takes 1 ns.
  CHECK(step_of(hosted(there_and_back(10us), {{"launch", "7 us"}, {"per", "pass"}},
                       {gpu0, gpu0, gpu1, gpu1})) == 86us + 1ns);
  for (const auto& [key, value] :
       {std::pair{"threads", "one"}, {"graphs", "true"}, {"step", "1 us"}, {"sync", "Forward"}})
    CHECK(message<InputError>([&] {
            transform("host", {{"per", "pass"}, {key, value}});
          }).starts_with(fmt::format("x.yaml:1:2: host.{}: ", key)));
}

TEST_CASE("the host waits for the device after ops that it reads from") {
  const PlacedStep step = hosted(there_and_back(10us), {{"launch", "6 us"}, {"sync", "Forward"}});
  // f0's launch 0-6, f0 6-16; f1's launch 16-22, f1 22-32; b1's 32-38, b1 38-48, b0 48-58.
  CHECK(step_of(step) == 58us);
}

TEST_CASE("launches do not depend on the device's speed") {
  // One launch at 20 us, then four ops of 10 us at half of the speed.
  const PlacedStep step = hosted(there_and_back(10us), {{"launch", "20 us"}, {"graphs", "true"}});
  IdVector<DeviceId, Device> slow;
  slow.push_back({.name = "gpu", .kind = {}, .memory = 1_GiB, .speed = 0.5});
  const Cluster cluster = Cluster::uniform(slow, {.bandwidth = {1e18}, .latency = {}});
  const ProfiledCosts costs(step.graph, cluster);
  CHECK(simulate({.graph = step.graph, .cluster = cluster, .costs = costs, .engine = {}},
                 {.device = step.device})
            .makespan == 100us);
}

TEST_CASE("times that no step can have are rejected") {
  CHECK_REFUSED(transform("host", {{"launch", "4600000000 s"}}),
                "x.yaml:1:2: host.launch: a launch takes at most 60 s");
  CHECK_REFUSED(transform("host", {{"step", "4600000000 s"}}),
                "x.yaml:1:2: host.step: it takes at most 86400 s");
}

TEST_CASE("a CUDA graph is one launch") {
  CHECK(step_of(hosted(there_and_back(10us), {{"launch", "20 us"}, {"graphs", "true"}})) == 60us);
}

TEST_CASE("each device has a thread, or one thread launches for all") {
  // f0, f1 on gpu0, b1, b0 on gpu1, 10 us each, launches 20 us. Per device: f 20-30, 40-50; b1's
  // launch is done at 20, b1 50-60, b0 60-70. One thread: b0 is launched at 80.
  const std::vector<DeviceId> two{gpu0, gpu0, gpu1, gpu1};
  CHECK(step_of(hosted(there_and_back(10us), {{"launch", "20 us"}}, two)) ==
        70us + 1ns);  // a byte goes from gpu0 to gpu1
  const PlacedStep one =
      hosted(there_and_back(10us), {{"launch", "20 us"}, {"threads", "one"}}, two);
  CHECK(step_of(one) == 90us);
  for (const OpId v : one.graph.ops())
    if (one.graph.kind(v) == "Launch") CHECK(one.device[v] == gpu0);
}

TEST_CASE("the backward pass is launched by a thread of its own, after the forward pass") {
  const OpGraph g = hosted(there_and_back(10us), {}).graph;
  const auto lane = [&](const char* name) { return g.lanes()[index(g.lane(*g.find(name)))]; };
  CHECK(lane("f1/launch") == "host");
  CHECK(lane("b1/launch") == "host_backward");
  CHECK(lane("b1") == "compute");
  const OpGraph one = hosted(there_and_back(10us), {{"backward_thread", "false"}}).graph;
  CHECK(one.lanes() == std::vector<std::string>{"compute", "host"});
}

TEST_CASE("ops, groups, times and tensors are those of the graph; launches are additional ops") {
  Random random(3);
  for (int i = 0; i < 20; ++i) {
    const OpGraph graph = training_graph(12, random);
    const IdVector<OpId, DeviceId> device(graph.num_ops(), gpu0);
    const PlacedStep step = transform("host", {{"launch", "1 us"}})->after_placing(graph, device);
    REQUIRE(step.graph.num_ops() == 2 * graph.num_ops());
    std::vector<OpId> kept;
    for (const OpId v : step.graph.ops())
      if (step.graph.kind(v) != "Launch") kept.push_back(v);
    for (const OpId v : graph.ops()) {
      const OpId same = kept[index(v)];
      CHECK(step.graph.name(same) == graph.name(v));
      CHECK(step.graph.op(same).compute == graph.op(v).compute);
      CHECK(step.graph.work(same) == graph.work(v));
      CHECK(step.graph.outputs(same).size() == graph.outputs(v).size());
    }
    for (const OpId v : graph.ops()) {
      const GroupId was = graph.op(v).group, is = step.graph.op(kept[index(v)]).group;
      CHECK((was == no_group) == (is == no_group));
      if (was != no_group) CHECK(step.graph.group_name(is) == graph.group_name(was));
    }
  }
}

namespace {

//   m0 -> m1 -> m2: modules of 10 ms with weights of 100 MB
OpGraph three_modules() {
  return graph_of(
      "m0=10000000,w100000000,i:m0 -8> m1=10000000,w100000000,i:m1 -8> "
      "m2=10000000,w100000000,i:m2 -8> .");
}

//   f0 -> f1 -> b1 -> b0: weights of 20 MB; b1 and b0 take 5 ms, and write 20 MB of gradients that
//   u1 and u0 read, which take 3 ms
/// `kept`: gradients are persistent, as generators make them.
OpGraph two_updates(bool kept = false) {
  return graph_of(
      fmt::format("f0=0,w20000000 -0> f1=0,w20000000 -0> b1=5000000,{0},b:f1 {1} u1=3000000,u; "
                  "b1 -0> b0=5000000,{0},b:f0 {1} u0=3000000,u",
                  kept ? "w20000000" : "w0", kept ? "~>" : "-20000000>"));
}

/// On gpu0, with home gpu1 behind a link of 10 GB/s in each direction.
StepResult offloaded(const OpGraph& graph, const Values& options, std::size_t devices = 2) {
  const PlacedStep step = transform("offload", options)
                              ->after_placing(graph, IdVector<OpId, DeviceId>(graph.num_ops()));
  const Cluster cluster = Cluster::uniform(devices, 1_GiB, {.bandwidth = {10e9}, .latency = {}});
  const ProfiledCosts costs(step.graph, cluster);
  return simulate({.graph = step.graph,
                   .cluster = cluster,
                   .costs = costs,
                   .engine = {.transfers = Transfers::duplex}},
                  {.device = step.device});
}

/// Control edges of 4 bytes take a nanosecond each.
bool is(Duration found, Duration wanted) { return found - wanted <= 3ns && found >= wanted; }

}  // namespace

TEST_SUITE_BEGIN("offload");
TEST_CASE("weights that wait are copied when their module is reached, or ahead") {
  // A copy takes 100 MB / 10 GB/s = 10 ms. prefetch 0: copy, compute, three times.
  const StepResult each = offloaded(three_modules(), {{"modules", "m*"}});
  CHECK(is(each.makespan, 60ms));
  CHECK(each.devices[gpu0].peak == Bytes{100'000'000 + 16});  // one copy, two tensors of a chain
  // prefetch 1: m1 is copied while m0 computes, m2 while m1 does: 10 + 3 x 10, two buffers.
  for (const char* ahead : {"1", "2"}) {
    const StepResult step = offloaded(three_modules(), {{"modules", "m*"}, {"prefetch", ahead}});
    CHECK(is(step.makespan, 40ms));
    CHECK(step.devices[gpu0].peak == Bytes{200'000'000 + 16});
    CHECK(step.devices[gpu1].peak == Bytes{300'000'000});
  }
  // One module waits: its copy begins when m0 has ended. The others stay.
  const StepResult one = offloaded(three_modules(), {{"modules", "m1"}});
  CHECK(is(one.makespan, 40ms));
  CHECK(one.devices[gpu0].peak == Bytes{300'000'000 + 16});
  CHECK(offloaded(three_modules(), {{"modules", "other"}}).makespan == 30ms);
  // From a disk as fast as the link: two copies before each module; or m1 is read while m0 is
  // copied, and m2 when the buffer of m0 is free: 20 + 10 (m0) + 20 + 10 (m2).
  const StepResult disk = offloaded(three_modules(), {{"modules", "m*"}, {"disk", "2"}}, 3);
  CHECK(is(disk.makespan, 90ms));
  CHECK(disk.devices[DeviceId{2}].peak == Bytes{300'000'000});
  CHECK(is(
      offloaded(three_modules(), {{"modules", "m*"}, {"disk", "2"}, {"prefetch", "1"}}, 3).makespan,
      60ms));
}

TEST_CASE("an optimizer at home works while the backward pass goes on") {
  // b1 0-5, gradient 5-7, update 7-10, weights 10-12; b0 5-10, 10-12, 12-15, 15-17.
  CHECK(offloaded(two_updates(), {{"optimizer", "true"}}).makespan == 17ms);
  CHECK(is(offloaded(two_updates(true), {{"optimizer", "true"}}).makespan, 17ms));
}

TEST_CASE("what cannot be offloaded is refused") {
  CHECK_REFUSED(offloaded(two_updates(), {}), "offload: it needs modules, or optimizer: true");
  CHECK(message<InputError>([] {
          apply("offload", two_updates(), {{"modules", "m0"}});
        }).starts_with("offload: no op has a module"));
}
