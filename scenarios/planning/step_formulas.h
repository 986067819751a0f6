/// Training steps as formulas: what the engine simulates, some hundred times faster, for a search.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "scenarios/planning/parallel_step.h"
#include "sim/cluster/device_model.h"

namespace baechi {

/// A stage of a pipeline, in seconds.
struct StageSeconds {
  double passes = 0.0;  ///< forward and backward, of a micro-batch
  double last = 0.0;    ///< once a step: the sum of gradients with the updates
};

/// A step of 1F1B with a flush: all passes of one micro-batch, and of the others the longest
/// stage's; then what is longest of the stages' ends.
double flushed_step(std::span<const StageSeconds> stages, std::int64_t micro_batches);

/// The step times of some steps by flushed_step(). A pass takes as long as its kernels and
/// collectives, or as its launches, whichever is longer. Left out: sends between stages, which the
/// engine overlaps with passes. ZeRO 2 and 3: their collectives are counted as if nothing
/// overlapped.
class StepFormulas {
 public:
  explicit StepFormulas(std::span<const ParallelStep> steps);
  /// [steps]
  std::vector<double> seconds(const DeviceModel& gpu) const;

 private:
  /// A pass: its kernels, which are ops of kernels_, with how often they run.
  struct Pass {
    std::vector<std::pair<OpId, std::int64_t>> kernels;
    Duration collectives{};
    std::int64_t launches = 0;
  };
  struct Stage {
    std::array<Pass, 3> passes;  // by phase
    Duration sum{};              // of the replicas' gradients
  };
  struct Step {
    std::int64_t micro_batches = 0;
    std::vector<Stage> stages;
  };
  static double seconds_of(const Pass& pass, const IdVector<OpId, Duration>& times,
                           const DeviceModel& gpu);

  std::vector<Step> steps_;
  OpGraph kernels_;  // every kernel of any step, once, as an op
};

}  // namespace baechi
