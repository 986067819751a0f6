/// Which nodes of a stage trade time for memory.
#pragma once
#include <vector>

#include "placers/planners/staged_plan.h"

namespace baechi::planners {

/// Time costs of a stage's nodes. `inside` [nodes]: whether a node is in the stage.
class StageCost {
 public:
  StageCost(const PlannerInput& input, std::int64_t data_parallel,
            const IdVector<BundleId, char>& inside)
      : input_(input), d_(static_cast<double>(data_parallel)), inside_(inside) {}

  /// The cost of one node in one of its modes, per micro-batch: computing, its cut edges twice (a
  /// tensor and its gradient), and its share of the exchange of gradients, once per batch, by
  /// sharded parameter servers.
  double time(BundleId b, const PlannerMode& mode) const;
  double crossing_bytes(BundleId b, const PlannerMode& mode) const;

 private:
  const PlannerInput& input_;
  double d_;
  const IdVector<BundleId, char>& inside_;
};

/// Modes of the nodes of a stage, the fastest that fit.
struct ChosenModes {
  bool fits = false;   ///< false: not even the leanest modes do
  double extra = 0.0;  ///< time above that of the fastest modes
  double least = 0.0;  ///< lower bound on `extra` of any choice that fits, also with more
                       ///< micro-batches in flight
  std::vector<std::size_t> modes;  ///< [nodes]
};
/// All nodes must have modes of the degree. Ties: the first mode; the first node.
ChosenModes choose_modes(const PlannerInput& input, const std::vector<BundleId>& nodes,
                         std::size_t degree, std::int64_t data_parallel, std::int64_t in_flight,
                         ModeChoice choice, const IdVector<BundleId, char>& inside);

/// The mode of least time; ties: the first.
std::size_t fastest_mode(const std::vector<PlannerMode>& modes);

}  // namespace baechi::planners
