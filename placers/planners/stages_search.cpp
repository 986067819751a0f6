#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "placers/planners/stages_program.h"

namespace baechi::planners {

namespace {

/// Whether a stage of this node alone could fit.
bool has_room(const PlannerInput& input, const PlannerNode& node) {
  for (const auto& modes : node.modes)
    for (const PlannerMode& mode : modes)
      if (mode.memory(1) <= input.memory) return true;
  return false;
}

}  // namespace

std::vector<BundleId> plan_line(const PlannerInput& input) {
  IdVector<BundleId, std::size_t> missing(input.nodes.size(), 0);
  std::vector<BundleId> ready, line;
  for (const BundleId b : input.nodes.ids()) {
    missing[b] = input.in[b].size();
    if (missing[b] == 0) ready.push_back(b);
  }
  while (!ready.empty()) {
    line.push_back(ready.back());
    ready.pop_back();
    for (const std::uint32_t e : input.out[line.back()])
      if (--missing[input.edges[e].to] == 0) ready.push_back(input.edges[e].to);
  }
  return line;
}

FoundStages search_plans(const PlannerInput& input, ModeChoice choice, std::size_t most) {
  FoundStages search;
  std::vector<BundleId> line = plan_line(input);
  std::ranges::reverse(line);
  search.plan =
      best_plan(input, Ideals::chain(line), choice, std::numeric_limits<double>::infinity());
  const auto ideals = Ideals::enumerate(input.order.reversed(), most);
  if (!ideals) return search;
  search.ideals = ideals->size();
  if (ideals->size() == line.size() + 1) return search;  // there is no other linear order
  const double below = search.plan ? search.plan->time_per_sample * (1.0 - 1e-9)
                                   : std::numeric_limits<double>::infinity();
  if (auto better = best_plan(input, *ideals, choice, below)) search.plan = std::move(better);
  return search;
}

std::string why_no_plan(const PlannerInput& input) {
  for (const PlannerNode& node : input.nodes) {
    if (std::ranges::all_of(node.modes, [](const auto& modes) { return modes.empty(); }))
      return fmt::format("node {} ('{}') has no mode that is allowed", node.id, node.name);
    if (!has_room(input, node))
      return fmt::format("node {} ('{}') fits in no mode in {:.0f} bytes", node.id, node.name,
                         input.memory);
  }
  return fmt::format("no plan for {} devices of {:.0f} bytes", input.devices, input.memory);
}

}  // namespace baechi::planners
