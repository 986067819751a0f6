#include "tests/placers/exact/brute_force.h"

#include "placers/interface/registry.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"

namespace {

/// Ops of the given times; edges such as {0, 2}: op 2 reads what op 0 writes, `size` bytes.
OpGraph graph_of_edges(std::initializer_list<Duration> times,
                       std::initializer_list<std::pair<int, int>> edges, Bytes size = 1_B) {
  OpGraphBuilder b;
  std::vector<TensorId> outputs;
  for (const Duration t : times) {
    const OpId v = b.add_op({.name = std::to_string(b.num_ops()), .compute = t});
    outputs.push_back(b.add_tensor(v, size));
  }
  for (const auto& [from, to] : edges)
    b.add_edge(outputs[static_cast<std::size_t>(from)], static_cast<OpId>(to));
  return std::move(b).build();
}

/// Compares one placer with the best of all placements and with the bounds.
void check_against_best(const PlacerEntry& entry, const Problem& problem,
                        const std::optional<Best>& best) {
  Placement p;
  try {
    p = make_placer(entry.name)->place(problem, 1);
  } catch (const InputError&) {
    return;  // needs an option
  } catch (const InfeasibleError&) {
    return;
  }
  const StepResult r = simulate(problem, p);
  if (r.oom) return;
  REQUIRE(best);
  CHECK(r.makespan >= best->makespan);
  for (const GroupId g : problem.graph.groups()) {
    for (const OpId v : problem.graph.members(g))
      CHECK(p.device[v] == p.device[problem.graph.members(g)[0]]);
  }
}

/// A problem for which the guarantee of m-ETF was proved: transfers in parallel, each edge a tensor
/// of its own; memory is one number per op and never freed (weights); no groups; equal devices.
struct TheoremProblem {
  OpGraph graph;
  Cluster cluster;
  double longest_transfer;  // ns
  double rho;               // longest transfer / shortest op

  /// Transfers of up to `longest_allowed` ns, ops of 10 to 39 ns.
  static TheoremProblem make(Random& random, std::uint32_t longest_allowed) {
    const std::uint32_t ops = 3 + random.below(6);
    const std::uint32_t devices = 2 + random.below(2);
    std::int64_t longest = 0, least_compute = 1'000'000, all_weights = 0, most_weights = 0;
    OpGraphBuilder b;
    for (std::uint32_t i = 0; i < ops; ++i) {
      const std::int64_t compute = 10 + random.below(30);
      const std::int64_t weights = 1 + random.below(20);
      least_compute = std::min(least_compute, compute);
      most_weights = std::max(most_weights, weights);
      all_weights += weights;
      const OpId v = b.add_op(
          {.name = std::to_string(i), .compute = Duration{compute}, .persistent = Bytes{weights}});
      for (std::uint32_t u = 0; u < i; ++u) {
        if (random.below(3) > 0) continue;
        // Without size, so that it takes no memory; its transfer time is set below.
        const TensorId t = b.add_tensor(OpId{u}, 0_B);
        const std::int64_t time = random.below(longest_allowed + 1);
        b.set_transfer(t, Duration{time});
        b.add_edge(t, v);
        longest = std::max(longest, time);
      }
    }
    // From barely enough for all ops together to enough for all on one device.
    const double most = static_cast<double>(all_weights + most_weights);
    const double least = most / static_cast<double>(devices);
    const Bytes memory = (least + random.uniform() * (most - least)) * Bytes{1};
    return {std::move(b).build(),
            Cluster::uniform(devices, memory, {.bandwidth = 1.0_GBps, .latency = 0ns}),
            static_cast<double>(longest),
            static_cast<double>(longest) / static_cast<double>(least_compute)};
  }
};

/// A number of devices that have memory for every ready op throughout; the guarantee needs one.
/// Equation 11: n (1 - 1 / ((1 - J) K)), rounded up, where K = n M / (all weights) and J = (most
/// weights of one op) / M, which is n - all / (M - most).
std::int64_t always_sufficient_devices(const OpGraph& graph, const Cluster& cluster) {
  Bytes all, most;
  for (const OpId v : graph.ops()) {
    all += graph.op(v).persistent;
    most = std::max(most, graph.op(v).persistent);
  }
  const Bytes left = cluster.device(gpu0).memory - most;
  if (left <= Bytes{}) return 0;
  return static_cast<std::int64_t>(cluster.num_devices()) - all.count / left.count;
}

/// Calls `check` with `count` instances, the number of devices and that of those that always
/// suffice, and the placement of `placer` with its step.
void each_theorem_problem(const char* placer, std::uint64_t seed, int count, bool slow_links,
                          const auto& check) {
  Random random(seed);
  for (int instance = 0; instance < count;) {
    // Short transfers: rho is at most 1.
    const TheoremProblem p = TheoremProblem::make(random, slow_links ? 1 + random.below(60) : 10);
    const std::int64_t sufficient = always_sufficient_devices(p.graph, p.cluster);
    if (sufficient < 1) continue;
    ++instance;
    CAPTURE(instance);
    const ProfiledCosts costs(p.graph, p.cluster);
    const Problem problem{p.graph,
                          p.cluster,
                          costs,
                          {.transfers = Transfers::parallel, .queue = ReadyOrder::priority}};
    const Placement placement = make_placer(placer)->place(problem, 1);
    const StepResult step = simulate(problem, placement);
    REQUIRE_FALSE(step.oom);
    check(p, static_cast<double>(p.cluster.num_devices()), static_cast<double>(sufficient),
          placement, step);
  }
}

}  // namespace

TEST_SUITE_BEGIN("brute_force");
TEST_CASE("the optimum without communication, derived by hand") {
  // A chain gains nothing from a second device.
  CHECK(optimal_without_communication(graph_of_edges({2ns, 3ns, 4ns}, {{0, 1}, {1, 2}}), 2) == 9ns);
  // 2 + 2 | 3, 2 + 3 | 2 or all on one: 4, 5, 7.
  CHECK(optimal_without_communication(graph_of_edges({2ns, 2ns, 3ns}, {}), 2) == 4ns);
  CHECK(optimal_without_communication(graph_of_edges({2ns, 2ns, 3ns}, {}), 3) == 3ns);
  CHECK(optimal_without_communication(graph_of_edges({2ns, 2ns, 3ns}, {}), 1) == 7ns);
  // Longest first: 3 + 3 | 2 + 2 + 2 takes 6, while taking them by id (2, 2, 2, 3, 3) takes 7.
  CHECK(optimal_without_communication(graph_of_edges({2ns, 2ns, 2ns, 3ns, 3ns}, {}), 2) == 6ns);
  //  0(1) -> 1(4)     The second device cannot run 1 at time 0; running 2 first there
  //  2(5)             costs nothing: 0, 1 | 2 takes 5.
  CHECK(optimal_without_communication(graph_of_edges({1ns, 4ns, 5ns}, {{0, 1}}), 2) == 5ns);
  CHECK(optimal_without_communication(graph_of_edges({}, {}), 2) == 0ns);
}

TEST_CASE("the best placement trades transfers against parallel work") {
  //  0(10) -> 1(10), 0 -> 2(10): the third op goes to the second device if its input takes less
  //  than 10: 10 + t + 10 against 30.
  const Cluster two = gpus(2);
  const OpGraph cheap = graph_of_edges({10ns, 10ns, 10ns}, {{0, 1}, {0, 2}}, 9_B);
  const ProfiledCosts cheap_costs(cheap, two);
  const auto shared = best_placement({cheap, two, cheap_costs});
  REQUIRE(shared);
  CHECK(shared->makespan == 29ns);
  CHECK(shared->placement.device[OpId{1}] != shared->placement.device[OpId{2}]);

  const OpGraph dear = graph_of_edges({10ns, 10ns, 10ns}, {{0, 1}, {0, 2}}, 11_B);
  const ProfiledCosts dear_costs(dear, two);
  CHECK(best_placement({dear, two, dear_costs})->makespan == 30ns);
  const Cluster small = gpus(2, 10_B);  // not even the first op's output fits
  CHECK_FALSE(best_placement({dear, small, dear_costs}));
}

TEST_CASE("no placer beats the best placement, which obeys the bounds") {
  Random random(1);
  const auto engines = all_engines();
  std::size_t infeasible = 0;
  const std::uint64_t rounds = thorough() ? 100 : 25;
  for (std::uint64_t seed = 0; seed < rounds; ++seed) {
    CAPTURE(seed);
    const RandomProblem p({.ops = 2 + random.below(6)}, 2 + random.below(2), seed);
    EngineOptions engine = engines[random.below(static_cast<std::uint32_t>(engines.size()))];
    engine.queue = ReadyOrder::fifo;
    const std::optional<Best> ample = best_placement(p.under(engine));
    REQUIRE(ample);
    CHECK(ample->makespan >= lower_bounds(p.graph, p.cluster, p.costs).best());
    const bool equal = std::ranges::all_of(
        p.cluster.devices(), [&](DeviceId d) { return p.cluster.device(d).speed == 1.0; });
    if (equal)
      CHECK(ample->makespan >= optimal_without_communication(p.graph, p.cluster.num_devices()));
    // As much memory as the best placement needs, then less and less.
    const StepResult needs = simulate(p.under(engine), ample->placement);
    for (const double fraction : {1.0, 0.8, 0.6}) {
      Cluster tight = p.cluster;
      for (const DeviceId d : tight.devices())
        tight = with_memory(tight, d, fraction * needs.devices[d].peak);
      const Problem problem = p.under(engine, tight);
      const std::optional<Best> best = best_placement(problem);
      if (fraction == 1.0) CHECK((best && best->makespan == ample->makespan));
      if (!best) ++infeasible;
      if (best) CHECK(lower_bounds(p.graph, tight, p.costs).fits_in_memory);
      for (const PlacerEntry& entry : placers()) {
        CAPTURE(entry.name);
        check_against_best(entry, problem, best);
      }
    }
  }
  CHECK(infeasible > rounds / 5);
}

TEST_CASE("m_etf keeps its guarantee") {
  std::size_t short_of_memory = 0;
  double worst = 0.0;
  each_theorem_problem(
      "m_etf", 1, 1500, true,
      [&](const TheoremProblem& p, double n, double r, const Placement& placement,
          const StepResult& step) {
        if (r < n) ++short_of_memory;
        CHECK(*from_us(placement.facts.at("planned_step_us")) == step.makespan);
        const auto makespan = static_cast<double>(step.makespan.count());
        const auto optimum = [&](double devices) {
          return static_cast<double>(
              optimal_without_communication(p.graph, static_cast<std::size_t>(devices)).count());
        };
        // Equations 9 and 10 of Baechi (extended paper), theorem 1.
        CHECK(makespan <= (2.0 + p.rho) * optimum(r) + 1e-6);
        CHECK(makespan <= (1.0 + n / r + p.rho) * optimum(n) + 1e-6);
        worst = std::max(worst, makespan / optimum(n));
      });
  CHECK(short_of_memory > 500);
  CHECK(worst > 1.5);  // the instances are not all easy
}

TEST_CASE("m_sct keeps its guarantee") {
  each_theorem_problem(
      "m_sct", 3, 500, false,
      [](const TheoremProblem& p, double n, double r, const Placement&, const StepResult& step) {
        const double alpha = (1.0 + p.rho) / (1.0 + 0.1 * p.rho);  // 0.1: the rounding threshold
        for (std::size_t k = 1; k <= p.cluster.num_devices(); ++k) {
          // Theorem 6, for any number k of devices.
          const auto best = static_cast<double>(optimal_without_communication(p.graph, k).count());
          CHECK(static_cast<double>(step.makespan.count()) <=
                (static_cast<double>(k) / r + alpha) * best + (n - r) / r * p.longest_transfer +
                    1e-6);
        }
      });
}

TEST_CASE("with ample memory m_etf is ETF and keeps its guarantee") {
  Random random(2);
  for (int i = 0; i < 500; ++i) {
    CAPTURE(i);
    const TheoremProblem p = TheoremProblem::make(random, 1 + random.below(60));
    Cluster ample = p.cluster;
    for (const DeviceId d : ample.devices()) ample = with_memory(ample, d, 1_GiB);
    const ProfiledCosts costs(p.graph, ample);
    const Problem problem{
        p.graph, ample, costs, {.transfers = Transfers::parallel, .queue = ReadyOrder::priority}};
    const Placement placement = make_placer("m_etf")->place(problem, 1);
    const auto makespan = static_cast<double>(simulate(problem, placement).makespan.count());
    const auto n = static_cast<double>(ample.num_devices());
    const Duration best = optimal_without_communication(p.graph, ample.num_devices());
    // Hwang et al., SIAM J. Comput. 1989: (2 - 1/n) optima and the transfers of one chain.
    CHECK(makespan <= (2.0 + p.rho - 1.0 / n) * static_cast<double>(best.count()) + 1e-6);
  }
}
