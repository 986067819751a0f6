/// Searches for the architecture that trains a model fastest within an area, each with its best
/// plan.
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

/// The architectures of the space whose area is known and within the limits, by decreasing area;
/// ties: the larger by tensor cores, vector cores, width, depth, buffer. Throws InputError if there
/// is none, or no limit.
struct DesignList {
  std::vector<SizedDesign> designs;
  std::size_t combinations = 0;  ///< of the space, also beyond the limits
  double limit = 0.0;            ///< um2
  std::optional<SizedDesign> reference{};
};
DesignList designs_within(const CodesignChoice& choice, const AreaTable& areas);

struct VisitedDesign {
  SizedDesign sized;
  std::optional<DesignPlan> plan{};  ///< nothing: no plan fits
  bool on_front = false;             ///< Pareto-optimal among the visited designs
};

struct DesignAnswer {
  std::vector<VisitedDesign> visited;  ///< in the order of visits
  std::optional<std::size_t> best{};  ///< index into `visited`; nothing: no plan fits on any design
  std::optional<std::size_t> reference{};  ///< index into `visited`
  std::size_t designs = 0;                 ///< that could be visited
  bool proved = false;                     ///< it is proved that no other design is faster

  /// The visited fraction of the designs.
  double share() const {
    return designs == 0 ? 0.0 : static_cast<double>(visited.size()) / static_cast<double>(designs);
  }
};

/// Visits the reference first, then the list by `choice.order`. Best is the least time; ties: the
/// smaller area, then the first. Several designs are computed concurrently, but designs after the
/// one that ends the search do not count as visited: the result does not depend on the number of
/// threads. `done` counts the computed designs.
DesignAnswer search_designs(const DesignPlanner& planner, const DesignList& list,
                            const CodesignChoice& choice, std::atomic<std::size_t>& done);

}  // namespace baechi
