/// What a set of plans can show: one of idle plans, or of plans that are told all but a little of
/// their step, shows nothing.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "validate/predictor.h"

namespace baechi::validate {

/// Which of the questions a plan answers, each with its own targets.
enum class Layer : std::uint8_t {
  queues,     ///< ops of exact length, paced links: only queues and gaps can be wrong
  real,       ///< real ops or transfers, hardly slowed by neighbours
  contended,  ///< slowed by more than 1 %, as predicted
};
constexpr auto names_of(Layer) {
  return std::to_array<Named<Layer>>({{Layer::queues, "queues", "queues"},
                                      {Layer::real, "real", "real ops"},
                                      {Layer::contended, "contended", "real ops, contended"}});
}

/// The largest errors of step times that a layer is to have.
struct LayerTarget {
  double median = 0.0, p95 = 0.0;
};
LayerTarget target_of(Layer layer);

/// `step`: as predicted with all effects.
Layer layer_of(const ReplayPlan& plan, const Calibration& calibration, Duration step);

/// What one plan can show, as predicted. Ops are ops of lane 0.
struct PlanWorth {
  double none = 0.0;  ///< fraction of the step in which no op runs
  double two = 0.0;   ///< in which ops of two devices or more run
  /// The error of a model without overheads, over its layer's median target.
  double overheads = 0.0;
};
/// `calibration`: null if there is none; overheads are then 0.
PlanWorth worth_of(const ReplayPlan& plan, const Replay& replay, const Calibration* calibration);

/// What each graph of a set must have, or it is refused.
struct LeastWorth {
  double busy = 0.0;         ///< PlanWorth::two of half of its placements
  double overheads = 0.0;    ///< median of PlanWorth::overheads; 5: a fair test
  std::size_t distinct = 0;  ///< different placements
};

/// The placements of each graph of a set.
class SetWorth {
 public:
  /// `placement`: equal for equal placements.
  void add(const std::string& graph, PlanWorth worth, std::uint64_t placement);
  /// A line per graph: medians, and how many placements are distinct.
  std::vector<std::string> lines() const;
  /// A line for each thing that a graph lacks; "" if there is none.
  std::string lacking(const LeastWorth& least) const;

 private:
  struct Graph {
    std::vector<double> none, two, overheads;
    std::set<std::uint64_t> placements;
  };
  std::map<std::string, Graph> graphs_;
};

}  // namespace baechi::validate
