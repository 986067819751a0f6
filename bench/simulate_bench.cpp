#include <benchmark/benchmark.h>

#include "bench/layered_graph.h"
#include "sim/engine/simulation.h"
#include "sim/objective/step_estimate.h"

namespace baechi::bench {
namespace {

/// Simulates one placement repeatedly on `devices` devices with one Simulator.
void again(benchmark::State& state, const OpGraph& graph, std::size_t devices,
           EngineOptions engine) {
  const Cluster on = cluster(devices);
  const ProfiledCosts costs(graph, on);
  const Placement placement = mostly_local(graph, devices);
  Simulator simulator({graph, on, costs, engine});
  for (auto _ : state) {
    const StepResult& result = simulator.run(placement);
    benchmark::DoNotOptimize(result.makespan);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(graph.num_ops()));
}

}  // namespace

/// The default engine: sequential channels, cached tensors, memory accounting.
static void simulate(benchmark::State& state) { again(state, layered(state.range(0)), 8, {}); }
BENCHMARK(simulate)->RangeMultiplier(10)->Range(1000, 1000000);

static void simulate_without_accounting(benchmark::State& state) {
  again(state, layered(state.range(0)), 8, {.count_memory = false});
}
BENCHMARK(simulate_without_accounting)->Arg(100000)->Arg(1000000);

static void simulate_64_devices(benchmark::State& state) {
  again(state, layered(state.range(0)), 64, {});
}
BENCHMARK(simulate_64_devices)->Arg(100000);

static void simulate_parallel(benchmark::State& state) {
  again(state, layered(state.range(0)), 8, {.transfers = Transfers::parallel});
}
BENCHMARK(simulate_parallel)->Arg(100000);

static void simulate_original(benchmark::State& state) {
  again(state, layered(state.range(0)), 8, {.semantics = Semantics::baechi});
}
BENCHMARK(simulate_original)->Arg(100000)->Arg(1000000);

/// Estimates the steps of sixteen placements at once with StepEstimate, a simpler model of a step.
/// An item is one op of one placement.
static void batch_estimate(benchmark::State& state) {
  const OpGraph& graph = layered(state.range(0));
  const Cluster eight = cluster(8);
  const ProfiledCosts costs(graph, eight);
  StepEstimate batch({graph, eight, costs});
  for (std::size_t lane = 0; lane < StepEstimate::lanes; ++lane)
    batch.place(lane, mostly_local(graph, 8));
  std::vector<OpId> order;
  for (const OpId v : graph.ops()) order.push_back(v);
  for (auto _ : state) {
    const StepEstimate::Times times = batch.run(order);
    benchmark::DoNotOptimize(times.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0) *
                          static_cast<std::int64_t>(StepEstimate::lanes));
}
BENCHMARK(batch_estimate)->Arg(100000)->Arg(1000000);

/// One call of simulate(), including the preparation that a Simulator does once.
static void simulate_once(benchmark::State& state) {
  const OpGraph& graph = layered(state.range(0));
  const Cluster eight = cluster(8);
  const ProfiledCosts costs(graph, eight);
  const Placement placement = mostly_local(graph, 8);
  for (auto _ : state) {
    const StepResult result = baechi::simulate({graph, eight, costs}, placement);
    benchmark::DoNotOptimize(result.makespan);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(simulate_once)->Arg(100000)->Arg(1000000);

}  // namespace baechi::bench
