#include "sim/error.h"
#include "tests/checker/recorded.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"

namespace {

void check_equal(const StepResult& a, const StepResult& b) {
  CHECK(a.makespan == b.makespan);
  CHECK(a.moved == b.moved);
  CHECK(a.transfers == b.transfers);
  CHECK(a.events == b.events);
  REQUIRE(a.oom.has_value() == b.oom.has_value());
  if (a.oom) {
    CHECK(a.oom->op == b.oom->op);
    CHECK(a.oom->transfer == b.oom->transfer);
    CHECK(a.oom->at == b.oom->at);
    CHECK(a.oom->live == b.oom->live);
  }
  REQUIRE(a.devices.size() == b.devices.size());
  for (const DeviceId d : a.devices.ids()) {
    CHECK(a.devices[d].busy == b.devices[d].busy);
    CHECK(a.devices[d].peak == b.devices[d].peak);
    CHECK(a.devices[d].at_peak == b.devices[d].at_peak);
  }
}

}  // namespace

TEST_SUITE_BEGIN("simulator");
TEST_CASE("earlier runs of a simulator do not affect later ones, not even a failure") {
  std::vector<EngineOptions> engines = all_engines();
  engines.push_back({.transfers = Transfers::staged});
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const RandomProblem random({.ops = 40}, 3, seed);
    IdVector<DeviceId, Device> devices;
    for (const DeviceId d : random.cluster.devices()) devices.push_back(random.cluster.device(d));
    for (Device& d : devices) d.memory = Bytes{1200};
    const Cluster small = Cluster::uniform(std::move(devices), {.bandwidth = {1e9}});
    const Placement all_on_one{.device = IdVector<OpId, DeviceId>(random.graph.num_ops())};
    for (const EngineOptions& engine : engines) {
      const Problem& problem = OwnedProblem(random.graph, small, engine).problem;
      Simulator simulator(problem);
      for (const Placement* p : {&random.placement, &all_on_one, &random.placement})
        check_equal(simulator.run(*p), simulate(problem, *p));
    }
  }
}

TEST_CASE("without memory accounting a step takes the same time, if memory is ample") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const RandomProblem random({.ops = 60}, 4, seed);
    for (EngineOptions engine : all_engines()) {
      const StepResult counted = simulate(random.under(engine), random.placement);
      engine.count_memory = false;
      const StepResult bare = simulate(random.under(engine), random.placement);
      CHECK(bare.makespan == counted.makespan);
      CHECK(bare.transfers == counted.transfers);
      CHECK(bare.moved == counted.moved);
      for (const DeviceId d : bare.devices.ids()) {
        CHECK(bare.devices[d].busy == counted.devices[d].busy);
        CHECK(bare.devices[d].peak == Bytes{});
      }
    }
  }
}

TEST_CASE("idle devices change no step, though an engine of their own simulates up to 64") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const RandomProblem random({.ops = 60}, 4, seed);
    const std::vector<Bytes> memories{Bytes{1500}, Bytes{1 << 20}};  // most run out of the first
    for (const Bytes memory : memories) {
      const Cluster few = Cluster::uniform(4, {memory}, {.bandwidth = {1e9}});
      const Cluster many = Cluster::uniform(65, {memory}, {.bandwidth = {1e9}});
      const ProfiledCosts few_costs(random.graph, few), many_costs(random.graph, many);
      for (const EngineOptions& engine : all_engines()) {
        const StepResult of_few =
            simulate({random.graph, few, few_costs, engine}, random.placement);
        StepResult of_many = simulate({random.graph, many, many_costs, engine}, random.placement);
        IdVector<DeviceId, DeviceUse> used;
        for (const DeviceId d : of_few.devices.ids()) used.push_back(of_many.devices[d]);
        of_many.devices = used;
        check_equal(of_few, of_many);
      }
    }
  }
}

TEST_CASE("more concurrent events than the sorted part of the queue holds") {
  // 1000 sources of equal length on as many devices end together, then one op reads them all: its
  // device takes in 999 tensors of 1 ns, one after the other.
  OpGraphBuilder b;
  std::vector<TensorId> tensors;
  for (int i = 0; i < 1000; ++i) {
    const OpId v = b.add_op({.name = "s" + std::to_string(i), .compute = Duration{10 + i % 2}});
    tensors.push_back(b.add_tensor(v, Bytes{1}));
  }
  const OpId last = b.add_op({.name = "last", .compute = Duration{5}});
  for (const TensorId t : tensors) b.add_edge(t, last);
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(std::move(b).build(), Cluster::uniform(1000, Bytes{5000}, {.bandwidth = {1e9}}));
  Placement each{.device = IdVector<OpId, DeviceId>(graph.num_ops())};
  for (std::uint32_t i = 0; i < 1000; ++i) each.device[OpId{i}] = DeviceId{i};
  // Those of 10 ns send 499 tensors (the first is there already); at 11 the others have ended.
  CHECK(simulate({graph, cluster, costs}, each).makespan == Duration{10 + 999 + 5});
  // All at once: the last arrive at 11 + 1.
  CHECK(simulate({graph, cluster, costs, {.transfers = Transfers::parallel}}, each).makespan ==
        Duration{11 + 1 + 5});
}

namespace {

/// Nodes of `devices` each, in which a byte takes 0.1 ns, and between which it takes 1 ns.
Cluster unequal_machines(std::initializer_list<std::uint32_t> devices, std::uint32_t nics) {
  std::vector<Node> nodes;
  IdVector<DeviceId, Device> all;
  for (const std::uint32_t count : devices) {
    nodes.push_back({.devices = count,
                     .nics = nics,
                     .network = {.bandwidth = 1.0_GBps},
                     .inside = {.bandwidth = 10.0_GBps}});
    for (std::uint32_t i = 0; i < count; ++i)
      all.push_back({.name = "gpu", .kind = {}, .memory = 1_GiB});
  }
  return Cluster::of_nodes(std::move(all), std::move(nodes));
}

/// `pairs` times: an op of 10 ns sends 100 B to another op of 10 ns; a, b, a, b, ...
OpGraph sends(int pairs) {
  OpGraphBuilder g;
  for (int i = 0; i < pairs; ++i) {
    const OpId a = g.add_op({.name = fmt::format("a{}", i), .compute = 10ns});
    const OpId b = g.add_op({.name = fmt::format("b{}", i), .compute = 10ns});
    g.add_edge(g.add_tensor(a, 100_B), b);
  }
  return std::move(g).build();
}

/// Ops a0, b0, a1, b1, ... of sends() on `devices`.
Placement pairs_on(const OpGraph& graph, std::initializer_list<DeviceId> devices) {
  Placement p;
  p.device.assign(graph.num_ops(), gpu0);
  for (const OpId v : graph.ops()) {
    const std::string_view name = graph.name(v);
    const auto i = static_cast<std::size_t>(name[1] - '0') * 2 + (name[0] == 'b' ? 1 : 0);
    p.device[v] = *(devices.begin() + i);
  }
  return p;
}

Duration makespan_on(const OpGraph& graph, const Cluster& cluster,
                     std::initializer_list<DeviceId> devices,
                     Transfers transfers = Transfers::duplex) {
  return Recorded(graph, cluster, pairs_on(graph, devices), {.transfers = transfers})
      .result()
      .makespan;
}

}  // namespace

TEST_SUITE_BEGIN("nodes");
TEST_CASE("two transfers from one node to another share its one NIC: one after the other") {
  const OpGraph graph = sends(2);
  // 10 + 100 + 100 + 10: gpu0 to gpu2, then gpu1 to gpu3
  CHECK(makespan_on(graph, unequal_machines({2, 2}, 1), {gpu0, gpu2, gpu1, gpu3}) == 220ns);
  CHECK(makespan_on(graph, unequal_machines({2, 2}, 2), {gpu0, gpu2, gpu1, gpu3}) == 120ns);
}

TEST_CASE("a NIC sends and receives at once, as its device's channels do in duplex mode") {
  CHECK(makespan_on(sends(2), unequal_machines({2, 2}, 1), {gpu0, gpu2, gpu3, gpu1}) == 120ns);
}

TEST_CASE("two nodes that send to a third share its NIC") {
  CHECK(makespan_on(sends(2), unequal_machines({1, 1, 2}, 1), {gpu0, gpu2, gpu1, gpu3}) == 220ns);
}

TEST_CASE("transfers inside a node need no NIC") {
  // gpu0 to gpu2 takes 100 ns by the NIC, gpu1 to gpu0 10 ns concurrently
  const OpGraph graph = sends(2);
  const Recorded s(graph, unequal_machines({2, 2}, 1), pairs_on(graph, {gpu0, gpu2, gpu1, gpu0}),
                   {.transfers = Transfers::duplex});
  CHECK(s.transfers_to(gpu0).front() == 10ns);
  CHECK(s.start_of("b1") == 20ns);
  CHECK(s.result().makespan == 120ns);
}

TEST_CASE("a transfer that waits for a NIC blocks its sender's queue") {
  //   a0 on gpu0 -> b0 on gpu2, a1 on gpu1 -> b1 on gpu3, then a2 on gpu1 -> b2 on gpu0
  const OpGraph graph = sends(3);
  const Recorded s(graph, unequal_machines({2, 2}, 1),
                   pairs_on(graph, {gpu0, gpu2, gpu1, gpu3, gpu1, gpu0}),
                   {.transfers = Transfers::duplex});
  CHECK(s.transfers_to(gpu3) == std::vector<Duration>{110ns});
  CHECK(s.transfers_to(gpu0) == std::vector<Duration>{210ns});  // although nothing else stops it
}

TEST_CASE("in parallel mode NICs do not limit transfers") {
  CHECK(makespan_on(sends(2), unequal_machines({2, 2}, 1), {gpu0, gpu2, gpu1, gpu3},
                    Transfers::parallel) == 120ns);
}

TEST_CASE("one node is a cluster without nodes") {
  const OpGraph graph = sends(2);
  const Cluster flat = Cluster::uniform(4, 1_GiB, {.bandwidth = 10.0_GBps});
  for (const Transfers transfers : all<Transfers>())
    CHECK(run(graph, unequal_machines({4}, 1), pairs_on(graph, {gpu0, gpu2, gpu1, gpu2}),
              {.transfers = transfers})
              .makespan ==
          run(graph, flat, pairs_on(graph, {gpu0, gpu2, gpu1, gpu2}), {.transfers = transfers})
              .makespan);
}

TEST_CASE("staged transfers between nodes are rejected") {
  const OpGraph graph = sends(1);
  CHECK_REFUSED(run(graph, unequal_machines({1, 1}, 1), pairs_on(graph, {gpu0, gpu1}),
                    {.transfers = Transfers::staged}),
                "engine.transfers: staged needs one machine, and the cluster has 2 nodes");
}

TEST_CASE("wires between devices add up; without one the link is 'unwired'") {
  const Node node{.devices = 3,
                  .inside = {.bandwidth = 25.0_GBps, .latency = 8ns},
                  .wires = {0, 2, 0, 2, 0, 1, 0, 1, 0},
                  .unwired = {.bandwidth = 16.0_GBps, .latency = 10ns}};
  IdVector<DeviceId, Device> devices;
  for (int i = 0; i < 3; ++i) devices.push_back({.name = "gpu", .kind = {}, .memory = 1_GiB});
  const Cluster cluster = Cluster::of_nodes(std::move(devices), {node});
  CHECK(cluster.link(gpu0, gpu1) == Link{.bandwidth = 50.0_GBps, .latency = 8ns});
  CHECK(cluster.link(gpu2, gpu1) == Link{.bandwidth = 25.0_GBps, .latency = 8ns});
  CHECK(cluster.link(gpu0, gpu2) == node.unwired);
}

TEST_CASE("between different nodes the slower network applies") {
  std::vector<Node> nodes{{.network = {.bandwidth = 2.0_GBps, .latency = 1ns}},
                          {.network = {.bandwidth = 3.0_GBps, .latency = 5ns}}};
  IdVector<DeviceId, Device> devices;
  for (int i = 0; i < 2; ++i) devices.push_back({.name = "gpu", .kind = {}, .memory = 1_GiB});
  const Cluster cluster = Cluster::of_nodes(std::move(devices), std::move(nodes));
  CHECK(cluster.link(gpu0, gpu1) == Link{.bandwidth = 2.0_GBps, .latency = 5ns});
  CHECK(cluster.link(gpu1, gpu0) == cluster.link(gpu0, gpu1));
}
