#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "bench/point_sweep.h"

namespace baechi::bench {
namespace {

std::string seeds(int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += fmt::format("{}{}", i == 0 ? "" : ", ", i);
  return fmt::format("seeds: [{}]\n", list);
}

}  // namespace

/// A sweep of 200 points over one graph, with two cheap placers and m_etf, on two threads. An item
/// is a point.
static void sweep(benchmark::State& state) {
  const std::string text = scenario(state.range(0), "least_loaded, m_topo, m_etf",
                                    "cluster.memory_fraction: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, "
                                    "0.8, 0.9, 1.0], cluster.devices.count: [2, 3, 4, 6, 8], "
                                    "cluster.link.bandwidth: [1 GB/s, 2 GB/s, 6 GB/s, 12 GB/s]");
  for (auto _ : state) {
    const Sweep sweep = sweep_of(text);
    const Results results = run(sweep, all_runs(sweep), {.threads = 2});
    benchmark::DoNotOptimize(results.rows.data());
  }
  state.SetItemsProcessed(state.iterations() * 200);
}
BENCHMARK(sweep)->Arg(600)->Arg(1000)->Arg(10000)->Unit(benchmark::kMillisecond)->UseRealTime();

/// A whole `baechi run` of a 100-op graph with m_topo.
/// Arguments: (points, threads). An item is a point. peak_MiB is the peak of the whole process so
/// far, so sweeps with fewer points come first.
static void sweep_to_files(benchmark::State& state) {
  const std::string text = many_points(state.range(0));
  const auto threads = static_cast<std::size_t>(state.range(1));
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("baechi-bench-{}", getpid())).string();
  for (auto _ : state) run_to_files(text, folder, threads);  // NOLINT(clang-analyzer-deadcode.*)
  std::filesystem::remove_all(folder);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024.0;
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(sweep_to_files)
    ->ArgsProduct({{1000, 10'000, 100'000}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

/// Only the runs, without reading and writing: 64 placements of one graph. Arguments: (ops,
/// threads). An item is a run. Perfect scaling doubles the items per second on two threads.
static void placements(benchmark::State& state) {
  const Sweep sweep =
      sweep_of(scenario(state.range(0), "round_robin", "graph.seed: [1]") + seeds(64));
  const std::vector<std::size_t> ids = all_runs(sweep);
  for (auto _ : state) {
    const Results results = run(sweep, ids, {.threads = static_cast<std::size_t>(state.range(1))});
    benchmark::DoNotOptimize(results.rows.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(ids.size()));
}
BENCHMARK(placements)
    ->ArgsProduct({{100, 10'000, 100'000}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace baechi::bench
