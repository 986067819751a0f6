#include <algorithm>

#include "sim/find_entry.h"
#include "sim/objective/objective.h"

namespace baechi {

MakeObjective make_step_time, make_max_load, make_latency;

std::span<const ObjectiveEntry> objectives() {
  static constexpr ObjectiveEntry table[] = {
      {"step_time", "time of one simulated step, under the engine options",
       "sim/engine/simulation.h", make_step_time},
      {"max_load", "time per sample of a pipeline: the largest device load",
       "Tarnawski et al., NeurIPS 2020, throughput", make_max_load},
      {"latency", "time of one sample; each device runs its part as a whole",
       "Tarnawski et al., NeurIPS 2020, latency", make_latency},
  };
  return table;
}

std::unique_ptr<Objective> make_objective(std::string_view name, Options options,
                                          const std::string& where) {
  const ObjectiveEntry& entry = find_entry(objectives(), "objective", name, where);
  auto objective = entry.make(options);
  options.finish();
  return objective;
}

}  // namespace baechi
