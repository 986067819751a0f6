/// A training step as a formula, for a search.
#pragma once
#include <cstdint>
#include <span>

namespace baechi {

/// A stage of a pipeline, in seconds.
struct StageSeconds {
  double passes = 0.0;  ///< forward and backward, of a micro-batch
  double last = 0.0;    ///< once a step: the sum of gradients with the updates
};

/// A step of 1F1B with a flush: all passes of one micro-batch, and of the others the longest
/// stage's; then what is longest of the stages' ends.
double flushed_step(std::span<const StageSeconds> stages, std::int64_t micro_batches);

}  // namespace baechi
