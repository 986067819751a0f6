#include <doctest/doctest.h>

#include "placers/list/schedule.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;

TEST_SUITE("list scheduler") {
  //   a(10) --100 B--> f(20) <--100 B-- b(10)     f is the favourite child of a
  //     \-----500 B--> c(5)
  // a runs on gpu0, b on gpu1, both until 10. Then f could start at 110 on either device: 10 + 100
  // for the input that is on the other. No device has f earlier than gpu0, so gpu0 waits for f
  // until 110, although c could start there at 10, and c ends at 110 + 20 + 5. (c is not urgent
  // before its input could be on gpu1, at 510.)
  TEST_CASE("a device waits for a favourite that could start as early, not earlier, elsewhere") {
    OpGraphBuilder g;
    const OpId a = g.add_op({.name = "a", .compute = 10ns});
    const OpId b = g.add_op({.name = "b", .compute = 10ns});
    const OpId c = g.add_op({.name = "c", .compute = 5ns});
    const OpId f = g.add_op({.name = "f", .compute = 20ns});
    g.add_edge(g.add_tensor(a, 100_B), f);
    g.add_edge(g.add_tensor(b, 100_B), f);
    g.add_edge(g.add_tensor(a, 500_B), c);
    const OpGraph graph = std::move(g).build();
    const Cluster cluster = gpus(2);
    const ProfiledCosts costs(graph, cluster);
    IdVector<OpId, OpId> favourite(graph.num_ops(), no_op);
    favourite[a] = f;

    const auto waiting = list::schedule({graph, cluster, costs}, favourite, Variant::standard, {});
    REQUIRE(waiting.placement);
    CHECK(waiting.placement->device[f] == gpu0);
    CHECK(waiting.placement->facts.at("planned_step_us") == 0.135);

    favourite[a] = no_op;
    const auto greedy = list::schedule({graph, cluster, costs}, favourite, Variant::standard, {});
    CHECK(greedy.placement->facts.at("planned_step_us") == 0.130);  // c from 10, f from 110 on
  }
}
