/// What a simulated step was like, in words and columns for people and in JSON for programs.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/problem/bounds.h"
#include "sim/engine/simulation.h"

namespace baechi {

/// "out of memory on gpu1 at 12.300 ms: op 'conv5' asks for 1.20 GiB, 0.80 GiB of 8.00 GiB are free
/// (live: weights 4.00 GiB, outputs 3.20 GiB)".
std::string sentence(const OutOfMemory& oom, const Problem& problem, const Placement& placement);

/// Time against the lower bound, then a line per device: busy, idle, peak and of what it consisted.
std::string step_table(const StepResult& step, const LowerBounds& bounds, const Problem& problem,
                       const Placement& placement);

nlohmann::ordered_json step_json(const StepResult& step, const LowerBounds& bounds,
                                 const Problem& problem);

}  // namespace baechi
