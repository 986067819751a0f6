/// The result of a scenario's section `codesign`.
#pragma once

#include "scenarios/studies/codesign/design_plans.h"
#include "sim/processor_time.h"

namespace baechi {

/// Reads one of:
/// - CSV with the columns part (tensor_core, vector_core, buffer), size (multipliers, lanes, or a
///   size such as 64 MiB) and area_um2;
/// - the list of whole accelerators of PHAZE's script (JSON, compressed or not): an array of
///   {num_tc, num_vc, width, depth, width_vc, GLB_Buffer, area}. The parts' areas are computed from
///   differences of its entries, and reproduce every entry's area within a relative 10^-9.
/// Throws InputError for any other content, or a list whose areas are not such sums.
AreaTable read_area_table(const std::string& path);

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

struct CodesignResult {
  DesignAnswer answer;
  std::size_t combinations = 0;  ///< of the space
  double limit = 0.0;            ///< um2
  std::int64_t batch = 1;

  double throughput(const VisitedDesign& v) const {
    return static_cast<double>(batch) / v.plan->seconds;
  }
  /// The visited designs with a plan, the fastest first; ties: the smaller, then the first visited.
  std::vector<std::size_t> ranked() const;
  /// The throughput of the best design relative to the reference; nothing without both.
  std::optional<double> gain() const;
};

/// Throws InputError if the scenario has no section `codesign`, not exactly one generated graph and
/// one cluster of equal devices, or as the parts of the search do.
CodesignResult codesign_of(const ScenarioFile& file, const Watch& watch);

}  // namespace baechi
