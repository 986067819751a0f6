/// The best placement that a search by bounds has found, and its bound on better placements.
#pragma once
#include <string_view>

#include "sim/objective/objective.h"
#include "sim/problem/problem.h"

namespace baechi::exact {

struct Incumbent {
  static constexpr Duration unknown = Duration::max();

  Placement placement{};     ///< empty: none yet
  Duration value = unknown;  ///< of the objective
  Duration bound{};          ///< a lower bound on the placements that were searched
  Duration start = unknown;  ///< value before the integer program
  bool finished = false;     ///< the integer program has no solution
  std::int64_t nodes = 0;    ///< of branch and bound

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

}  // namespace baechi::exact
