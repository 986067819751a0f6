/// Plans replayed again and again, in the rows of a validation run.
#pragma once
#include <span>

#include "sim/watch.h"
#include "validate/executor.h"
#include "validate/validation_run.h"

namespace baechi::validate {

/// Every plan `replays` times in round 0, then all again in round 1. In each plan, mode and
/// round the first `timelines` replays are kept task by task.
struct ReplayChoice {
  int replays = 30;
  int timelines = 3;
  bool in_turn = false;  ///< one replay of each plan, then the next of each, so that all see the
                         ///< same disturbances
};
/// `watch` counts replays.
void replay_plans(Executor& executor, std::span<const ReplayPlan> plans, ReplayChoice choice,
                  ValidationRun& run, const Watch& watch = {});

}  // namespace baechi::validate
