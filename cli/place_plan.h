/// `baechi plan --planner` and `baechi place --placer` with a planner, which returns stages of
/// several devices.
#pragma once

#include "cli/arguments.h"

namespace baechi {

namespace planners {
struct PlannerEntry;
}

/// The arguments of the verb that concern planners.
struct PlanRequest {
  std::string file;  ///< Piper's input, with the default of every flag
  Choice planner;
  std::string planner_text;  ///< as typed
  std::string output, format;
};
/// Plans, simulates a batch of the plan, prints and writes it; returns the exit code. Throws
/// InputError on mistakes in the file, the options or the flags, and on flags that the planner's
/// cost model does not have.
int place_plan(PlanRequest request, const planners::PlannerEntry& entry,
               const PlatformFlags& flags);

}  // namespace baechi
