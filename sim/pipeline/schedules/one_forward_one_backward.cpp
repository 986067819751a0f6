#include <algorithm>

#include "sim/pipeline/schedule.h"

namespace baechi::pipeline {
namespace {

/// Stage s runs F of its first p - s micro-batches, then alternates B and F, then runs the
/// remaining B. In flight: min(m, p - s). Time: as gpipe.
Schedule alternate(const Shape& shape, bool update_each) {
  Schedule schedule = empty_schedule(shape, shape.stages);
  for (std::size_t s = 0; s < shape.stages; ++s) {
    const std::size_t first = std::min(shape.micro_batches, shape.stages - s);
    schedule.in_flight[s] = first;
    std::vector<Pass>& passes = schedule.passes[s];
    for (std::size_t i = 0; i < first; ++i) passes.push_back(pass(PassKind::forward, s, i));
    for (std::size_t i = 0; i < shape.micro_batches; ++i) {
      passes.push_back(pass(PassKind::backward, s, i));
      if (update_each) passes.push_back(pass(PassKind::update, s, i));
      if (i + first < shape.micro_batches) passes.push_back(pass(PassKind::forward, s, i + first));
    }
  }
  return schedule;
}

}  // namespace

/// Source: Narayanan et al., "PipeDream", SOSP 2019, section 3.2. Stages are not replicated.
Schedule one_forward_one_backward(const Shape& shape) { return alternate(shape, true); }

/// Source: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021.
Schedule flushed_1f1b(const Shape& shape) {
  Schedule schedule = alternate(shape, false);
  add_updates(schedule);
  return schedule;
}

}  // namespace baechi::pipeline
