/// Helpers that make sweeps from a scenario's text.
#pragma once

#include "scenarios/run/runner.h"

namespace baechi::testing {

/// 2 graphs at 2 x 3 x 2 points by 4 placers with 2 seeds; some runs succeed, some run out of
/// memory, some are infeasible.
inline const std::string swept = R"(
name: swept
graph: {generate: layered, ops: 200}
cluster: {devices: {count: 2, memory: 64 MiB}, link: {bandwidth: 5.7 GB/s, latency: 10 us}}
placers: [single, random, m_topo, m_etf]
seeds: [1, 2]
report: {pictures: 10}
sweep:
  graph.seed: [1, 2]
  cluster.devices.count: [2, 3]
  cluster.memory_fraction: [0.1, 0.5, 1.0]
  engine.transfers: [sequential, parallel]
)";
inline constexpr std::size_t swept_runs = 192;

/// `path` is for messages. Throws InputError.
inline ScenarioFile scenario_of(const std::string& text, const std::vector<std::string>& sets = {},
                                const std::string& path = "test.yaml") {
  Mistakes mistakes;
  ScenarioFile file = parse_scenario(text, path, sets, mistakes);
  mistakes.throw_if_any();
  return file;
}

inline Sweep sweep_of(const std::string& text, const std::vector<std::string>& sets = {},
                      const std::string& path = "test.yaml") {
  Mistakes mistakes;
  Sweep sweep = make_sweep({scenario_of(text, sets, path)}, 1, mistakes);
  mistakes.throw_if_any();
  return sweep;
}

inline Results run_all(const Sweep& sweep, const RunSettings& settings = {}) {
  return run(sweep, all_runs(sweep), settings);
}

/// Without the times of placing, which alone may differ.
inline Results without_placing(Results results) {
  for (RunResult& row : results.rows) row.placing = {};
  return results;
}

}  // namespace baechi::testing
