#include <benchmark/benchmark.h>

#include "bench/layered_graph.h"
#include "placers/learned/episode.h"
#include "placers/learned/training.h"

namespace baechi::bench {
namespace {

using namespace learned;

/// A layered graph of so many ops on four devices, as a policy sees it.
struct Seen {
  explicit Seen(std::int64_t ops)
      : on(cluster(4)),
        costs(layered(ops), on),
        objective(make_objective("step_time", Options("step_time"))),
        environment({layered(ops), on, costs, {}}, *objective, 0) {}
  Cluster on;
  ProfiledCosts costs;
  std::unique_ptr<Objective> objective;
  Environment environment;
};

}  // namespace

/// Placements drawn from a policy and simulated: episodes per second.
static void learned_episode(benchmark::State& state) {
  const Seen seen(state.range(0));
  const Network network = list_network();
  const std::vector<double> weights = network.initial(1);
  Embedding embedding;
  network.embed(weights, seen.environment.graph(), embedding);
  Episode episode(seen.environment, network);
  const auto evaluator = seen.objective->on(seen.environment.problem());
  Random random(1);
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    const Score score =
        evaluator->score(seen.environment.placement(episode.act(weights, embedding, &random)));
    benchmark::DoNotOptimize(score.value);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(learned_episode)->Arg(200)->Unit(benchmark::kMicrosecond);

/// The same with all gradients and the step of the optimiser, a batch at a time.
static void learned_training(benchmark::State& state) {
  const Seen seen(state.range(0));
  Training training({&seen.environment}, {.evaluations = 1'000'000'000, .imitate = false});
  for (auto _ : state) training.update();  // NOLINT(clang-analyzer-deadcode.DeadStores)
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(Training::batch));
}
BENCHMARK(learned_training)->Arg(200)->Unit(benchmark::kMicrosecond);

}  // namespace baechi::bench
