/// COIN-OR CLP, the simplex solver behind our linear programs.
#pragma once
#include <vector>

#include "placers/solver/linear_program.h"

namespace baechi::solver {

/// Where the simplex method starts.
struct Start {
  Basis basis;
  /// [num_columns] An objective for which no reduced cost of `basis` has a wrong sign, or few have.
  /// It is minimised first, by the dual simplex method. Empty: nothing is.
  std::vector<double> cost{};
};

/// Minimises the objectives of `program` in turn by the simplex method: primal from `start` if
/// given, else dual from the slack basis. Between two objectives every column and row with a
/// reduced cost is fixed where it rests, which leaves exactly the optima so far. The same program
/// and start give the same answer. It may be called from several threads at once. The caller checks
/// the status.
LinearOptimum solve(const LinearProgram& program, const Start* start = nullptr);

}  // namespace baechi::solver
