/// The answer of `baechi plan`, for people and for programs.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "scenarios/planning/plan_search.h"
#include "scenarios/run/evidence.h"

namespace baechi {

/// `check`: of the one plan, with whether it fits and the memory of every stage.
std::string plan_text(const PlanAnswer& answer, const TrainingJob& job, const Machines& machines,
                      const std::vector<Evidence>& evidence, bool check);
nlohmann::ordered_json plan_json(const PlanAnswer& answer, const TrainingJob& job,
                                 const Machines& machines, const std::vector<Evidence>& evidence,
                                 bool check);

}  // namespace baechi
