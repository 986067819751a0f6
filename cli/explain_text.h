/// Formats an explanation of a step as text tables and as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/explain/explanation.h"
#include "sim/measure/measure.h"

namespace baechi {

/// Step time by cause; the critical path by kind, and its longest parts by start; idle time of each
/// device by cause; the tensors with most waiting time.
std::string explanation_text(const Explanation& explanation, const Problem& problem);

/// {"step_time_us", "critical_path": [{"kind", "name", "us", "start_us", "device", ...}],
/// "what_if", "devices", "tensors"}. The us of critical_path add up to step_time_us, and so do
/// those of what_if.
nlohmann::ordered_json explanation_json(const Explanation& explanation, const Problem& problem);

/// A row per device and one for all; "" if no op has known work.
std::string utilisation_text(const StepUtilisation& used, Duration step, const Problem& problem);
/// {"step": {"busy", "flops", ..., "intensity"}, "devices": [{"name", "busy", ...}]} with the names
/// of results.csv; null if unknown.
nlohmann::ordered_json utilisation_json(const StepUtilisation& used, const Problem& problem);

/// The largest tensors on the device that ran out of memory, and what keeps them live.
std::string live_text(const std::vector<LiveTensor>& live, const OutOfMemory& oom,
                      const Problem& problem);
nlohmann::ordered_json live_json(const std::vector<LiveTensor>& live, const Problem& problem);

}  // namespace baechi
