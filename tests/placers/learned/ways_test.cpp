#include <doctest/doctest.h>

#include <cmath>

#include "placers/learned/grouped.h"
#include "placers/learned/moves.h"
#include "placers/learned/walk.h"
#include "sim/engine/simulation.h"
#include "tests/placers/learned/central_differences.h"
#include "tests/placers/learned/kept_problem.h"
#include "tests/random_problems.h"

using namespace baechi;
using namespace baechi::learned;
using namespace baechi::testing;

namespace {

Kept kept_problem(std::uint64_t seed, std::uint32_t ops, std::size_t devices) {
  Random random(seed);
  return Kept(random_graph({.ops = ops}, random), devices);
}

}  // namespace

TEST_SUITE("placers/learned") {
  //   a(10) --100 B--> c(10)     a on gpu0, b and c on gpu1, one byte a nanosecond
  //   b(60) ---------> d(10)     d on gpu1
  /// b ends at 60, and c's input comes at 110. c was put first, for its input was produced first:
  /// it runs from 110 to 120, and d, which could have run from 60 on, behind it until 130. The
  /// engine lets d go first: 120.
  TEST_CASE("a partial schedule puts ops in the order in which their inputs are produced") {
    OpGraphBuilder g;
    const OpId a = g.add_op({.name = "a", .compute = 10ns});
    const OpId b = g.add_op({.name = "b", .compute = 60ns});
    const OpId c = g.add_op({.name = "c", .compute = 10ns});
    const OpId d = g.add_op({.name = "d", .compute = 10ns});
    g.add_edge(g.add_tensor(a, 100_B), c);
    g.add_edge(g.add_tensor(b, 10_B), d);
    const Kept k(std::move(g).build(), 2);
    const auto objective = step_time();
    const Environment environment(k.problem(), *objective, 0);
    PartialSchedule schedule(environment);
    std::string order;
    while (const std::optional<OpId> v = schedule.next()) {
      order += k.graph.name(*v);
      schedule.put(*v, k.graph.name(*v) == "a" ? gpu0 : gpu1);
    }
    CHECK(order == "abcd");
    CHECK(schedule.end() == TimePoint{130ns});
  }

  //   a(10) --t, 100 B--> c(10)     a on gpu0, c and d on gpu1, staged through host memory: 50 ns
  //     \-----u, 100 B--> d(10)     out of gpu0, 50 ns into gpu1
  /// t goes out from 10 to 60 and in until 110; u goes out from 60 to 110 and in until 160. Then d
  /// runs. If each tensor held both channels at once, u would come at 210.
  TEST_CASE("a partial schedule books the halves of a staged transfer apart") {
    OpGraphBuilder g;
    const OpId a = g.add_op({.name = "a", .compute = 10ns});
    const OpId c = g.add_op({.name = "c", .compute = 10ns});
    const OpId d = g.add_op({.name = "d", .compute = 10ns});
    g.add_edge(g.add_tensor(a, 100_B), c);
    g.add_edge(g.add_tensor(a, 100_B), d);
    const Kept k(std::move(g).build(), 2);
    Problem problem = k.problem();
    problem.engine.transfers = Transfers::staged;
    const auto objective = step_time();
    const Environment environment(problem, *objective, 0);
    PartialSchedule schedule(environment);
    while (const std::optional<OpId> v = schedule.next()) schedule.put(*v, *v == a ? gpu0 : gpu1);
    CHECK(schedule.end(c) == TimePoint{120ns});
    CHECK(schedule.end(d) == TimePoint{170ns});
  }

  /// Twelve ops, three devices, so that devices are told apart by what is on them.
  TEST_CASE("the gradient of a whole policy is that of central differences: list") {
    const Kept k = kept_problem(4, 12, 3);
    const auto objective = step_time();
    const Environment environment(k.problem(), *objective, 0);
    const Network network = list_network();
    std::vector<double> weights = network.initial(1);
    Random random(2);
    for (double& w : weights) w += 0.1 * (random.uniform() - 0.5);
    Embedding embedding;
    network.embed(weights, environment.graph(), embedding);
    Episode episode(environment, network);
    const BundleDevices drawn = episode.act(weights, embedding, &random);
    const auto loss = [&] {
      network.embed(weights, environment.graph(), embedding);
      episode.follow(weights, embedding, drawn);
      return episode.surprise();
    };
    loss();
    std::vector<double> gradient(weights.size(), 0.0), keys(embedding.keys.size(), 0.0);
    episode.gradient(weights, embedding, 1.0, 0.0, gradient, keys);
    network.embed_gradient(weights, environment.graph(), embedding, keys, gradient);
    CHECK(worst(weights, gradient, loss) < 1e-4);
  }

  /// From the third bundle on there are two devices at least to choose from: one that has bundles,
  /// and an empty one, or all three.
  TEST_CASE("a stretch that is drawn anew differs from its base, and nothing else does") {
    const Kept k = kept_problem(4, 12, 3);
    const auto objective = step_time();
    const Environment environment(k.problem(), *objective, 0);
    const std::size_t bundles = environment.num_bundles();
    const Network network = list_network();
    const std::vector<double> weights = network.initial(1);
    Embedding embedding;
    network.embed(weights, environment.graph(), embedding);
    Episode episode(environment, network);
    Random random(2);
    const BundleDevices base = episode.act(weights, embedding, &random);
    const auto differing = [&](std::size_t begin, std::size_t end) {
      const BundleDevices& other = episode.redraw(weights, embedding, base, begin, end, random);
      std::size_t count = 0;
      for (std::size_t b = 0; b < bundles; ++b) count += other[b] != base[b] ? 1U : 0U;
      return count;
    };
    CHECK(differing(3, 3) == 0);
    for (std::size_t turn = 2; turn < bundles; ++turn) CHECK(differing(turn, turn + 1) == 1);
    const std::size_t of_four = differing(bundles - 4, bundles);
    CHECK(of_four >= 1);
    CHECK(of_four <= 4);
  }

  TEST_CASE("what is drawn elsewhere is never what was there") {
    Random random(1);
    for (int i = 0; i < 20; ++i) {
      CHECK(drawn_elsewhere(std::vector{0.5, 0.5, 0.0}, 1, random) == 0);
      CHECK(drawn_elsewhere(std::vector{0.0, 1.0}, 1, random) == 0);
    }
  }

  TEST_CASE("the gradient of a whole policy is that of central differences: grouped") {
    const Kept k = kept_problem(4, 12, 3);
    const auto objective = step_time();
    const Environment environment(k.problem(), *objective, 0);
    GroupedEpisode episode(environment);
    CHECK(episode.groups() == 12);
    std::vector<double> weights = episode.initial(1);
    Random random(2);
    for (double& w : weights) w += 0.1 * (random.uniform() - 0.5);
    episode.act(weights, random);
    std::vector<double> gradient(weights.size(), 0.0);
    episode.gradient(weights, 1.0, 0.0, gradient);
    CHECK(worst(weights, gradient, [&] { return episode.surprise(weights); }) < 1e-4);
  }

  TEST_CASE("the gradient of a whole policy is that of central differences: placeto") {
    const Kept k = kept_problem(4, 12, 3);
    const auto objective = step_time();
    const Environment environment(k.problem(), *objective, 0);
    MovingEpisode episode(environment, 5);
    std::vector<double> weights = episode.network().initial(1);
    Random random(2);
    for (double& w : weights) w += 0.1 * (random.uniform() - 0.5);
    episode.begin(environment.teacher());
    while (!episode.done()) episode.move(weights, random);
    std::vector<double> advantages;
    for (std::size_t i = 0; i < episode.moves(); ++i) advantages.push_back(random.uniform() - 0.5);
    std::vector<double> gradient(weights.size(), 0.0);
    episode.gradient(weights, advantages, 0.3, gradient);
    CHECK(worst(weights, gradient, [&] { return episode.loss(weights, advantages, 0.3); }) < 1e-4);
  }

  /// Placeto's rewards add up to what the whole episode saves, so the best it saw is no worse than
  /// the placement it began with.
  TEST_CASE("placeto begins with the best heuristic's placement") {
    const Kept k = kept_problem(9, 40, 4);
    const auto objective = step_time();
    const Environment environment(k.problem(), *objective, 0);
    const Found one = learn_moves(environment, {.evaluations = 1, .seed = 1}, 1, nullptr);
    CHECK(one.evaluations == 1);
    CHECK(one.devices == environment.teacher());
    const Found more = learn_moves(environment, {.evaluations = 500, .seed = 1}, 4, nullptr);
    CHECK(more.evaluations == 500);
    CHECK(more.score <= one.score);
  }
}
