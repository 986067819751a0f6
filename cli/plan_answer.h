/// The answer of `baechi plan`, for people and for programs.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "scenarios/planning/plan_search.h"
#include "scenarios/run/experiment.h"

namespace baechi {

/// A change of the flags with which a plan fits.
struct Remedy {
  std::string flags;  ///< "--devices 16"
  SimulatedPlan plan;
};

/// What `plan` found.
struct PlanFindings {
  PlanAnswer answer;
  std::vector<SimulatedPlan> smallest{};  ///< where no plan fits: smallest_plans()
  std::vector<Remedy> remedies{};         ///< where no plan fits
};

/// `check`: of the one plan, with whether it fits and the memory of every stage.
std::string plan_text(const PlanFindings& found, const TrainingJob& job, const Machines& machines,
                      const std::vector<Evidence>& evidence, bool check);
nlohmann::ordered_json plan_json(const PlanFindings& found, const TrainingJob& job,
                                 const Machines& machines, const std::vector<Evidence>& evidence,
                                 bool check);

}  // namespace baechi
