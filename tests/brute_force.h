/// Optima by trying everything: what the placers and the engine are held against on small graphs.
#pragma once
#include <optional>

#include "sim/cluster/placement.h"

namespace baechi::testing {

/// Least makespan on `devices` equal devices (Op::compute) if transfers took no time and memory had
/// no limit. Tries every topological order, each op on the device that is free first: one of these
/// orders is by start time in an optimal schedule, and there that device is never worse. For up to
/// 9 ops or so.
Duration optimal_without_communication(const OpGraph& graph, std::size_t devices);

struct Best {
  Placement placement;
  Duration makespan{};
};

/// The placement that simulates fastest under problem.engine, groups kept together; none if each
/// runs out of memory. Ties: the first, counting with the lowest op's device changing fastest. For
/// up to 3^8 placements or so.
std::optional<Best> best_placement(const Problem& problem);

}  // namespace baechi::testing
