#include <benchmark/benchmark.h>

#include "bench/layered_graph.h"

namespace baechi::bench {

/// The longest path over the in-edges and nothing else: the unit in which bench/README.md quotes
/// all other times.
static void topological_pass(benchmark::State& state) {
  const OpGraph& graph = layered(state.range(0));
  IdVector<OpId, Duration> compute(graph.num_ops()), length(graph.num_ops());
  for (const OpId v : graph.ops()) compute[v] = graph.op(v).compute;
  for (auto _ : state) {
    for (const OpId v : graph.ops()) {
      Duration before{};
      for (const OpId u : graph.predecessors(v)) before = std::max(before, length[u]);
      length[v] = before + compute[v];
    }
    benchmark::DoNotOptimize(length.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(topological_pass)->RangeMultiplier(10)->Range(1000, 1000000);

}  // namespace baechi::bench
