#include "sim/objective/step_estimate.h"

#include "sim/error.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"

namespace {

/// The simplified step for one placement; every time rounded up to whole `unit`s. Channels by name,
/// and sent tensors in a map.
Duration estimate(const Problem& p, const Placement& placement, std::span<const OpId> order,
                  Duration unit) {
  const auto rounded = [&](Duration time) { return (time + unit - 1ns) / unit * unit; };
  const auto names = [&](DeviceId src, DeviceId dst) -> std::vector<std::string> {
    const std::string from = std::to_string(index(src)), to = std::to_string(index(dst));
    switch (p.engine.transfers) {
      case Transfers::sequential:
        return {from, to};
      case Transfers::duplex:
      case Transfers::staged:
        return {"out of " + from, "into " + to};
      case Transfers::shared:
        return {"bus"};
      case Transfers::parallel:
        break;
    }
    return {};
  };
  IdVector<EdgeId, Duration> there(p.graph.num_edges());
  IdVector<DeviceId, Duration> free_at(p.cluster.num_devices());
  std::map<std::string, Duration> channel;
  Duration last{};
  for (const OpId v : order) {
    const DeviceId src = placement.device[v];
    Duration start = free_at[src];
    for (const EdgeId e : p.graph.in_edges(v)) start = std::max(start, there[e]);
    const Duration end = free_at[src] = start + rounded(p.costs.compute(v, src));
    last = std::max(last, end);
    for (const TensorId t : p.graph.outputs(v)) {
      std::map<DeviceId, Duration> copies;
      for (const EdgeId e : p.graph.readers(t)) {
        const DeviceId dst = placement.device[p.graph.edge(e).dst];
        there[e] = end;
        if (src == dst || p.graph.instant(t)) continue;
        if (p.engine.cache_tensors && copies.contains(dst)) {
          there[e] = copies[dst];
          continue;
        }
        for (const std::string& c : names(src, dst)) there[e] = std::max(there[e], channel[c]);
        there[e] += rounded(p.costs.transfer(t, src, dst));
        for (const std::string& c : names(src, dst)) channel[c] = there[e];
        copies[dst] = there[e];
      }
    }
  }
  return last;
}

/// A random topological order.
std::vector<OpId> any_order(const OpGraph& graph, Random& random) {
  IdVector<OpId, std::size_t> unmet(graph.num_ops());
  std::vector<OpId> ready, order;
  for (const OpId v : graph.ops()) {
    unmet[v] = graph.in_edges(v).size();
    if (unmet[v] == 0) ready.push_back(v);
  }
  while (!ready.empty()) {
    std::swap(ready[random.below(static_cast<std::uint32_t>(ready.size()))], ready.back());
    const OpId v = ready.back();
    ready.pop_back();
    order.push_back(v);
    for (const EdgeId e : graph.out_edges(v))
      if (--unmet[graph.edge(e).dst] == 0) ready.push_back(graph.edge(e).dst);
  }
  return order;
}

Placement anywhere(const OpGraph& graph, std::uint32_t devices, Random& random) {
  Placement p{.device = IdVector<OpId, DeviceId>(graph.num_ops())};
  for (DeviceId& d : p.device) d = DeviceId{random.below(devices)};
  return p;
}

}  // namespace

TEST_SUITE_BEGIN("batch estimate");
TEST_CASE("each of sixteen placements is estimated as one alone, with moved ops, too") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const OpGraph graph = random_graph({.ops = 1 + random.below(80)}, random);
    const std::uint32_t devices = seed % 10 == 0 ? 128 : 1 + random.below(6);
    const Cluster cluster =
        Cluster::uniform(devices, Bytes{1}, {.bandwidth = {1e9}, .latency = 7ns});
    const ProfiledCosts costs(graph, cluster);
    const EngineOptions engine{.transfers = static_cast<Transfers>(seed % 5),
                               .cache_tensors = seed % 3 > 0};
    const Problem problem{graph, cluster, costs, engine};
    StepEstimate batch(problem);
    CHECK(batch.unit() == 1ns);
    // Half of the lanes have equal placements, as is common in a search.
    std::vector<Placement> placements;
    const Placement base = anywhere(graph, devices, random);
    for (std::size_t lane = 0; lane < StepEstimate::lanes; ++lane) {
      placements.push_back(seed % 2 == 0 ? base : anywhere(graph, devices, random));
      batch.place(lane, placements.back());
    }
    for (int round = 0; round < 3; ++round) {
      const std::vector<OpId> order = any_order(graph, random);
      const StepEstimate::Times times = batch.run(order);
      for (std::size_t lane = 0; lane < StepEstimate::lanes; ++lane) {
        CHECK(times[lane] == estimate(problem, placements[lane], order, 1ns));
        const OpId v{random.below(static_cast<std::uint32_t>(graph.num_ops()))};
        placements[lane].device[v] = DeviceId{random.below(devices)};
        batch.move(lane, v, placements[lane].device[v]);
      }
    }
  }
}

TEST_CASE("channels are held in the order of the ops that send") {
  //   a(10) --100 B--> c(5)    a and b on gpu0, c and d on gpu1; 1 ns per byte.
  //   b(10) --200 B--> d(5)    a, b: c has its input at 110, d, as the channel is taken, at 310;
  //   b, a: d at 210, c at 310. Either ends at 315; without channels at 10 + 10 + 200 + 5.
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a10; b10; c5; d5; a -100> c; b -200> d"), gpus(2, Bytes{1}));
  constexpr OpId a{0}, b{1}, c{2}, d{3};
  for (const Transfers transfers : {Transfers::sequential, Transfers::parallel}) {
    StepEstimate batch({graph, cluster, costs, {.transfers = transfers}});
    batch.move(0, c, DeviceId{1});
    batch.move(0, d, DeviceId{1});
    const Duration expected = transfers == Transfers::sequential ? 315ns : 225ns;
    CHECK(batch.run(std::vector{a, b, c, d})[0] == expected);
    CHECK(batch.run(std::vector{a, b, c, d})[1] == 30ns);
  }
}

TEST_CASE("long steps are counted in coarser units, rounded up") {
  // 3 s + 1 ns, then 2 s on the other device, 1000 B in between in 1 us: some 5 s, of which 2^31
  // units of 4 ns hold 8.6 s (of 2 ns 4.3 s). 3 s + 4 ns, 1 us, 2 s.
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("u3000000001 -1000> v2000000000"), gpus(2, Bytes{1}));
  constexpr OpId u{0}, v{1};
  StepEstimate batch({graph, cluster, costs});
  CHECK(batch.unit() == 4ns);
  batch.move(3, OpId{1}, DeviceId{1});
  const StepEstimate::Times times = batch.run(std::vector{u, v});
  CHECK(times[0] == 5s + 4ns);
  CHECK(times[3] == 5s + 1us + 4ns);
}

TEST_CASE("different devices are rejected") {
  const OpGraph graph = std::move(OpGraphBuilder{}).build();
  IdVector<DeviceId, Device> devices;
  devices.push_back({.name = "a", .kind = {}});
  devices.push_back({.name = "b", .kind = {}, .memory = {}, .speed = 2.0});
  const Cluster cluster = Cluster::uniform(std::move(devices), {.bandwidth = {1e9}});
  const ProfiledCosts costs(graph, cluster);
  CHECK_FALSE(StepEstimate::suits({graph, cluster, costs}));
  CHECK_THROWS_AS(StepEstimate({graph, cluster, costs}), InputError);
}
