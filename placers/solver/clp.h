/// COIN-OR CLP, the simplex solver behind our linear programs.
#pragma once
#include <vector>

#include "placers/solver/linear_program.h"

namespace baechi::solver {

/// Where the simplex method starts.
struct Start {
  Basis basis;
  /// [num_columns] An objective for which no or few reduced costs of `basis` have a wrong sign. It
  /// is minimised first, by the dual simplex method. Empty: none.
  std::vector<double> cost{};
};

/// Minimises the objectives of `program` in turn by the simplex method: primal from `start` if
/// given, else dual from the slack basis. Between two objectives every column and row with a
/// reduced cost is fixed at its bound, which leaves exactly the optima so far. The same program and
/// start give the same answer. Thread-safe. The caller checks the status.
LinearOptimum solve(const LinearProgram& program, const Start* start = nullptr);

}  // namespace baechi::solver
