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

/// All F, then all B, the last micro-batch first, then U. In flight: m.
/// Time: (m + p - 1)(F + B), with a bubble of (p - 1)(F + B).
/// Source: Huang et al., "GPipe", NeurIPS 2019.
Schedule gpipe(const Shape& shape) {
  Schedule schedule = empty_schedule(shape, shape.stages);
  for (std::size_t s = 0; s < shape.stages; ++s) {
    schedule.in_flight[s] = shape.micro_batches;
    for (std::size_t i = 0; i < shape.micro_batches; ++i)
      schedule.passes[s].push_back(pass(PassKind::forward, s, i));
    for (std::size_t i = shape.micro_batches; i-- > 0;)
      schedule.passes[s].push_back(pass(PassKind::backward, s, i));
  }
  add_updates(schedule);
  return schedule;
}

}  // namespace baechi::pipeline
