#include "scenarios/run/experiment.h"

#include <doctest/doctest.h>

#include "placers/registry.h"
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

}  // namespace

TEST_SUITE("experiment") {
  // m_etf sees ops of 60 B, which it puts side by side on one device of 200 B. The ops that run
  // have 180 B each, and so 361 B beside their tensor: asked again with 200 * 200 / 361 = 110 B on
  // that device, it puts them apart.
  TEST_CASE("a placement that fits what the placer sees also fits what runs") {
    PreparedGraph prepared{.step = pair_of_ops(180_B), .placed = pair_of_ops(60_B)};
    prepared.stands_for = IdVector<OpId, OpId>(2);
    prepared.stands_for[OpId{0}] = OpId{0};
    prepared.stands_for[OpId{1}] = OpId{1};
    ClusterChoice cluster;
    cluster.devices.emplace_back();
    cluster.devices.back().count = 2;
    cluster.devices.back().memory = 200_B;
    cluster.link = {.bandwidth = 1.0_GBps, .latency = 0ns};
    const auto costed = std::make_shared<const CostedGraph>(
        std::make_shared<const PreparedGraph>(std::move(prepared)), cluster);
    const Experiment experiment(costed, {});
    const Placement p = experiment.place(*make_placer("m_etf", Options("m_etf")), 0);
    CHECK(p.device[OpId{0}] != p.device[OpId{1}]);
    CHECK(p.detail.find("asked 2 times") != std::string::npos);
    CHECK_FALSE(experiment.step(p).simulate().oom);

    // A placer that does not look at memory gives the same answer again, which then runs out of it.
    const Placement single = experiment.place(*make_placer("single", Options("single")), 0);
    CHECK(experiment.step(single).simulate().oom);
  }
}
