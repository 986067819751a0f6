#include "sim/engine/batch_estimate.h"

#include <doctest/doctest.h>

#include "sim/error.h"
#include "tests/random_problems.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

/// The simpler step, one placement at a time; every time rounded up to whole `unit`s.
Duration estimate(const Problem& p, const Placement& placement, Duration unit) {
  const auto rounded = [&](Duration time) { return (time + unit - 1ns) / unit * unit; };
  IdVector<OpId, Duration> end(p.graph.num_ops());
  IdVector<DeviceId, Duration> free_at(p.cluster.num_devices());
  Duration last{};
  for (const OpId v : p.graph.ops()) {
    const DeviceId d = placement.device[v];
    Duration start = free_at[d];
    for (const EdgeId e : p.graph.in_edges(v)) {
      const auto& [u, reader, tensor] = p.graph.edge(e);
      const DeviceId src = placement.device[u];
      const bool sent = src != d && !p.graph.instant(tensor);
      start = std::max(start, end[u] + (sent ? rounded(p.costs.transfer(tensor, src, d)) : 0ns));
    }
    free_at[d] = end[v] = start + rounded(p.costs.compute(v, d));
    last = std::max(last, end[v]);
  }
  return last;
}

Placement anywhere(const OpGraph& graph, std::uint32_t devices, Random& random) {
  Placement p{.device = IdVector<OpId, DeviceId>(graph.num_ops())};
  for (DeviceId& d : p.device) d = DeviceId{random.below(devices)};
  return p;
}

}  // namespace

TEST_SUITE("batch estimate") {
  TEST_CASE("each of sixteen placements as one alone, moved ops too") {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      Random random(seed);
      const OpGraph graph = random_graph({.ops = 1 + random.below(80)}, random);
      const std::uint32_t devices = seed % 10 == 0 ? 256 : 1 + random.below(6);
      const Cluster cluster =
          Cluster::uniform(devices, Bytes{1}, {.bandwidth = {1e9}, .latency = 7ns});
      const ProfiledCosts costs(graph, cluster);
      const Problem problem{graph, cluster, costs};
      BatchEstimate batch(problem);
      CHECK(batch.unit() == 1ns);
      std::vector<Placement> placements;
      for (std::size_t lane = 0; lane < BatchEstimate::lanes; ++lane) {
        placements.push_back(anywhere(graph, devices, random));
        batch.place(lane, placements.back());
      }
      for (int round = 0; round < 3; ++round) {
        const BatchEstimate::Times times = batch.run();
        for (std::size_t lane = 0; lane < BatchEstimate::lanes; ++lane) {
          CHECK(times[lane] == estimate(problem, placements[lane], 1ns));
          const OpId v{random.below(static_cast<std::uint32_t>(graph.num_ops()))};
          placements[lane].device[v] = DeviceId{random.below(devices)};
          batch.move(lane, v, placements[lane].device[v]);
        }
      }
    }
  }

  TEST_CASE("long steps are counted in coarser units, rounded up") {
    // 3 s + 1 ns, then 2 s on the other device, 1000 B in between in 1 us: some 5 s, of which 2^31
    // units of 4 ns hold 8.6 s (of 2 ns 4.3 s). 3 s + 4 ns, 1 us, 2 s.
    OpGraphBuilder b;
    const OpId u = b.add_op({.name = "u", .compute = 3s + 1ns});
    const OpId v = b.add_op({.name = "v", .compute = 2s});
    b.add_edge(b.add_tensor(u, Bytes{1000}), v);
    const OpGraph graph = std::move(b).build();
    const Cluster cluster = Cluster::uniform(2, Bytes{1}, {.bandwidth = {1e9}, .latency = {}});
    const ProfiledCosts costs(graph, cluster);
    BatchEstimate batch({graph, cluster, costs});
    CHECK(batch.unit() == 4ns);
    batch.move(3, OpId{1}, DeviceId{1});
    const BatchEstimate::Times times = batch.run();
    CHECK(times[0] == 5s + 4ns);
    CHECK(times[3] == 5s + 1us + 4ns);
  }

  TEST_CASE("devices that differ are refused") {
    const OpGraph graph = std::move(OpGraphBuilder{}).build();
    IdVector<DeviceId, Device> devices;
    devices.push_back({.name = "a", .kind = {}});
    devices.push_back({.name = "b", .kind = {}, .memory = {}, .speed = 2.0});
    const Cluster cluster = Cluster::uniform(std::move(devices), {.bandwidth = {1e9}});
    const ProfiledCosts costs(graph, cluster);
    CHECK_THROWS_AS(BatchEstimate({graph, cluster, costs}), InputError);
  }
}
