/// The result of a scenario's section `codesign`.
#pragma once
#include <optional>

#include "scenarios/read/scenario.h"
#include "scenarios/studies/codesign/design_search.h"
#include "sim/processor_time.h"

namespace baechi {

struct CodesignResult {
  DesignAnswer answer;
  std::size_t combinations = 0;  ///< of the space
  double limit = 0.0;            ///< um2
  std::int64_t batch = 1;

  /// Samples per second of a design with a plan.
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
