/// The best plans of a training step on accelerators of one architecture.
#pragma once

#include "scenarios/planning/parallel_step.h"
#include "scenarios/read/scenario.h"

namespace baechi {

/// A layer, or the part before or after all layers, for one micro-batch on one rank of tensor
/// parallelism.
struct LayerWork {
  std::array<std::vector<CoreTask>, 3> passes{};  ///< by phase
  std::array<Duration, 2> sums{};  ///< reductions over the ranks, forward and backward
  Bytes weights{};    ///< including gradients and optimizer state, held for the whole step
  Bytes gradients{};  ///< reduced over the replicas
  Bytes kept{};       ///< activations kept for the backward pass
  Bytes input{};      ///< bytes read from earlier blocks

  friend bool operator==(const LayerWork&, const LayerWork&) = default;
};

/// The blocks of a rank, for one number of ranks of tensor parallelism and one micro-batch.
struct TrainingWork {
  std::int64_t tensor = 1, micro_batch = 1;
  std::vector<LayerWork> kinds;  ///< the distinct blocks
  std::vector<std::uint32_t>
      blocks;  ///< [layers + 2], into kinds: before the layers, layers, after them

  std::int64_t layers() const { return static_cast<std::int64_t>(blocks.size()) - 2; }
};

/// Sizes are those of mixed precision (transform `precision`, fp16). The collectives' times are the
/// cluster's. Throws InputError as rank_graph() and core_tasks() do, or if the model has no layers.
TrainingWork training_work(const TrainingJob& job, std::int64_t tensor, std::int64_t micro_batch,
                           const Cluster& cluster);

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

  std::size_t tasks() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// The times of a block's passes on one architecture, including reductions over ranks.
struct LayerSeconds {
  double forward = 0.0, backward = 0.0, update = 0.0;
};

class FlushPlans {
 public:
  FlushPlans(std::span<const TrainingWork> works, std::int64_t batch, const Cluster& cluster);
  bool empty() const { return plans_.empty(); }

  /// `seconds` [works][kinds]
  std::optional<DesignPlan> best(const std::vector<std::vector<LayerSeconds>>& seconds) const;

  /// A lower bound on all plans if all blocks of a work together take at least `sums` [works]: the
  /// longest stage takes at least an even part, and the time of its link. Infinite if there is no
  /// plan.
  double least(const std::vector<LayerSeconds>& sums) const;

 private:
  /// Blocks [begin, end) of a work.
  struct Stage {
    std::size_t begin = 0, end = 0;
    double send = 0.0;  // seconds per micro-batch
    double sum = 0.0;   // seconds per step: gradient reduction
  };
  struct Candidate {
    std::size_t work = 0;
    std::int64_t data = 1, micro_batches = 1;
    bool recompute = false;
    std::vector<Stage> stages;
    double longest_send = 0.0, longest_sum = 0.0;  // of the stages
  };
  bool fits(const Candidate& plan, Bytes memory) const;

  std::span<const TrainingWork> works_;
  std::vector<Candidate> plans_;
};

}  // namespace baechi
