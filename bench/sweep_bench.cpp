#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "scenarios/read/load.h"
#include "scenarios/run/resumable_run.h"
#include "scenarios/run/runner.h"
#include "sim/engine/simulation.h"

namespace baechi::bench {
namespace {

Sweep sweep_of(const std::string& text) {
  Mistakes mistakes;
  std::vector<ScenarioFile> files;
  files.push_back(parse_scenario(text, "sweep.yaml", {}, mistakes));
  Sweep sweep = make_sweep(std::move(files), 2, mistakes);
  mistakes.throw_if_any();
  return sweep;
}

std::string scenario(std::int64_t ops, std::string_view placers, std::string_view sweep) {
  return fmt::format(R"(
name: sweep
graph: {{generate: layered, ops: {}}}
cluster:
  devices: {{count: 4, memory: 64 GiB}}
  link: {{bandwidth: 12 GB/s, latency: 5 us}}
placers: [{}]
sweep: {{{}}}
)",
                     ops, placers, sweep);
}

std::string seeds(int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += fmt::format("{}{}", i == 0 ? "" : ", ", i);
  return fmt::format("seeds: [{}]\n", list);
}

/// `points` points, a hundred to each memory fraction.
std::string many_points(std::int64_t points) {
  std::string fractions, bandwidths;
  const std::int64_t num_fractions = points / 100;
  for (std::int64_t i = 1; i <= num_fractions; ++i)
    fractions += fmt::format("{}{:.4f}", i == 1 ? "" : ", ",
                             static_cast<double>(i) / static_cast<double>(num_fractions));
  for (int i = 1; i <= 100; ++i) bandwidths += fmt::format("{}{} GB/s", i == 1 ? "" : ", ", i);
  return scenario(100, "m_topo",
                  fmt::format("cluster.memory_fraction: [{}], cluster.link.bandwidth: [{}]",
                              fractions, bandwidths));
}

}  // namespace

/// 200 points of one graph under two cheap placers and m_etf, on two threads: items are points.
static void sweep(benchmark::State& state) {
  const std::string text =
      scenario(state.range(0), "least_loaded, m_topo, m_etf",
               "cluster.memory_fraction: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0], "
               "cluster.devices.count: [2, 3, 4, 6, 8], "
               "cluster.link.bandwidth: [1 GB/s, 2 GB/s, 6 GB/s, 12 GB/s]");
  for (auto _ : state) {
    const Sweep sweep = sweep_of(text);
    const Results results = run(sweep, all_runs(sweep), {.threads = 2});
    benchmark::DoNotOptimize(results.rows.data());
  }
  state.SetItemsProcessed(state.iterations() * 200);
}
BENCHMARK(sweep)->Arg(600)->Arg(1000)->Arg(10000)->Unit(benchmark::kMillisecond)->UseRealTime();

/// A whole `baechi run` of a 100-op graph under m_topo, (points, threads): read, run, written to a
/// folder. Items are points; peak_MiB is of the whole process so far, so smaller ones come first.
static void sweep_to_files(benchmark::State& state) {
  const std::string text = many_points(state.range(0));
  const auto threads = static_cast<std::size_t>(state.range(1));
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("baechi-bench-{}", getpid())).string();
  for (auto _ : state) {
    const Sweep sweep = sweep_of(text);
    ResumableRun run(folder, sweep, all_runs(sweep), false);
    run.run(all_runs(sweep), {.threads = threads});
    run.finish({.threads = threads});
  }
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

/// The runs alone of 64 placements of one graph, (ops, threads): items are runs. Twice the items
/// per second on two threads would be perfect.
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

/// One run, placing, simulating and all that is around them; beside it the two alone. Their
/// difference is what a run costs beyond them.
static void one_run(benchmark::State& state) {
  const Sweep sweep = sweep_of(scenario(state.range(0), "round_robin", "graph.seed: [1]"));
  for (auto _ : state) benchmark::DoNotOptimize(run_one(sweep, 0).step_time);
}
static void place_and_simulate(benchmark::State& state) {
  const Sweep sweep = sweep_of(scenario(state.range(0), "round_robin", "graph.seed: [1]"));
  const Run run = sweep.run(0);
  const Experiment experiment = sweep.experiment(run);
  const Problem problem = experiment.problem();
  for (auto _ : state) {
    const Placement placement = run.placer.placer->place(problem, 0);
    benchmark::DoNotOptimize(simulate(problem, placement).makespan);
  }
}
BENCHMARK(one_run)->Arg(100)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMicrosecond);
BENCHMARK(place_and_simulate)->Arg(100)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMicrosecond);

/// m_sct at 20 points that share their linear program: on one graph it is solved once.
static void sweep_m_sct(benchmark::State& state) {
  const std::string text =
      scenario(state.range(0), "m_sct",
               "cluster.memory_fraction: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0], "
               "engine.cache_tensors: [true, false]");
  for (auto _ : state) {
    const Sweep sweep = sweep_of(text);
    benchmark::DoNotOptimize(run(sweep, all_runs(sweep), {.threads = 1}).rows.data());
  }
  state.SetItemsProcessed(state.iterations() * 20);
}
BENCHMARK(sweep_m_sct)->Arg(2000)->Unit(benchmark::kMillisecond);

/// What rank 0 does for each run of another rank: its record is kept and the next id is dealt.
/// Items are runs.
static void take_in_records(benchmark::State& state) {
  const Sweep sweep = sweep_of(many_points(100'000));
  std::string records;
  for (std::size_t id = 0; id < 1000; ++id) append_record(records, run_one(sweep, id));
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("baechi-bench-{}", getpid())).string();
  for (auto _ : state) {
    Journal journal(folder + "/runs.journal", sweep, false);
    journal.add(records);
    journal.remove();
  }
  std::filesystem::remove_all(folder);
  state.SetItemsProcessed(state.iterations() * 1000);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(records.size()));
}
BENCHMARK(take_in_records)->Unit(benchmark::kMicrosecond)->UseRealTime();

}  // namespace baechi::bench
