#include "placers/list/schedule.h"
#include "tests/prelude.h"
#include "tests/small_graphs.h"

namespace {

/// a(10) --100 B--> f(20) <-- b(10), and a --500 B--> c. Ids: a, b, c, f.
OpGraph fork_and_join(Duration c_time, Bytes of_b) {
  OpGraphBuilder g;
  const OpId a = g.add_op({.name = "a", .compute = 10ns});
  const OpId b = g.add_op({.name = "b", .compute = 10ns});
  const OpId c = g.add_op({.name = "c", .compute = c_time});
  const OpId f = g.add_op({.name = "f", .compute = 20ns});
  g.add_edge(g.add_tensor(a, 100_B), f);
  g.add_edge(g.add_tensor(b, of_b), f);
  g.add_edge(g.add_tensor(a, 500_B), c);
  return std::move(g).build();
}

}  // namespace

TEST_SUITE("list scheduler") {
  //   a(10) --100 B--> f(20) <--100 B-- b(10)     f is the favourite child of a
  //     \-----500 B--> c(5)
  // a runs on gpu0, b on gpu1, both until 10. Then f could start at 110 on either device: 10 + 100
  // for the input that is on the other. On no device can f start earlier than on gpu0, so gpu0
  // waits for f until 110, although c could start there at 10, and c ends at 110 + 20 + 5. (c is
  // not urgent before its input could be on gpu1, at 510.)
  TEST_CASE("a device waits for a favourite that could start as early, not earlier, on another") {
    const auto& [graph, cluster, costs, problem] = OwnedProblem(fork_and_join(5ns, 100_B), gpus(2));
    IdVector<OpId, OpId> favourite(graph.num_ops(), no_op);
    favourite[OpId{0}] = OpId{3};

    const auto waiting = list::schedule(problem, favourite, Variant::standard, {});
    REQUIRE(waiting.placement);
    CHECK(waiting.placement->device[OpId{3}] == gpu0);
    CHECK(waiting.placement->facts.at("planned_step_us") == 0.135);

    favourite[OpId{0}] = no_op;
    const auto greedy = list::schedule(problem, favourite, Variant::standard, {});
    CHECK(greedy.placement->facts.at("planned_step_us") == 0.130);  // c from 10, f from 110 on
  }

  //   a(10) --100 B--> f(20) <--300 B-- b(10)     f is the favourite child of a
  //     \-----500 B--> c(50)
  // a runs on gpu0, b on gpu1. On gpu0 f could start at 310, on gpu1 at 110: gpu0 does not wait for
  // it, and runs c from 10 to 60. If it waited until f has begun, c would end at 160.
  TEST_CASE("a device does not wait for a favourite that could start earlier on another") {
    const auto& [graph, cluster, costs, problem] =
        OwnedProblem(fork_and_join(50ns, 300_B), gpus(2));
    IdVector<OpId, OpId> favourite(graph.num_ops(), no_op);
    favourite[OpId{0}] = OpId{3};
    const auto found = list::schedule(problem, favourite, Variant::standard, {});
    REQUIRE(found.placement);
    CHECK(found.placement->device[OpId{3}] == gpu1);
    CHECK(found.placement->facts.at("planned_step_us") == 0.130);
    // The priority is the order of starts: a, b, c, f.
    for (const OpId v : graph.ops())
      CHECK(found.placement->priority[v] == 4 - static_cast<int>(index(v)));
  }

  //   a(10) --100 B--> f(20), 500 B of weights, the favourite child of a
  //     \-----500 B--> c(50)
  // On gpu0 lie 600 B of a's outputs: of 1000 B, 400 are left. f goes to gpu1, from 110 to 130, and
  // gpu0 runs c from 10 on.
  TEST_CASE("a device does not wait for a favourite that does not fit") {
    OpGraphBuilder g;
    const OpId a = g.add_op({.name = "a", .compute = 10ns});
    const OpId c = g.add_op({.name = "c", .compute = 50ns});
    const OpId f = g.add_op({.name = "f", .compute = 20ns, .persistent = 500_B});
    g.add_edge(g.add_tensor(a, 100_B), f);
    g.add_edge(g.add_tensor(a, 500_B), c);
    const auto& [graph, cluster, costs, problem] =
        OwnedProblem(std::move(g).build(), gpus(2, 1000_B));
    IdVector<OpId, OpId> favourite(graph.num_ops(), no_op);
    favourite[a] = f;
    const auto found = list::schedule(problem, favourite, Variant::standard, {});
    REQUIRE(found.placement);
    CHECK(found.placement->device == on({gpu0, gpu0, gpu1}).device);
    CHECK(found.placement->facts.at("planned_step_us") == 0.130);
  }

  // a and b run in parallel from 0 on, and leave 40 and 70 of 100 B. c needs 90.
  TEST_CASE("a stuck schedule is reported with the device that has most memory left") {
    OpGraphBuilder g;
    const OpId a = g.add_op({.name = "a", .compute = 10ns, .persistent = 60_B});
    const OpId b = g.add_op({.name = "b", .compute = 10ns, .persistent = 30_B});
    const OpId c = g.add_op({.name = "c", .compute = 10ns, .persistent = 90_B});
    g.add_control(a, c);
    g.add_control(b, c);
    const auto& [graph, cluster, costs, problem] =
        OwnedProblem(std::move(g).build(), gpus(2, 100_B));
    const auto stuck = list::schedule(problem, {}, Variant::standard, {});
    CHECK_FALSE(stuck.placement);
    CHECK(stuck.stuck ==
          "stuck with 2 of 3 ops placed: op 'c' needs 90 B of weights, 0 B while it runs and up to "
          "0 B for copies of its inputs; gpu1, the one with most memory left, has 70 B left above "
          "its peak");
  }

  // As above, and c reads 7 and 4 B of a, which is on gpu0.
  TEST_CASE("a stuck schedule counts the copies of inputs that other devices produce") {
    OpGraphBuilder g;
    const OpId a = g.add_op({.name = "a", .compute = 10ns, .persistent = 60_B});
    const OpId b = g.add_op({.name = "b", .compute = 10ns, .persistent = 30_B});
    const OpId c = g.add_op({.name = "c", .compute = 10ns, .persistent = 90_B});
    g.add_edge(g.add_tensor(a, 7_B), c);
    g.add_edge(g.add_tensor(a, 4_B), c);
    g.add_control(b, c);
    const auto& [graph, cluster, costs, problem] =
        OwnedProblem(std::move(g).build(), gpus(2, 100_B));
    const auto stuck = list::schedule(problem, {}, Variant::standard, {});
    CAPTURE(stuck.stuck);
    CHECK(stuck.stuck.find("up to 11 B for copies of its inputs; gpu1") != std::string::npos);
  }
}
