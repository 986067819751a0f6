#include <fmt/format.h>

#include <algorithm>

#include "sim/error.h"
#include "sim/pipeline/schedules.h"

namespace baechi::pipeline {

/// 1F1B over v chunks on each stage: p micro-batches go through one chunk, then through the next
/// one of the stage. With F and B of all chunks of a stage together, (p - 1)(F + B) / v is bubble.
/// In flight on stage s: 2 (p - 1 - s) + (v - 1) p + 1, in chunks, or all.
/// Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
/// Megatron-LM", SC 2021, section 2.2, and its program's warm-up.
/// Throws InputError unless v > 1 and m is a multiple of p.
Schedule interleaved(const Shape& shape) {
  const std::size_t p = shape.stages, v = shape.laps, m = shape.micro_batches;
  if (v < 2)
    throw InputError(
        "interleaved needs two chunks or more on each device, and each device of this placement "
        "has one: micro-batches never come back to it (1f1b_flush does without)");
  if (m % p != 0)
    throw InputError(
        fmt::format("interleaved needs micro-batches in multiples of its {} stages, not {}", p, m));
  Schedule schedule = empty_schedule(shape, p * v);
  // The k-th pass of a kind on a stage.
  const auto kth = [&](std::size_t k, std::size_t stage, PassKind kind) {
    const std::size_t lap = k % (p * v) / p;
    const std::size_t own = kind == PassKind::forward ? lap : v - 1 - lap;
    return pass(kind, own * p + stage, k / (p * v) * p + k % p);
  };
  for (std::size_t s = 0; s < p; ++s) {
    const std::size_t total = m * v;
    const std::size_t first = std::min(total, 2 * (p - 1 - s) + (v - 1) * p);
    schedule.in_flight[s] = std::min(total, first + 1);
    std::vector<Pass>& passes = schedule.passes[s];
    for (std::size_t k = 0; k < first; ++k) passes.push_back(kth(k, s, PassKind::forward));
    for (std::size_t k = 0; k < total; ++k) {
      if (k + first < total) passes.push_back(kth(k + first, s, PassKind::forward));
      passes.push_back(kth(k, s, PassKind::backward));
    }
  }
  add_updates(schedule);
  return schedule;
}

}  // namespace baechi::pipeline
