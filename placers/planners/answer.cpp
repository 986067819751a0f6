#include "placers/planners/answer.h"

#include <algorithm>

#include "sim/error.h"

namespace baechi::planners {

PlannerAnswer run_planner(const Planner& planner, PlannerInput input) {
  PlannerAnswer answer;
  answer.input = planner.prepared(std::move(input));
  const auto start = std::chrono::steady_clock::now();
  try {
    answer.planned = planner.plan(answer.input);
    answer.detail = answer.planned->detail;
  } catch (const InfeasibleError& infeasible) {
    answer.detail = infeasible.what();
  }
  answer.planning = std::chrono::steady_clock::now() - start;
  if (!answer.planned) return answer;
  const auto wrong = mistake_in(answer.planned->plan, answer.input);
  BAECHI_CHECK(!wrong, "a plan with a mistake: {}", wrong.value_or(""));
  return answer;
}

std::vector<std::string> recomputed(const PlannerInput& input, const PlannedStage& stage) {
  const auto degree = static_cast<std::size_t>(
      std::ranges::find(input.degrees, stage.tensor_parallel) - input.degrees.begin());
  std::vector<std::string> ops;
  for (std::size_t n = 0; n < stage.nodes.size(); ++n) {
    const PlannerNode& node = input.nodes[stage.nodes[n]];
    if (node.modes[degree][stage.modes[n]].recomputes()) ops.push_back(node.op);
  }
  return ops;
}

}  // namespace baechi::planners
