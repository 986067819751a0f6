/// The best plans of a training step on accelerators of one architecture.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "scenarios/read/codesign_choice.h"
#include "scenarios/studies/codesign/training_work.h"

namespace baechi {

/// A plan for a training step, and the time of the step.
struct DesignPlan {
  double seconds = 0.0;
  std::int64_t micro_batch = 1;
  std::int64_t stages = 1;
  std::int64_t devices = 1;           ///< devices used of the cluster
  std::int64_t tensor = 1, data = 1;  ///< 0: they differ between stages
  bool recompute = false;             ///< in some layers
};

/// Plans on a cluster whose devices become accelerators of some architecture; memory and links are
/// kept.
class DesignPlanner {
 public:
  /// Throws InputError as training_work() does.
  DesignPlanner(const TrainingJob& job, const CodesignChoice& choice, const Cluster& cluster);
  ~DesignPlanner();
  DesignPlanner(const DesignPlanner&) = delete;
  DesignPlanner& operator=(const DesignPlanner&) = delete;

  /// The plan of least time; ties: the first by micro-batch, tensor parallelism, stages, without
  /// recomputation first. Nothing if none fits in the devices' memory. A block's pass takes
  /// list_schedule() of its tasks, followed by the reductions over ranks.
  ///
  /// data_pipeline_tensor: flushed_step() of equal stages, all recomputed or none, for each number
  /// of stages with as many replicas as the devices and the batch allow. A pass takes at least the
  /// link's time for the inputs of its stage: a tensor and a gradient. A stage's memory: weights,
  /// and per micro-batch in flight the activations of its layers (recomputed: their inputs, and
  /// once the activations of the largest layer). piper, max_load: time per micro-batch of the
  /// slowest stage, times the micro-batches (placers/planners/stages_program.h); weight updates are
  /// ignored.
  std::optional<DesignPlan> best(const Accelerator& a) const;

  /// A lower bound on all plans. data_pipeline_tensor: FlushPlans::least() of blocks at their least
  /// makespans; otherwise all devices divide the work of all blocks evenly, each block with its
  /// best number of ranks.
  double least_seconds(const Accelerator& a) const;

  /// The number of tasks of all distinct blocks.
  std::size_t tasks() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace baechi
