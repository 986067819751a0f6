/// The scenarios that the benchmarks of sweeps share.
#pragma once

#include "scenarios/run/resumable_run.h"

namespace baechi::bench {

inline Sweep sweep_of(const std::string& text) {
  Mistakes mistakes;
  std::vector<ScenarioFile> files;
  files.push_back(parse_scenario(text, "sweep.yaml", {}, mistakes));
  Sweep sweep = make_sweep(std::move(files), 2, mistakes);
  mistakes.throw_if_any();
  return sweep;
}

inline std::string scenario(std::int64_t ops, std::string_view placers, std::string_view sweep) {
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

/// A scenario with `points` points: 100 bandwidths for each of points / 100 memory fractions.
inline std::string many_points(std::int64_t points) {
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

/// A whole `baechi run`: reading, running, writing to `folder`.
inline void run_to_files(const std::string& text, const std::string& folder, std::size_t threads) {
  const Sweep sweep = sweep_of(text);
  ResumableRun run(folder, sweep, all_runs(sweep), false);
  run.run(all_runs(sweep), {.threads = threads});
  run.finish({.threads = threads});
}

}  // namespace baechi::bench
