#include "placers/interface/placer.h"

#include <fmt/format.h>

namespace baechi {

std::string out_of_memory(const Problem& p, const Placement& placement) {
  const StepResult step = simulate(p, placement);
  if (!step.oom) return "";
  return fmt::format(
      "the placement found runs out of memory when simulated: {} at {}, {} '{}' needs {}, {} are "
      "free",
      p.cluster.device(step.oom->device).name, to_text(step.oom->at.time_since_epoch()),
      step.oom->transfer ? "the copy of an output of op" : "op", p.graph.name(step.oom->op),
      to_text(step.oom->needed), to_text(step.oom->free));
}

}  // namespace baechi
