/// How accelerators of one architecture share a training step best.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "scenarios/read/codesign_choice.h"
#include "scenarios/studies/codesign/training_work.h"

namespace baechi {

/// A plan for a training step, and how long the step takes.
struct DesignPlan {
  double seconds = 0.0;
  std::int64_t micro_batch = 1;
  std::int64_t stages = 1;
  std::int64_t devices = 1;           ///< of the cluster's devices
  std::int64_t tensor = 1, data = 1;  ///< 0: they differ between stages
  bool recompute = false;             ///< of some layers at least
};

/// Plans on the devices of a cluster that become accelerators of some architecture; their memory
/// and links stay.
class DesignPlanner {
 public:
  /// Throws InputError as training_work() does.
  DesignPlanner(const TrainingJob& job, const CodesignChoice& choice, const Cluster& cluster);
  ~DesignPlanner();
  DesignPlanner(const DesignPlanner&) = delete;
  DesignPlanner& operator=(const DesignPlanner&) = delete;

  /// The plan of least time; ties: the first by micro-batch, tensor parallelism, stages, without
  /// recomputation first. Nothing if none fits in the devices' memory. A block's pass is
  /// list_schedule() of its tasks with the sums over ranks behind.
  ///
  /// data_pipeline_tensor: flushed_step() of equal stages, all recomputed or none, for each number
  /// of stages with as many replicas as the devices and the batch allow. A pass takes at least the
  /// link's time for the inputs of its stage: a tensor and a gradient. A stage's memory: weights,
  /// and per micro-batch in flight the bytes that its layers keep (recomputed: their inputs, and
  /// once the bytes of the fullest layer). piper, max_load: time per micro-batch of the slowest
  /// stage, times the micro-batches (placers/planners/stages_program.h); the updates of weights are
  /// left out.
  std::optional<DesignPlan> best(const Accelerator& a) const;

  /// No plan is faster. data_pipeline_tensor: FlushPlans::least() of blocks at their least
  /// makespans; else all devices share the work of all blocks evenly, each block with the ranks
  /// that suit it best.
  double least_seconds(const Accelerator& a) const;

  /// Tasks of all blocks that differ.
  std::size_t tasks() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace baechi
