/// The work of one rank of a training job, as tasks for an accelerator's cores.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "scenarios/planning/parallel_step.h"
#include "sim/accelerator/accelerator.h"

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

}  // namespace baechi
