#include "placers/bounds/named_bounds.h"

#include <fmt/format.h>

#include <algorithm>

#include "placers/bounds/solver_bounds.h"
#include "placers/exact/pipelines.h"
#include "placers/interface/registry.h"

namespace baechi::bounds {
namespace {

/// The bound by linear program takes too long for graphs with more edges and is left out.
constexpr std::size_t most_edges = 100'000;

}  // namespace

NamedBounds step_bounds(const LowerBounds& quick, const Problem& problem) {
  NamedBounds bounds{
      {{"critical path", "critical_path_us", "the longest chain of ops, transfers free",
        quick.critical_path},
       {"work", "work_us", "the total work, divided evenly over the devices", quick.work},
       {"group", "group_us", "the longest colocation group, on one device", quick.group},
       {"memory", "memory_us", "the total work, divided so that the weights fit",
        shared_bound(problem, Limits::all_devices)}}};
  if (problem.engine.semantics == Semantics::event && problem.graph.num_edges() <= most_edges)
    bounds.all.push_back({"communication", "communication_us",
                          "the longest chain, one neighbour of each op on its device",
                          communication_bound(problem)});
  return bounds;
}

NamedBounds load_bounds(const LowerBounds& quick, const Problem& problem,
                        std::optional<Duration> time_limit) {
  const ColocationUnits units(problem.graph);
  const std::vector<DeviceClass> classes = device_classes(problem);
  const exact::Bundles bundles(problem, units, classes, {.join_cycles = false});
  NamedBounds bounds{
      {{"work", "work_us", "the total work, divided evenly over the devices", quick.work},
       {"group", "group_us", "the longest colocation group, on one device", quick.group},
       {"memory", "memory_us", "the total work, divided so that the weights fit",
        shared_bound(problem, Limits::accelerators)},
       {"counting", "counting_us", "the longest groups, each on one device",
        exact::load_bound(bundles, classes)}}};
  if (!time_limit) return bounds;
  const std::string limit = fmt::format("{} us", to_us(*time_limit));
  try {
    const Placement split =
        make_placer("mip_max_load", Options("mip_max_load", {{"time_limit", {limit, {}, {}}}}))
            ->place(problem, 0);
    bounds.all.push_back({"integer program", "integer_program_us",
                          "branch and bound, within the time limit",
                          from_us(split.facts.at("bound_us")).value_or(Duration{})});
  } catch (const InfeasibleError&) {  // no placement fits, so a bound would mean nothing
  }
  return bounds;
}

Duration NamedBounds::best() const {
  return std::ranges::max(all, {}, &NamedBound::time).time;
}

std::string_view NamedBounds::binding() const {
  return std::ranges::max_element(all, {}, &NamedBound::time)->name;
}

}  // namespace baechi::bounds
