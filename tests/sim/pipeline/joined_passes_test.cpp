#include "sim/pipeline/joined_passes.h"

#include <doctest/doctest.h>

#include "sim/engine/simulation.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;
using namespace std::chrono_literals;

//   a(10 ms) --1 MB--> b(10 ms), three passes, stages on two GPUs; a hop takes 1 ms
TEST_SUITE("joined passes") {
  TEST_CASE("passes of a prompt run through stages one behind the other") {
    const auto pass = [] {
      OpGraphBuilder builder;
      const OpId a = builder.add_op(
          {.name = "a", .compute = 10ms, .persistent = Bytes{100}, .cache = Bytes{40}});
      const OpId b = builder.add_op(
          {.name = "b", .compute = 10ms, .persistent = Bytes{50}, .cache = Bytes{50}});
      builder.add_edge(builder.add_tensor(a, Bytes{1'000'000}), b);
      return std::move(builder).build();
    };
    const std::vector<OpGraph> passes{pass(), pass(), pass()};
    const OpGraph graph = joined_passes(passes);
    REQUIRE(graph.num_ops() == 6);
    Bytes persistent, cache;
    Placement two{.device = IdVector<OpId, DeviceId>(6)}, one = two;
    for (const OpId v : graph.ops()) {
      persistent += graph.op(v).persistent;
      cache += graph.cache(v);
      two.device[v] = graph.name(graph.micro_batch(v).first) == "b" ? DeviceId{1} : DeviceId{0};
    }
    CHECK(persistent == Bytes{150});
    CHECK(cache == Bytes{90});
    const Cluster cluster =
        Cluster::uniform(2, Bytes{1 << 30}, {.bandwidth = {1e9}, .latency = {}});
    const ProfiledCosts costs(graph, cluster);
    const auto makespan = [&](const Placement& placement, bool overlap) {
      return simulate({graph, cluster, costs, {.overlap = overlap}}, placement).makespan;
    };
    CHECK(makespan(one, true) == 60ms);
    CHECK(makespan(two, true) == 41ms);  // 3 x 10, a hop, 10
    // A hop holds both ends: the first stage sends three times.
    CHECK(makespan(two, false) == 43ms);
    const OpGraph alone = joined_passes(passes, 1);
    const ProfiledCosts costs_alone(alone, cluster);
    const Duration serial = simulate({alone, cluster, costs_alone, {}}, two).makespan;
    CHECK(serial > 63ms);  // 3 x (10 + 1 + 10), and two control edges
    CHECK(serial < 64ms);
  }
}
