/// The best placement known to an exact placer, and the proof of its optimality.
#pragma once

#include "placers/exact/placement_program.h"

namespace baechi::exact {

struct Incumbent {
  static constexpr Duration unknown = Duration::max();

  Placement placement{};     ///< empty: none yet
  Duration value = unknown;  ///< of the objective
  Duration bound{};          ///< a lower bound on the placements that were searched
  Duration start = unknown;  ///< value before the integer program
  bool finished = false;     ///< the integer program has no solution
  std::int64_t nodes = 0;    ///< of branch and bound
  std::string_view limit{};  ///< of the integer program, that was reached

  bool known() const { return value != unknown; }
  /// 1 - bound / value; 0 if nothing is better by more than a millionth.
  double gap() const;
  /// The placement with the facts start_us, OBJECTIVE_us, bound_us, gap and nodes, and a detail
  /// line that names the objective and `what` was searched ("split"). `of`, where some placements
  /// were not searched, is the suffix of the names of bound and gap ("_in_parts").
  Placement report(std::string_view objective, std::string_view what, std::string_view of = {}) &&;
};

/// The best placement that a search finds in `evaluations` at most (fewer on small graphs, none
/// below 64 ops) from the incumbent; or, if there is none yet, from all ops on one device.
Placement search_from(const Incumbent& best, const Problem& problem, const Objective& objective,
                      std::size_t evaluations, std::uint64_t seed);

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
