#include <algorithm>

#include "sim/error.h"
#include "sim/pipeline/schedule.h"

namespace baechi::pipeline {

namespace {

/// The least group size >= `p` that leaves no final group smaller than `p`, which Megatron-LM
/// rejects. Source: Megatron-LM, megatron/core/pipeline_parallel/schedules.py.
std::size_t group_of(std::size_t m, std::size_t p) {
  std::size_t group = p;
  while (m % group != 0 && m % group < p) ++group;
  return group;
}

}  // namespace

/// 1F1B over v chunks per stage: a group of g micro-batches goes through one chunk, then through
/// the stage's next chunk. With F and B the times of all chunks of a stage, the bubble is (p - 1)(F
/// + B) / v if g = p. In flight on stage s: 2 (p - 1 - s) + (v - 1) g + 1 chunks, or all. Source:
/// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
/// Megatron-LM", SC 2021, section 2.2, and the warm-up of its code
/// (microbatch_group_size_per_vp_stage).
/// Throws InputError unless v > 1 and there are p micro-batches.
Schedule interleaved(const Shape& shape) {
  const std::size_t p = shape.stages, v = shape.laps, m = shape.micro_batches;
  if (v < 2)
    throw InputError(
        "interleaved needs two chunks or more on each device, and each device of this placement "
        "has one: micro-batches never come back to it (1f1b_flush does without)");
  if (m < p)
    throw InputError(
        fmt::format("interleaved needs a micro-batch for each of its {} stages, not {}", p, m));
  const std::size_t group = group_of(m, p);
  Schedule schedule = empty_schedule(shape, p * v);
  // The k-th pass of a kind on a stage.
  const auto kth = [&](std::size_t k, std::size_t stage, PassKind kind) {
    const std::size_t before = k / (group * v) * group, in_group = k - before * v;
    const std::size_t size = std::min(group, m - before), lap = in_group / size;
    const std::size_t own = kind == PassKind::forward ? lap : v - 1 - lap;
    return pass(kind, own * p + stage, before + in_group % size);
  };
  for (std::size_t s = 0; s < p; ++s) {
    const std::size_t total = m * v;
    const std::size_t first = std::min(total, 2 * (p - 1 - s) + (v - 1) * group);
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
