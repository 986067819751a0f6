/// Lower bounds of the step time over all placements.
#pragma once
#include <string>
#include <string_view>

#include "sim/cluster/cost_model.h"

namespace baechi {

struct LowerBounds {
  Duration critical_path{};  ///< longest path, every op on its fastest device, transfers free
  Duration work{};           ///< total op time, divided over the devices by speed
  /// `work` without update ops, rounded down: per micro-batch if updates run once.
  Duration repeated{};
  Duration group{};  ///< the longest colocation group on its fastest device
  bool fits_in_memory = true;
  std::string why_not{};  ///< if it does not fit: what needs how much, and the available memory

  Duration best() const;             ///< the largest of critical_path, work and group
  std::string_view binding() const;  ///< its name; ties: in the order above
};

/// Bounds of a step under Semantics::event. Memory: all devices together must hold all weights plus
/// the bytes held while an op runs (held_at_once). The largest device must hold each op's footprint
/// with its inputs, and each group's weights with the largest other need of its ops.
LowerBounds lower_bounds(const OpGraph& graph, const Cluster& cluster, const CostModel& costs);

}  // namespace baechi
