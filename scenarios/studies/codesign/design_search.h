/// Which architecture trains a model fastest within an area, each with its best plan.
/// Source: Wang et al., "PHAZE", ICML 2024.
#pragma once
#include <atomic>
#include <optional>
#include <string_view>
#include <vector>

#include "scenarios/studies/codesign/design_plans.h"

namespace baechi {

struct SizedDesign {
  Accelerator design;
  double area = 0.0;  ///< um2
};

/// The architectures of the space whose area is known and within the limits, by falling area; ties:
/// the larger by tensor cores, vector cores, width, depth, buffer. Throws InputError if there is
/// none, or no limit.
struct DesignList {
  std::vector<SizedDesign> designs;
  std::size_t combinations = 0;  ///< of the space, within the limits or not
  double limit = 0.0;            ///< um2
  std::optional<SizedDesign> reference{};
};
DesignList designs_within(const CodesignChoice& choice, const AreaTable& areas);

struct VisitedDesign {
  SizedDesign sized;
  std::optional<DesignPlan> plan{};  ///< nothing: no plan fits
  bool on_front = false;             ///< no other visited one is faster without being larger
};

struct DesignAnswer {
  std::vector<VisitedDesign> visited;      ///< in the order of visits
  std::optional<std::size_t> best{};       ///< of `visited`; nothing: no plan fits anywhere
  std::optional<std::size_t> reference{};  ///< of `visited`
  std::size_t designs = 0;                 ///< that could be visited
  bool proved = false;                     ///< none of the others is faster

  /// The visited fraction of the designs.
  double share() const {
    return designs == 0 ? 0.0 : static_cast<double>(visited.size()) / static_cast<double>(designs);
  }
};

/// The reference first, then the list by `choice.order`. Best is the least time; ties: the smaller
/// area, then the first. Several designs are computed at once, but none behind the design that ends
/// the search counts as visited: the result is the same for any number of threads. `done` counts
/// the computed designs.
DesignAnswer search_designs(const DesignPlanner& planner, const DesignList& list,
                            const CodesignChoice& choice, std::atomic<std::size_t>& done);

}  // namespace baechi
