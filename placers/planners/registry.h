/// The table of all planners by their names.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "placers/planners/planner.h"

namespace baechi::planners {

struct PlannerEntry {
  std::string_view name;
  std::unique_ptr<Planner> (*make)(Options&);
};
std::span<const PlannerEntry> planners();

/// The planner called `name`; null if there is none.
const PlannerEntry* find_planner(std::string_view name);

}  // namespace baechi::planners
