/// Predicted times of a plan's tasks. Its queues are first in, first out, so lengths, gaps and
/// dependencies decide the times.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "validate/timing.h"

namespace baechi::validate {

struct Replay {
  std::vector<Duration> start{}, end{};  ///< [tasks], from the first start
  Duration step() const;                 ///< last end; 0 of no tasks
};

/// A task begins once its queue is free, all it waits for has ended, and gaps have passed. Without
/// effects this is exactly the schedule of the engine that the plan was made from. Shared channels
/// serve in order of time, then of submission.
Replay predict(const ReplayPlan& plan, const Timing& timing);

/// Most bytes alive on each device, resident ones included. [devices]
/// At one instant memory is given back before more is taken.
std::vector<Bytes> peaks(const ReplayPlan& plan, const Replay& replay);

/// Whether a device's peak is over its budget, where the plan has them enforced.
bool runs_out(const ReplayPlan& plan, const std::vector<Bytes>& peaks);

}  // namespace baechi::validate
