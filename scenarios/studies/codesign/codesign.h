/// The answer to a scenario's `codesign` block.
#pragma once
#include <functional>
#include <memory>

#include "scenarios/read/scenario.h"
#include "scenarios/studies/codesign/design_search.h"

namespace baechi {

struct CodesignResult {
  DesignAnswer answer;
  std::size_t combinations = 0;  ///< of the space
  double limit = 0.0;            ///< um2
  std::int64_t batch = 1;

  /// Samples per second, of one that has a plan.
  double throughput(const VisitedDesign& v) const {
    return static_cast<double>(batch) / v.plan->seconds;
  }
  /// The best's throughput over the reference's; nothing without both.
  std::optional<double> gain() const;
};

/// Called with the number of architectures and with a counter of the finished ones. Its result
/// lives until the search ends.
using WatchDesigns =
    std::function<std::shared_ptr<void>(const std::atomic<std::size_t>& done, std::size_t total)>;

/// Throws InputError if the scenario has no `codesign` block, not one generated graph and one
/// cluster of equal devices, or as the parts of the search do.
CodesignResult codesign_of(const ScenarioFile& file, const WatchDesigns& watch);

}  // namespace baechi
