#include <doctest/doctest.h>

#include "sim/error.h"
#include "sim/problem/engine_options.h"
#include "tests/checker/recorded.h"
#include "tests/message.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;

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

TEST_SUITE("nodes") {
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
    CHECK(message<InputError>([&] {
            run(graph, unequal_machines({1, 1}, 1), pairs_on(graph, {gpu0, gpu1}),
                {.transfers = Transfers::staged});
          }) == "engine.transfers: staged needs one machine, and the cluster has 2 nodes");
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
}
