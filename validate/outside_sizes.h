/// Ops and transfers that are smaller or larger than anything a calibration has measured.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/cluster/calibration.h"
#include "validate/plan/plan.h"

namespace baechi::validate {

class OutsideSizes {
 public:
  /// Counts the tasks of a plan of `graph`.
  void add(const std::string& graph, const ReplayPlan& plan, const Calibration& calibration);
  /// A line per graph and kind of task: their number, their sizes, and the calibrated sizes.
  std::vector<std::string> lines() const;

 private:
  struct Range {
    double least = 0.0, most = 0.0;
    std::size_t outside = 0;
    double known_least = 0.0, known_most = 0.0;
  };
  std::map<std::pair<std::string, std::string>, Range> ranges_;  // by graph and kind
};

}  // namespace baechi::validate
