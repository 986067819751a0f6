/// Optima by brute force: the reference of placers and engine on small graphs.
#pragma once

#include "sim/objective/objective.h"

namespace baechi::testing {

/// Least makespan on `devices` equal devices (Op::compute) if transfers took no time and memory had
/// no limit. Tries every topological order, with each op on the device that is free first: one of
/// these orders is by start time in an optimal schedule, for which that device is never worse. For
/// up to about 9 ops.
Duration optimal_without_communication(const OpGraph& graph, std::size_t devices);

struct Best {
  Placement placement;
  Duration makespan{};
};

/// The placement that simulates fastest under problem.engine with whole groups; none if all run out
/// of memory. Ties: the first in the order in which the device of the lowest op changes fastest.
/// For up to about 3^8 placements.
std::optional<Best> best_placement(const Problem& problem);

/// The feasible placement of least value among those that `allowed` accepts, with whole groups;
/// nothing if there is none. Ties and sizes as above.
std::optional<Best> best_placement(const Problem& problem, const Objective& objective,
                                   bool (*allowed)(const Problem&, const Placement&));

/// Whether the devices can be ordered so that no op of Phase::forward reads from a later device.
/// Ops of later phases follow their groups; where a group has no forward op, edges between it and
/// other ops of later phases count in reverse.
bool is_pipeline(const Problem& problem, const Placement& placement);

/// Whether, on each device, no path between two ops of Phase::forward leaves the device. Paths go
/// through ops of Phase::forward.
bool is_convex(const Problem& problem, const Placement& placement);

/// The same for all ops and paths, on accelerators only.
bool accelerators_are_convex(const Problem& problem, const Placement& placement);

inline bool any_placement(const Problem&, const Placement&) { return true; }

}  // namespace baechi::testing
