/// Prints a simulated step: sentences and columns for people, JSON for programs.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/engine/simulation.h"
#include "sim/problem/problem.h"
#include "sim/problem/step.h"

namespace baechi {

/// The verdict on a step that ran out of memory: "out of memory on gpu1 at 12.300 ms: op
/// 'conv5': 1.20 GiB needed, of 8.00 GiB only 0.80 GiB are free (live: weights 4.00 GiB,
/// outputs 3.20 GiB)".
std::string sentence(const OutOfMemory& oom, const Problem& problem, const Placement& placement);

/// The step time against its lower bound, then one line per device: busy and idle time, peak
/// memory, and the parts of the peak.
std::string step_table(const StepResult& step, const LowerBounds& bounds, const Problem& problem,
                       const Placement& placement);

/// The same facts; the step time is null if the step ran out of memory.
nlohmann::ordered_json step_json(const StepResult& step, const LowerBounds& bounds,
                                 const Problem& problem, const Placement& placement);

/// Bytes by kind; null where the graph has gradients and optimizer state among the weights.
nlohmann::ordered_json peak_json(const PeakMemory& peak);

}  // namespace baechi
