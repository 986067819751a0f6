#include <doctest/doctest.h>

#include "placers/feasible.h"
#include "placers/interface/registry.h"
#include "sim/engine/simulation.h"
#include "sim/error.h"
#include "tests/random_problems.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

std::optional<Duration> step(const Problem& problem, const std::string& name) {
  try {
    const StepResult result =
        simulate(problem, make_placer(name, Options(name))->place(problem, 1));
    if (!result.oom) return result.makespan;
  } catch (const InfeasibleError&) {
  }
  return std::nullopt;
}

/// `chains` chains of `length` ops of 10 ns, joined by tensors of `bytes`.
OpGraph side_by_side(int chains, int length, Bytes bytes) {
  OpGraphBuilder g;
  for (int c = 0; c < chains; ++c) {
    TensorId last{};
    for (int i = 0; i < length; ++i) {
      const OpId v =
          g.add_op({.name = "op" + std::to_string(c) + "_" + std::to_string(i), .compute = 10ns});
      if (i > 0) g.add_edge(last, v);
      last = g.add_tensor(v, bytes);
    }
  }
  return std::move(g).build();
}

}  // namespace

TEST_SUITE("placers") {
  TEST_CASE("auto is never slower than a quick placer, and fits where m_etf or m_sct do") {
    std::size_t solved = 0;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      CAPTURE(seed);
      const RandomProblem random({.ops = 25}, 3, seed);
      const Cluster tight = with_memory(random.cluster, gpu1, {1500});
      const Problem problem = random.under({}, tight);
      const auto own = step(problem, "auto");
      solved += own ? 1U : 0U;
      for (const char* name : {"single", "round_robin", "random", "least_loaded", "m_topo", "heft",
                               "m_etf", "m_sct", "metis", "scotch"}) {
        CAPTURE(name);
        const auto other = step(problem, name);
        if (!other) continue;
        REQUIRE(own);
        CHECK(*own <= *other);
      }
    }
    CHECK(solved >= 6);
  }

  TEST_CASE("auto reports its choice, and stops where no step can be shorter") {
    // Two chains of 3 x 10 ns on two devices: m_etf's 30 ns are the critical path.
    const OpGraph graph = side_by_side(2, 3, 1000_B);
    const Cluster cluster = gpus(2);
    const ProfiledCosts costs(graph, cluster);
    const Placement p = make_placer("auto", Options("auto"))->place({graph, cluster, costs}, 0);
    CHECK(p.detail == "m_etf: 30 ns; 2 placers run, no step is shorter");
    CHECK(p.placed_by == "m_etf");
  }

  TEST_CASE("a placement of two devices is found where weights and outputs leave little memory") {
    // 64 ops of 10 B weights that write 100 B each for the next op, on 2 devices: each cut in one
    // place needs 320 B of weights, 200 B for an op's input and output, 100 B for the copy.
    OpGraphBuilder g;
    TensorId last{};
    for (int i = 0; i < 64; ++i) {
      const OpId v =
          g.add_op({.name = "op" + std::to_string(i), .compute = 1ns, .persistent = 10_B});
      if (i > 0) g.add_edge(last, v);
      last = g.add_tensor(v, 100_B);
    }
    const OpGraph graph = std::move(g).build();
    const Cluster cluster = gpus(2, 530_B);
    const ProfiledCosts costs(graph, cluster);
    const Problem problem{graph, cluster, costs};
    const Feasible found = find_feasible(problem);
    REQUIRE(found.placement);
    CHECK_FALSE(simulate(problem, *found.placement).oom);
  }

  TEST_CASE("coarsen keeps chains with heavy tensors together and distributes them") {
    // Four chains of 4 x 10 ns; a transfer takes 1 us. Two devices: 80 ns each.
    const OpGraph graph = side_by_side(4, 4, 1000_B);
    const Cluster cluster = gpus(2);
    const ProfiledCosts costs(graph, cluster);
    const Problem problem{graph, cluster, costs};
    const Placement p = make_placer("coarsen", Options("coarsen"))->place(problem, 0);
    const StepResult result = simulate(problem, p);
    CHECK(result.transfers == 0);
    CHECK(result.makespan == 80ns);
  }

  //   a1(100) --50 B--> b1(100)     a1 and b2 share a group, a2 and b1 another: each group has a
  //   a2(100) --50 B--> b2(100)     device, and the two tensors cross at 100 ns, in both directions
  /// Duplex channels: both b run from 150 to 250. One channel per device: the second tensor waits
  /// for the first, and b2 runs from 200 to 300. All on one device take 400.
  TEST_CASE("coarsen plans with the engine's channels") {
    OpGraphBuilder g;
    const OpId a1 = g.add_op({.name = "a1", .compute = 100ns});
    const OpId a2 = g.add_op({.name = "a2", .compute = 100ns});
    const OpId b1 = g.add_op({.name = "b1", .compute = 100ns});
    const OpId b2 = g.add_op({.name = "b2", .compute = 100ns});
    g.add_edge(g.add_tensor(a1, 50_B), b1);
    g.add_edge(g.add_tensor(a2, 50_B), b2);
    for (const OpId v : {a1, b2}) g.colocate(v, "one");
    for (const OpId v : {a2, b1}) g.colocate(v, "two");
    const OpGraph graph = std::move(g).build();
    const Cluster cluster = gpus(2);
    const ProfiledCosts costs(graph, cluster);
    const auto planned = [&](Transfers transfers) {
      const Problem problem{graph, cluster, costs, {.transfers = transfers}};
      const Placement p = make_placer("coarsen", Options("coarsen"))->place(problem, 0);
      CHECK(to_us(simulate(problem, p).makespan) == p.facts.at("planned_step_us"));
      return p.facts.at("planned_step_us");
    };
    CHECK(planned(Transfers::duplex) == 0.25);
    CHECK(planned(Transfers::sequential) == 0.3);
  }

  TEST_CASE("coarsen stays on one device where transfers cost more than they save") {
    // A chain: no two ops can run at once.
    const OpGraph graph = side_by_side(1, 20, 1000_B);
    const Cluster cluster = gpus(4);
    const ProfiledCosts costs(graph, cluster);
    const Problem problem{graph, cluster, costs};
    CHECK(
        simulate(problem, make_placer("coarsen", Options("coarsen"))->place(problem, 0)).makespan ==
        200ns);
  }
}
