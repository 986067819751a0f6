/// Optima by trying everything: what the placers and the engine are held against on small graphs.
#pragma once
#include <optional>

#include "sim/objective/objective.h"
#include "sim/problem/problem.h"

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

/// The feasible placement of least value among those that `allowed` accepts, groups kept together;
/// none if there is none. Ties and sizes as above.
std::optional<Best> best_placement(const Problem& problem, const Objective& objective,
                                   bool (*allowed)(const Problem&, const Placement&));

/// Whether the devices can be lined up so that no op of Phase::forward reads from a later device.
/// Ops of later phases follow their groups; where a group has no forward op, edges between it and
/// other ops of later phases count the other way round.
bool is_pipeline(const Problem& problem, const Placement& placement);

/// Whether, on each device, no path between two ops of Phase::forward leaves the device. Paths go
/// through ops of Phase::forward.
bool is_convex(const Problem& problem, const Placement& placement);

/// The same of all ops and paths, on accelerators only.
bool accelerators_are_convex(const Problem& problem, const Placement& placement);

inline bool any_placement(const Problem&, const Placement&) {
  return true;
}

}  // namespace baechi::testing
