/// Lower bounds of the step time of every placement: each ignores all but one cause of time.
#pragma once
#include <string>
#include <string_view>

#include "sim/cluster/cost_model.h"

namespace baechi {

struct LowerBounds {
  Duration critical_path{};  ///< longest path, every op on its fastest device, transfers free
  Duration work{};           ///< all ops' time shared out evenly over the devices, by speed
  /// As `work`, without update ops, rounded down: the time of a micro-batch if updates run once.
  Duration repeated{};
  Duration group{};  ///< the longest colocation group on its fastest device
  bool fits_in_memory = true;
  std::string why_not{};  ///< if it does not fit: the need, its owner, and the available memory

  Duration best() const;             ///< the largest of critical_path, work and group
  std::string_view binding() const;  ///< its name; ties: in the order above
};

/// Bounds of a step under Semantics::event. Memory: all devices together must hold the weights of
/// all ops, and the bytes held beside them while an op runs (held_at_once). The largest device must
/// hold each op's footprint with its inputs, and each group's weights with its largest other need.
LowerBounds lower_bounds(const OpGraph& graph, const Cluster& cluster, const CostModel& costs);

}  // namespace baechi
