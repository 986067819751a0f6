/// `baechi plan --planner` and `baechi place --placer` with a planner, whose answer is stages of
/// several devices.
#pragma once
#include <string>

#include "cli/cluster_flags.h"
#include "scenarios/read/scenario.h"

namespace baechi {

namespace planners {
struct PlannerEntry;
}

/// What the verb was told, as far as planners take part in it.
struct PlanRequest {
  std::string file;  ///< Piper's input: it says all that the flags do not
  Choice planner;
  std::string planner_text;  ///< as typed
  std::string output, format;
};
/// Plans, simulates a batch of the plan, prints and writes it. Returns the exit code. Throws
/// InputError for mistakes in the file, the options or the flags: a flag that says what the
/// planner's formula does not know is a mistake.
int place_plan(PlanRequest request, const planners::PlannerEntry& entry, const ClusterFlags& flags);

}  // namespace baechi
