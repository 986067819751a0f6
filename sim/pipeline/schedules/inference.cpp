#include "sim/pipeline/schedule.h"

namespace baechi::pipeline {

/// Forward passes in order. A stage leads the next stage by at most three micro-batches: one in
/// computation, one in transfer and one that is ready.
Schedule inference(const Shape& shape) {
  Schedule schedule = empty_schedule(shape, shape.stages);
  schedule.ahead = 3;
  for (std::size_t s = 0; s < shape.stages; ++s) {
    schedule.in_flight[s] = shape.micro_batches;  // no backward pass ends any
    for (std::size_t i = 0; i < shape.micro_batches; ++i)
      schedule.passes[s].push_back(pass(PassKind::forward, s, i));
  }
  return schedule;
}

}  // namespace baechi::pipeline
