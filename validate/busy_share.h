/// The fraction of a step in which several devices compute: a set of idle plans can show nothing.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "validate/predictor.h"

namespace baechi::validate {

/// Fractions of a step, as predicted. Ops are ops of lane 0.
struct BusyShare {
  double none = 0.0;  ///< no op runs
  double two = 0.0;   ///< ops of two devices or more run
};
BusyShare busy_share(const ReplayPlan& plan, const Replay& replay);

/// The placements of each graph of a set.
class BusyShares {
 public:
  /// `placement`: equal for equal placements.
  void add(const std::string& graph, BusyShare share, std::uint64_t placement);
  /// A line per graph: medians of the shares, and how many placements are distinct.
  std::vector<std::string> lines() const;
  /// Graphs of which fewer than half of the placements keep two devices busy for `least` of the
  /// step, and graphs with fewer than `distinct` placements; "" if there are none.
  std::string lacking(double least, std::size_t distinct) const;

 private:
  struct Graph {
    std::vector<double> none, two;
    std::set<std::uint64_t> placements;
  };
  std::map<std::string, Graph> graphs_;
};

}  // namespace baechi::validate
