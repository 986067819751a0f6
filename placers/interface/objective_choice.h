/// The objective that a placer minimises, as an option.
#pragma once
#include <memory>
#include <string>

#include "sim/objective/objective.h"

namespace baechi {

struct ObjectiveChoice {
  std::string name;
  std::unique_ptr<Objective> objective;
};

/// The option `objective`: a name, or {name: {options}}; step_time by default.
ObjectiveChoice read_objective(Options& options);

}  // namespace baechi
