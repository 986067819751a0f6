/// Pipelined execution: a stream of micro-batches through a placed graph, simulated by the engine;
/// and a prompt that a model reads in several passes.
#pragma once
#include "sim/engine/simulation.h"
#include "sim/pipeline/unroll.h"
#include "sim/transform/transform.h"

namespace baechi {

/// The graphs of passes over the same ops, which may differ in their work, as one graph. An op with
/// a cache reads what its op of the pass before wrote. Ops of later passes are micro-batches of
/// those of the first, which holds weights and cache, the largest of any pass. `in_flight`: a pass
/// begins when the one so many before it has ended; 0: when devices are free. A device runs passes
/// one after the other with `queue: program`, and interleaves them without. Throws InputError if
/// the passes have different ops.
OpGraph joined_passes(std::span<const OpGraph> passes, std::size_t in_flight = 0);

}  // namespace baechi

namespace baechi::pipeline {

/// Times and memory of one device of the pipeline.
struct StageUse {
  DeviceId device{};
  Duration busy{};            ///< compute time in the whole run
  std::size_t in_flight = 0;  ///< most concurrent micro-batches, each from its first to its last op
  std::size_t versions = 1;   ///< of the weights
  Bytes peak{};               ///< spare_versions + at_peak.total()
  Bytes spare_versions{};     ///< weights at the peak, of all versions but one
  MemoryUse at_peak{};        ///< the rest of the peak
  PeakMemory by_kind{};       ///< the whole peak; weights include spare versions
};

struct PipelineResult {
  std::optional<OutOfMemory> oom;  ///< ids are of the unrolled graph; times end at the failure
  Duration makespan{};             ///< of the whole run, with filling and draining
  /// Schedules that flush: makespan / micro-batches. Others: at steady state, the mean time between
  /// ends of micro-batches in the middle half of the run; at least max_compute (2bw: the update is
  /// at the end, outside the middle half).
  Duration per_micro_batch{};
  double bubble = 0.0;     ///< fraction of the stages' time in which no lane is busy
  double sending = 0.0;    ///< fraction without compute in which collectives or other lanes run
  double launching = 0.0;  ///< fraction with neither in which the host launches
  Bytes moved{};           ///< between devices, in the whole run
  bool in_line = true;     ///< no two devices feed each other in the same pass
  /// Several versions of the weights are kept, and the graph does not distinguish weights from
  /// gradients and optimizer state, so each version is as large as all three.
  bool one_kind = false;
  std::vector<StageUse> stages{};
  Duration max_load{};       ///< the objective max_load: compute and transfers, serial
  Duration max_compute{};    ///< largest compute time of a device per sample, with recomputation
  std::string difference{};  ///< one sentence: why per_micro_batch differs from max_load
};

/// Throws InputError if no placement of `step` can run as this pipeline: under Semantics::baechi,
/// if one of `transforms`, which change the placed step, does not allow it, or if so many
/// micro-batches may exceed check_limits().
void check_pipeline(const Problem& step, const PipelineOptions& options,
                    std::span<const std::shared_ptr<const Transform>> transforms = {});

/// Under problem.engine. Throws InputError as check_pipeline() does, or if the graph cannot run as
/// this pipeline (see unroll).
PipelineResult simulate_pipeline(const Problem& problem, const Placement& placement,
                                 const PipelineOptions& options);
/// The same for the result of unroll(). Observers see the ids of the unrolled graph.
PipelineResult simulate_pipeline(const Problem& problem, const Placement& placement,
                                 const PipelineOptions& options, const Unrolled& unrolled,
                                 std::span<StepObserver* const> observers);
/// The same, and passes the timeline to `sink` as write_perfetto() does.
PipelineResult simulate_drawn(const Problem& problem, const Placement& placement,
                              const PipelineOptions& options,
                              const std::function<void(std::string_view)>& sink);
/// The result of simulate_pipeline(), computed from a run of fewer micro-batches if that reaches a
/// periodic steady state (steady_state.h); ids of `oom` are then of that run. `unrolled`: a cache
/// for further calls with the same graph, placement and options; initially empty.
PipelineResult simulate_few(const Problem& problem, const Placement& placement,
                            const PipelineOptions& options, std::optional<Unrolled>& unrolled);

}  // namespace baechi::pipeline
