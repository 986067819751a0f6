#include <benchmark/benchmark.h>

#include "bench/layered_graph.h"
#include "sim/engine/simulation.h"

namespace baechi::bench {
namespace {

void run(benchmark::State& state, EngineOptions engine) {
  const OpGraph& graph = layered(state.range(0));
  const Cluster eight = cluster(8);
  const ProfiledCosts costs(graph, eight);
  const Placement placement = mostly_local(graph, 8);
  for (auto _ : state) {
    const StepResult result = baechi::simulate({graph, eight, costs, engine}, placement);
    benchmark::DoNotOptimize(result.makespan);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

}  // namespace

/// Sequential channels, cache, memory books: the default.
static void simulate(benchmark::State& state) {
  run(state, {});
}
BENCHMARK(simulate)->RangeMultiplier(10)->Range(1000, 1000000);

static void simulate_parallel(benchmark::State& state) {
  run(state, {.transfers = Transfers::parallel});
}
BENCHMARK(simulate_parallel)->Arg(100000);

}  // namespace baechi::bench
