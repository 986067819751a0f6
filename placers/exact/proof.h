/// The proving loop of the integer programs: the solver's answer is checked with exact integers
/// before anything is concluded from it.
#pragma once
#include <functional>
#include <vector>

#include "placers/exact/incumbent.h"
#include "placers/exact/placement_program.h"

namespace baechi::exact {

/// The placements that `program` was asked for: better than `below` by `step` at least.
struct Question {
  const Bundles& bundles;
  const std::vector<DeviceClass>& classes;
  Duration below{}, step{};
};

/// Evaluates a solution exactly and, if it is a placement and better, puts it into the incumbent.
/// False if it breaks a limit by less than the solver's tolerance.
using Offer = std::function<bool(const std::vector<double>& solution)>;

/// Solves `program`. If `offer` refuses the solution for its weights, forbids these weights and
/// solves again, until the solution is accepted, there is none, or a limit is reached. Then raises
/// best.bound to the proof of the last answer. With no solution, nothing is better than `below` by
/// `step`. Otherwise nothing is below the solution's objective, less the solver's tolerance, also
/// if the solution was refused. Adds to best.nodes and sets best.finished.
/// False: the solver has a solution, but none that is better than `below`.
bool prove(Incumbent& best, PlacementProgram& program, const Question& question,
           solver::MixedLimits limits, const Offer& offer);

}  // namespace baechi::exact
