#include "sim/problem/peak_memory.h"

#include <algorithm>

#include "sim/graph/analysis.h"

namespace baechi {

PeakMemory peak_memory(const Problem& problem, const Placement& placement, DeviceId device,
                       const MemoryUse& at_peak) {
  PeakMemory peak{.activations = at_peak[MemoryKind::outputs],
                  .workspace = at_peak[MemoryKind::workspace],
                  .copies = at_peak[MemoryKind::copies],
                  .distinguished = !persistent_of_one_kind(problem.graph)};
  Bytes all, left = at_peak[MemoryKind::weights];
  for (const OpId v : problem.graph.ops()) {
    if (placement.device[v] != device) continue;
    const Op& op = problem.graph.op(v);
    all += op.persistent;
    const Bytes held = std::min(op.persistent, left);
    left -= held;
    (op.phase == Phase::forward    ? peak.weights
     : op.phase == Phase::backward ? peak.gradients
                                   : peak.optimizer_state) += held;
  }
  if (problem.engine.semantics == Semantics::baechi && at_peak[MemoryKind::weights] < all)
    peak.distinguished = false;
  if (!peak.distinguished) {
    peak.weights = at_peak[MemoryKind::weights];
    peak.gradients = peak.optimizer_state = {};
  }
  return peak;
}

}  // namespace baechi
