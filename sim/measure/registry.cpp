#include <fmt/format.h>

#include <algorithm>

#include "sim/find_entry.h"
#include "sim/measure/measure.h"

namespace baechi {

MakeMeasure make_step_time_measure, make_max_load_measure, make_latency_measure,
    make_pipeline_measure;

std::span<const MeasureEntry> measures() {
  static constexpr MeasureEntry table[] = {
      {"step_time", "time of one simulated step", "sim/engine/simulation.h", "us per step",
       make_step_time_measure},
      {"max_load",
       "time per sample of a pipeline that never waits: the largest device load; only weights "
       "count as memory",
       "Tarnawski et al., NeurIPS 2020, throughput", "us per sample", make_max_load_measure},
      {"latency",
       "time of one sample if each device runs its part as a whole; only weights count as memory",
       "Tarnawski et al., NeurIPS 2020, latency", "us per sample", make_latency_measure},
      {"pipeline",
       "time per micro-batch of a simulated pipeline, each device of the placement a stage",
       "sim/pipeline/README.md", "us per micro-batch", make_pipeline_measure},
  };
  return table;
}

std::unique_ptr<Measure> make_measure(std::string_view name, Options options,
                                      const std::string& where) {
  const MeasureEntry& entry = find_entry(measures(), "measure", name, where);
  auto measure = entry.make(options);
  options.finish();
  return measure;
}

std::optional<Bytes> Measured::peak() const {
  if (peaks.empty()) return std::nullopt;
  return *std::ranges::max_element(peaks);
}

std::string describe(const OutOfMemory& oom, const Problem& problem) {
  std::string live;
  for (const MemoryKind kind : memory_kinds)
    live +=
        fmt::format("{}{} {}", live.empty() ? "" : ", ", to_text(kind), to_text(oom.live[kind]));
  return fmt::format(
      "{}: {} '{}' needs {}, {} is free of {} at {} (live: {})",
      problem.cluster.device(oom.device).name, oom.transfer ? "the transfer of a tensor of" : "op",
      problem.graph.name(oom.op), to_text(oom.needed), to_text(oom.free),
      to_text(problem.cluster.device(oom.device).memory), to_text(oom.at.time_since_epoch()), live);
}

}  // namespace baechi
