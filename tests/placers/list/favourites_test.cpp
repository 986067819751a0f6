#include "placers/interface/registry.h"
#include "placers/list/schedule.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"

namespace {

/// a(10) --100 B--> f(20) <-- b(10), and a --500 B--> c. Ids: a, b, c, f.
OpGraph fork_and_join(Duration c_time, Bytes of_b) {
  return graph_of(fmt::format("a10; b10; c{}; f20; a -100> f; b -{}> f; a -500> c", c_time.count(),
                              of_b.count));
}

}  // namespace

TEST_SUITE_BEGIN("list scheduler");
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

// f is the favourite child of a. gpu0 waits for it until 110, but from 60 on c is urgent, which
// could then start on gpu1, too; nothing runs before.
TEST_CASE("a device that waits for a favourite runs what could start on any other device") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a10 -50> c5; b10 -100> f20; a -100> f"), gpus(2));
  IdVector<OpId, OpId> favourite(graph.num_ops(), no_op);
  favourite[*graph.find("a")] = *graph.find("f");
  const auto found = list::schedule(problem, favourite, Variant::standard, {});
  REQUIRE(found.placement);
  CHECK(found.placement->device[*graph.find("c")] == gpu0);
  CHECK(found.placement->facts.at("planned_step_us") == 0.130);  // c from 60, f from 110 on
}

//   a(10) --100 B--> f(20) <--300 B-- b(10)     f is the favourite child of a
//     \-----500 B--> c(50)
// a runs on gpu0, b on gpu1. On gpu0 f could start at 310, on gpu1 at 110: gpu0 does not wait for
// it, and runs c from 10 to 60. If it waited until f has begun, c would end at 160.
TEST_CASE("a device does not wait for a favourite that could start earlier on another") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(fork_and_join(50ns, 300_B), gpus(2));
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

// a and b run in parallel from 0 on, and leave 40 and 70 of 100 B, or 70 and 40. c needs 90.
TEST_CASE("a stuck schedule is reported with the device that has most memory left") {
  for (const auto& [weights, roomiest] :
       {std::pair{"a10,w60; b10,w30", "gpu1"}, {"a10,w30; b10,w60", "gpu0"}}) {
    const auto& [graph, cluster, costs, problem] =
        OwnedProblem(graph_of(fmt::format("{}; a ~> c10,w90; b ~> c", weights)), gpus(2, 100_B));
    const auto stuck = list::schedule(problem, {}, Variant::standard, {});
    CHECK_FALSE(stuck.placement);
    CHECK(stuck.stuck ==
          fmt::format("stuck with 2 of 3 ops placed: op 'c' needs 90 B of weights, 0 B while it "
                      "runs and up to 0 B for copies of its inputs; {}, the one with most memory "
                      "left, has 70 B left above its peak",
                      roomiest));
  }
}

// c needs 50 + 60 B beside 10 B of weights, and its group is on gpu0; gpu1 is empty.
TEST_CASE("a stuck op of a placed group is reported with the device of its group") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a10,w10,c:g -50> c10,t60,c:g"), gpus(2, 100_B));
  CHECK(list::schedule(problem, {}, Variant::standard, {})
            .stuck.ends_with("; gpu0, where its group is, has 40 B left above its peak"));
}

// As above, and c reads 7 and 4 B of a, which is on gpu0.
TEST_CASE("a stuck schedule counts the copies of inputs that other devices produce") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a10,w60; b10,w30; a -7> c10,w90; a -4> c; b ~> c"), gpus(2, 100_B));
  const auto stuck = list::schedule(problem, {}, Variant::standard, {});
  CAPTURE(stuck.stuck);
  CHECK(stuck.stuck.find("up to 11 B for copies of its inputs; gpu1") != std::string::npos);
}

// The answer of a placer is the first plan, of five with more and more room, that does not run
// out of memory when it is simulated. Here each plan is made and simulated by itself.
TEST_CASE("a placement is the first of five plans that fits, with room for groups or without") {
  std::size_t by_room = 0, later = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const RandomProblem random({.ops = 30, .degree = 3, .reach = 20}, 3, seed);
    Cluster cluster = random.cluster;
    for (const DeviceId d : cluster.devices())
      cluster.set_memory(d, Bytes{1500 + 250 * static_cast<std::int64_t>(seed % 8)});
    const Problem problem{random.graph, cluster, random.costs, {}};
    std::string answers[2];
    for (const bool reserve : {false, true}) {
      INFO("seed ", seed, ", reserve ", reserve);
      std::string expected = "none";
      double attempts = 0;
      const std::pair<list::MemoryMargin, std::string_view> plans[] = {
          {{}, ""},
          {{.spare = 1},
           "placed with 100 % of the memory, 1 x the largest member's need kept free"},
          {{.spare = 2},
           "placed with 100 % of the memory, 2 x the largest member's need kept free"},
          {{.memory_share = 0.9, .spare = 2},
           "placed with 90 % of the memory, 2 x the largest member's need kept free"},
          {{.keep_all = true}, "placed with nothing freed"}};
      for (auto [margin, text] : plans) {
        ++attempts;
        margin.reserve = reserve;
        const auto plan = list::schedule(problem, {}, Variant::standard, margin);
        if (!plan.placement || simulate(problem, *plan.placement).oom) continue;
        expected =
            fmt::format("{} {} {}", attempts, plan.placement->facts.at("planned_step_us"), text);
        break;
      }
      std::string& found = answers[reserve ? 1 : 0];
      try {
        const auto placement = list::place(problem, {.reserve = reserve}, "m_etf");
        found = fmt::format("{} {} {}", placement.facts.at("attempts"),
                            placement.facts.at("planned_step_us"),
                            placement.detail.substr(0, placement.detail.find("; at first: ")));
      } catch (const InfeasibleError&) {
        found = "none";
      }
      CHECK(found == expected);
      later += found != "none" && !found.starts_with("1 ");
    }
    by_room += answers[0] != answers[1];
  }
  CHECK(by_room > 5);
  CHECK(later > 5);
}
