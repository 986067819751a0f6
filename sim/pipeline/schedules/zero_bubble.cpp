#include <algorithm>

#include "sim/pipeline/schedule.h"

namespace baechi::pipeline {
namespace {

/// Stage s runs F of its first `first` micro-batches, then B, W and F in turn, with W `late`
/// micro-batches after B; then the remaining W.
void alternate_with_late_weights(Schedule& schedule, std::size_t s, std::size_t first,
                                 std::size_t late) {
  const std::size_t m = schedule.micro_batches;
  std::vector<Pass>& passes = schedule.passes[s];
  for (std::size_t i = 0; i < std::min(m, first); ++i)
    passes.push_back(pass(PassKind::forward, s, i));
  for (std::size_t i = 0; i < m; ++i) {
    passes.push_back(pass(PassKind::backward, s, i));
    if (i >= late) passes.push_back(pass(PassKind::weights, s, i - late));
    if (i + first < m) passes.push_back(pass(PassKind::forward, s, i + first));
  }
  for (std::size_t i = m - std::min(m, late); i < m; ++i)
    passes.push_back(pass(PassKind::weights, s, i));
}

}  // namespace

/// 1F1B in which stage s delays W by s micro-batches. In flight: p on every stage, as on 1F1B's
/// first. Bubble, with W not included in B: (p - 1)(F + B - W), for m >= p.
/// Source: Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 2.1.
Schedule zb_h1(const Shape& shape) {
  Schedule schedule = empty_schedule(shape, shape.stages);
  for (std::size_t s = 0; s < shape.stages; ++s) {
    alternate_with_late_weights(schedule, s, shape.stages - s, s);
    schedule.in_flight[s] = std::min(shape.micro_batches, shape.stages);
  }
  add_updates(schedule);
  return schedule;
}

/// Stage s begins with 2 (p - s) - 1 F and delays W by 2 s micro-batches. In flight: 2p - 1 on
/// every stage. Bubble: (p - 1)(F + B - 2W) between a stage's first and last pass, for m >= 2p - 1.
/// Source: Qi et al., section 2.2. Differs: each stage updates after its own passes without waiting
/// for the others, the effect of the paper's rollback of updates.
Schedule zb_h2(const Shape& shape) {
  Schedule schedule = empty_schedule(shape, shape.stages);
  for (std::size_t s = 0; s < shape.stages; ++s) {
    alternate_with_late_weights(schedule, s, 2 * (shape.stages - s) - 1, 2 * s);
    schedule.in_flight[s] = std::min(shape.micro_batches, 2 * shape.stages - 1);
  }
  add_updates(schedule);
  return schedule;
}

}  // namespace baechi::pipeline
