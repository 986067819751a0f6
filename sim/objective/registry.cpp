#include <algorithm>

#include "sim/objective/objective.h"

namespace baechi {

std::unique_ptr<Objective> make_step_time(Options&);
std::unique_ptr<Objective> make_max_load(Options&);
std::unique_ptr<Objective> make_latency(Options&);

std::span<const ObjectiveEntry> objectives() {
  static constexpr ObjectiveEntry table[] = {
      {"step_time", "one simulated step, as the engine options say", "sim/engine/simulation.h",
       make_step_time},
      {"max_load", "time per sample of a pipeline: the largest device load",
       "Tarnawski et al., NeurIPS 2020, throughput", make_max_load},
      {"latency", "of one sample, each device's part invoked as a whole",
       "Tarnawski et al., NeurIPS 2020, latency", make_latency},
  };
  return table;
}

std::unique_ptr<Objective> make_objective(std::string_view name, Options options,
                                          const std::string& where) {
  const auto it = std::ranges::find(objectives(), name, &ObjectiveEntry::name);
  if (it == objectives().end()) {
    std::vector<std::string> known;
    for (const ObjectiveEntry& entry : objectives()) known.emplace_back(entry.name);
    throw InputError(fmt::format("{}no objective '{}'{} (objectives: {})", at(where), name,
                                 did_you_mean(name, known), fmt::join(known, ", ")));
  }
  auto objective = it->make(options);
  options.finish();
  return objective;
}

}  // namespace baechi
