/// A stream of micro-batches through a placed graph, simulated by the engine.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "sim/engine/simulation.h"
#include "sim/pipeline/unroll.h"

namespace baechi {

/// What a device, a stage, was like.
struct StageUse {
  DeviceId device{};
  Duration busy{};            ///< computing, in the whole run
  std::size_t in_flight = 0;  ///< most micro-batches at once between their first op and their last
  std::size_t versions = 1;   ///< of the weights
  Bytes spare_versions{};     ///< all of them but one
  Bytes peak{};
  /// Of what the peak consisted. Weights: of one version.
  MemoryUse at_peak{};
};

struct PipelineResult {
  std::optional<OutOfMemory> oom;  ///< of the unrolled graph; then times are up to it
  Duration makespan{};             ///< of the whole run, with filling and draining
  /// At steady state: of the middle half, from the end of one micro-batch to that of the next.
  /// Where all are awaited before the next ones come (gpipe): makespan / micro-batches.
  Duration per_sample{};
  double bubble = 0.0;  ///< the share of the stages' time in which they compute nothing
  bool in_line = true;  ///< no two stages feed each other
  std::vector<StageUse> stages{};
  Duration max_load{};       ///< of the objective: computing and moving, one after the other
  Duration max_compute{};    ///< of one device and sample; recomputing included
  std::string difference{};  ///< why per_sample is not max_load: a sentence for people
};

/// Under problem.engine, but for the order of ready ops, which the scheme decides.
/// Throws InputError if the graph has no such pipeline, or under Semantics::baechi.
PipelineResult simulate_pipeline(const Problem& problem, const Placement& placement,
                                 const PipelineOptions& options);
/// The same of what unroll() made of it, with observers, which see the unrolled graph's ids.
PipelineResult simulate_pipeline(const Problem& problem, const Placement& placement,
                                 const PipelineOptions& options, const Unrolled& unrolled,
                                 std::span<StepObserver* const> observers);

std::string_view to_text(PipelineScheme scheme);  ///< "inference", "gpipe", "1f1b", "2bw"
std::optional<PipelineScheme> pipeline_scheme(std::string_view name);

}  // namespace baechi
