/// Prints where the time of a step went: tables for people, JSON for programs.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/explain/explanation.h"
#include "sim/measure/utilisation.h"

namespace baechi {

/// Parts of the step that add up to it; the critical path by kind, and its longest parts in the
/// order of time; idle time of each device by cause; the tensors that devices waited for most.
std::string explanation_text(const Explanation& explanation, const Problem& problem);

/// {"step_time_us", "critical_path": [{"kind", "name", "us", "start_us", "device", ...}],
/// "what_if", "devices", "tensors"}: the us of critical_path, and those of what_if, add up to
/// step_time_us.
nlohmann::ordered_json explanation_json(const Explanation& explanation, const Problem& problem);

/// A row per device and one for all, of what is known; "" if no op states its work.
std::string utilisation_text(const StepUtilisation& used, Duration step, const Problem& problem);
/// {"step": {"busy", "flops", ..., "intensity"}, "devices": [{"name", "busy", ...}]}: the words of
/// results.csv, null where not known.
nlohmann::ordered_json utilisation_json(const StepUtilisation& used, const Problem& problem);

/// What the device held that ran out of memory: the largest tensors, and what keeps them.
std::string live_text(const std::vector<LiveTensor>& live, const OutOfMemory& oom,
                      const Problem& problem);
nlohmann::ordered_json live_json(const std::vector<LiveTensor>& live, const Problem& problem);

}  // namespace baechi
