/// A stream of micro-batches through a placed graph, simulated by the engine.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "sim/engine/simulation.h"
#include "sim/pipeline/unroll.h"
#include "sim/problem/peak_memory.h"
#include "sim/transform/transform.h"

namespace baechi::pipeline {

/// Times and memory of one device of the pipeline.
struct StageUse {
  DeviceId device{};
  Duration busy{};            ///< computing, in the whole run
  std::size_t in_flight = 0;  ///< most micro-batches at once between their first op and their last
  std::size_t versions = 1;   ///< of the weights
  Bytes peak{};               ///< spare_versions + at_peak.total()
  Bytes spare_versions{};     ///< weights at the peak, of all versions but one
  MemoryUse at_peak{};        ///< all else at the peak
  PeakMemory by_kind{};       ///< all of the peak; spare versions are among the weights
};

struct PipelineResult {
  std::optional<OutOfMemory> oom;  ///< of the unrolled graph; then times are up to it
  Duration makespan{};             ///< of the whole run, with filling and draining
  /// Schedules that flush: makespan / micro-batches. Others: at steady
  /// state, from the end of one micro-batch to the end of the next, mean of the middle half;
  /// max_compute if that is longer (2bw: the update is at the end, and not in the middle half).
  Duration per_micro_batch{};
  double bubble = 0.0;     ///< the share of the stages' time in which no lane of theirs is busy
  double sending = 0.0;    ///< in which they compute nothing, and collectives or other lanes run
  double launching = 0.0;  ///< in which they do neither, and the host launches
  Bytes moved{};           ///< between devices, in the whole run
  bool in_line = true;     ///< no two devices feed each other in the same pass
  /// Several versions of the weights are kept, and the graph does not tell weights from gradients
  /// and optimizer state. All persistent bytes are at forward ops, so each version is as large as
  /// all three.
  bool one_kind = false;
  std::vector<StageUse> stages{};
  Duration max_load{};       ///< of the objective: computing and moving, one after the other
  Duration max_compute{};    ///< of one device and sample; recomputing included
  std::string difference{};  ///< why per_micro_batch is not max_load: a sentence for people
};

/// Throws InputError if no placement of `step` can run as this pipeline: under Semantics::baechi,
/// where one of `transforms`, which change the placed step, allows no pipeline, or where so many
/// micro-batches may take longer than a step can (check_limits).
void check_pipeline(const Problem& step, const PipelineOptions& options,
                    std::span<const std::shared_ptr<const Transform>> transforms = {});

/// Under problem.engine. Throws InputError as check_pipeline() does, or if the graph cannot run as
/// this pipeline (see unroll).
PipelineResult simulate_pipeline(const Problem& problem, const Placement& placement,
                                 const PipelineOptions& options);
/// The same for the result of unroll(), with observers. Observers see the ids of the unrolled
/// graph.
PipelineResult simulate_pipeline(const Problem& problem, const Placement& placement,
                                 const PipelineOptions& options, const Unrolled& unrolled,
                                 std::span<StepObserver* const> observers);
/// The result of simulate_pipeline(), from a run of fewer micro-batches where the stages repeat
/// themselves (steady_state.h); then ids of `oom` are of that run. `unrolled`: what the last call
/// for the same graph, placement and options left, or nothing.
PipelineResult simulate_few(const Problem& problem, const Placement& placement,
                            const PipelineOptions& options, std::optional<Unrolled>& unrolled);

}  // namespace baechi::pipeline
