/// Which parallel plan trains a model fastest: the question as a user types it, and the answer.
#pragma once

#include "scenarios/planning/machines.h"
#include "scenarios/run/platform.h"
#include "sim/processor_time.h"

namespace baechi {

/// Texts are flags as typed; "": not given.
struct PlanQuestion {
  std::string model;
  PlatformFlags cluster;
  std::string nodes, as, framework = "none", reserve;
  std::int64_t batch = 0;
  std::size_t top = 10;
  PlanSpace space;  ///< as given; empty lists are defaults
  std::vector<std::string> recompute{"off", "full"}, sequence{"off"};
  bool check = false;  ///< the flags name one plan, which is simulated whatever memory it takes
  bool as_scenario = false;  ///< the fastest plan is written by scenario_of()
};

/// A change of the flags with which a plan fits.
struct Remedy {
  std::string flags;  ///< "--devices 16"
  SimulatedPlan plan;
};

struct PlanFindings {
  TrainingJob job;
  Machines machines;
  std::vector<Evidence> evidence{};
  std::string note{};  ///< for the user, lines; or ""
  PlanAnswer answer{};
  std::vector<SimulatedPlan> smallest{};  ///< where no plan fits: smallest_plans()
  std::vector<Remedy> remedies{};         ///< where no plan fits
  bool more_devices = true;               ///< whether more of them were tried
};

/// Throws InputError for wrong flags, or if there is no plan to try.
PlanFindings answer_plan(const PlanQuestion& question, const Watch& watch);

/// The fastest plan as a scenario and, with several stages, the placement that the scenario reads
/// from `placement`; else "".
std::pair<std::string, std::string> scenario_of(const PlanQuestion& question,
                                                const PlanFindings& found,
                                                std::string_view placement);

}  // namespace baechi
