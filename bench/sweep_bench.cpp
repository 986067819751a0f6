#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "scenarios/run/load.h"
#include "scenarios/run/runner.h"

namespace baechi::bench {

/// 200 points of one graph under two cheap placers and m_etf, on two threads: items are points.
static void sweep(benchmark::State& state) {
  const std::string text = fmt::format(R"(
name: sweep
graph: {{generate: layered, ops: {}}}
cluster:
  devices: {{count: 4, memory: 64 GiB}}
  link: {{bandwidth: 12 GB/s, latency: 5 us}}
placers: [least_loaded, m_topo, m_etf]
sweep:
  cluster.memory_fraction: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
  cluster.devices.count: [2, 3, 4, 6, 8]
  cluster.link.bandwidth: [1 GB/s, 2 GB/s, 6 GB/s, 12 GB/s]
)",
                                       state.range(0));
  for (auto _ : state) {
    Mistakes mistakes;
    std::vector<ScenarioFile> files;
    files.push_back(parse_scenario(text, "sweep.yaml", {}, mistakes));
    const Plan plan = make_plan(std::move(files), 2, mistakes);
    const Results results = run(plan, all_runs(plan), {.threads = 2});
    benchmark::DoNotOptimize(results.rows.data());
  }
  state.SetItemsProcessed(state.iterations() * 200);
}
BENCHMARK(sweep)->Arg(600)->Arg(1000)->Arg(10000)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace baechi::bench
