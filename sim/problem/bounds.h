/// How fast a step can be at best, whatever the placement: each bound ignores all but one reason
/// why a step takes time.
#pragma once
#include <string>
#include <string_view>

#include "sim/cluster/cost_model.h"

namespace baechi {

struct LowerBounds {
  Duration critical_path{};  ///< longest path, every op on its fastest device, transfers free
  Duration work{};           ///< all ops' time shared out evenly over the devices, by speed
  /// As `work`, without update ops, rounded down: what a micro-batch takes where updates are once.
  Duration repeated{};
  Duration group{};  ///< the longest colocation group on its fastest device
  bool fits_in_memory = true;
  std::string why_not{};  ///< if it does not fit: what needs how much, and what there is

  Duration best() const;             ///< the largest of critical_path, work and group
  std::string_view binding() const;  ///< its name; ties: in the order above
};

/// Bounds of a step under Semantics::event. Memory: the weights of all ops, and what is held beside
/// them while an op runs (held_at_once), must fit in all devices together; each op's footprint with
/// the tensors that it reads, and each group's weights with its largest other need, in the largest
/// device.
LowerBounds lower_bounds(const OpGraph& graph, const Cluster& cluster, const CostModel& costs);

}  // namespace baechi
