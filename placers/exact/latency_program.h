/// The latency of one sample as a mixed integer program.
#pragma once
#include "placers/exact/placement_program.h"
#include "sim/objective/objective.h"

namespace baechi::exact {

/// Where an op may be: a class of cores, or one part of one accelerator.
struct Slot {
  DeviceId device{};       ///< of CPU cores the first: their number has no limit
  std::uint32_t part = 0;  ///< of an accelerator, whose parts run in this order
  std::size_t cls = 0;
  bool core = false;
};

struct Invocations {
  Placement placement;
  Parts part;
};

/// How the ops of an accelerator are cut into parts: at will, or as the objective `latency` does,
/// where a part ends only where a path leaves the accelerator and comes back.
enum class Cut : std::uint8_t { any, as_objective };

struct PartRules {
  std::size_t parts = 1;  ///< of each accelerator, at most
  Cut cut = Cut::any;
  /// Each part takes longer by a hundred-thousandth of `below`, so that parts of no time cannot
  /// wait for each other.
  bool strict = false;
};

/// Placements of `bundles` (of BundleRules::Order::data) where each accelerator runs at most
/// `rules.parts` parts in turn, with a latency of at most `below` - `step`. The objective is the
/// latency, in thousandths of `below`.
///
/// Columns: x[bundle, slot], whole; with several parts x[op, slot], because a bundle may be in
/// several parts of its device. lat[op], start[part], end[part]; in[tensor, part], out[tensor,
/// part], 1 if the part pays for it. z[op, part] is 0 once a path has left the part, so that no
/// path comes back. Rows that are not in the paper hold for every such placement and tighten the
/// relaxation:
/// - along a path ops and transfers take their times one after the other, parts or not;
/// - of equal accelerators, each begins (by bundle id) after the one before it.
/// With Cut::as_objective, back[op, part] is 1 where a path that has left the part may come back
/// from, and an op of a later part needs such a predecessor, or one in its own part.
/// Source: Tarnawski et al., NeurIPS 2020, integer program for latency.
struct LatencyProgram : PlacementProgram {
  std::vector<Slot> slots;
  IdVector<OpId, std::vector<std::uint32_t>> x;  ///< columns [num_ops][slots]

  Invocations invocations(const std::vector<double>& solution) const;
};
LatencyProgram latency_program(const Problem& problem, const Bundles& bundles,
                               const std::vector<DeviceClass>& classes, PartRules rules,
                               Duration below, Duration step);

}  // namespace baechi::exact
