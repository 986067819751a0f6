#include "placers/planners/registry.h"

#include <algorithm>

namespace baechi::planners {

std::span<const PlannerEntry> planners() {
  static constexpr PlannerEntry table[] = {
      {.name = "piper", .make = make_piper},
      {.name = "pipedream_2bw", .make = make_pipedream_2bw},
  };
  return table;
}

const PlannerEntry* find_planner(std::string_view name) {
  const auto entry = std::ranges::find(planners(), name, &PlannerEntry::name);
  return entry == planners().end() ? nullptr : &*entry;
}

}  // namespace baechi::planners
