#include "scenarios/run/experiment.h"

#include <doctest/doctest.h>

#include "placers/interface/registry.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

//   a(1) --1 B--> b(1)     each with `weights`
std::shared_ptr<const OpGraph> pair_of_ops(Bytes weights) {
  OpGraphBuilder g;
  const OpId a = g.add_op({.name = "a", .compute = 1ns, .persistent = weights});
  const OpId b = g.add_op({.name = "b", .compute = 1ns, .persistent = weights});
  g.add_edge(g.add_tensor(a, 1_B), b);
  return std::make_shared<const OpGraph>(std::move(g).build());
}

std::unique_ptr<Placer> with_fallback_on(const std::string& name) {
  return make_placer(name, Options(name, {{"fallback", {"true", {}, {}}}}));
}

}  // namespace

TEST_SUITE("experiment") {
  // m_etf sees ops of 60 B, and places both on one device of 200 B. The executed ops have 180 B
  // each, 361 B with their tensor: run again with 200 * 200 / 361 = 110 B on that device, it places
  // them on two.
  TEST_CASE("a placement that fits the graph given to the placer also fits the executed graph") {
    PreparedGraph prepared{.step = pair_of_ops(180_B), .placed = pair_of_ops(60_B)};
    prepared.mapped_op = IdVector<OpId, OpId>(2);
    prepared.mapped_op[OpId{0}] = OpId{0};
    prepared.mapped_op[OpId{1}] = OpId{1};
    ClusterChoice cluster;
    cluster.devices.emplace_back();
    cluster.devices.back().count = 2;
    cluster.devices.back().memory = 200_B;
    cluster.link = {.bandwidth = 1.0_GBps, .latency = 0ns};
    const auto costed = std::make_shared<const CostedGraph>(
        std::make_shared<const PreparedGraph>(std::move(prepared)), cluster);
    const Experiment experiment(costed, {});
    CHECK(experiment.step(experiment.place(*make_placer("m_etf"), 0)).simulate().oom);
    const Placement p = experiment.place(*with_fallback_on("m_etf"), 0);
    CHECK(p.placed_by.empty());  // m_etf itself, on a smaller memory
    CHECK(p.device[OpId{0}] != p.device[OpId{1}]);
    CHECK(p.detail.find("ran 2 times") != std::string::npos);
    CHECK_FALSE(experiment.step(p).simulate().oom);

    // A placer that ignores memory gives the same placement again. Two of the four placements of
    // two ops put them on two devices, and fit.
    CHECK(experiment.step(experiment.place(*make_placer("single"), 0)).simulate().oom);
    const Placement apart = experiment.place(*with_fallback_on("single"), 0);
    CHECK(apart.placed_by == "fallback:all");
    CHECK_FALSE(experiment.step(apart).simulate().oom);
  }

  // A chain of four ops: the placer sees a of 1 B, b, c and d of 40 B, so m_etf places all on one
  // device of 200 B, and with less memory no margin helps. In the step, a has 150 B and each other
  // 60 B: only b, c, d together, without a, fit devices of 200 B.
  TEST_CASE("if no placement of the placer fits, fallback takes any that does") {
    const auto chain = [](std::initializer_list<Bytes> weights) {
      OpGraphBuilder g;
      TensorId last{};
      char name = 'a';
      for (const Bytes w : weights) {
        const OpId v = g.add_op({.name = std::string(1, name++), .compute = 1ns, .persistent = w});
        if (index(v) > 0) g.add_edge(last, v);
        last = g.add_tensor(v, 1_B);
      }
      return std::make_shared<const OpGraph>(std::move(g).build());
    };
    PreparedGraph prepared{.step = chain({150_B, 60_B, 60_B, 60_B}),
                           .placed = chain({1_B, 40_B, 40_B, 40_B})};
    prepared.mapped_op = IdVector<OpId, OpId>(4);
    for (const OpId v : prepared.step->ops()) prepared.mapped_op[v] = v;
    ClusterChoice cluster;
    cluster.devices.emplace_back();
    cluster.devices.back().count = 2;
    cluster.devices.back().memory = 200_B;
    cluster.link = {.bandwidth = 1.0_GBps, .latency = 0ns};
    const Experiment experiment(
        std::make_shared<const CostedGraph>(
            std::make_shared<const PreparedGraph>(std::move(prepared)), cluster),
        {});
    for (const char* name : {"m_etf", "m_topo", "m_sct"}) {
      CAPTURE(name);
      const Placement p = experiment.place(*with_fallback_on(name), 0);
      CHECK(p.placed_by == "fallback:all");
      CHECK_FALSE(experiment.step(p).simulate().oom);
      const bool a_apart = p.device[OpId{0}] != p.device[OpId{1}];
      CHECK(a_apart);
      CHECK(p.device[OpId{1}] == p.device[OpId{3}]);
    }
    const Placement alone = experiment.place(*make_placer("m_etf"), 0);
    CHECK(experiment.step(alone).simulate().oom);
  }
}
