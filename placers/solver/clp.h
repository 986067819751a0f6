/// COIN-OR CLP, the simplex solver behind our linear programs.
#pragma once
#include "placers/solver/linear_program.h"

namespace baechi::solver {

/// Minimises the objectives of `program`, the first above all, by the simplex method: primal from
/// `start` where one is given, else dual from the slack basis. Between two objectives whatever has
/// a reduced cost is fixed where it rests, which leaves exactly the optima so far. The same program
/// and start give the same answer; may be called from several threads at once. The status is the
/// caller's to look at.
LinearOptimum solve(const LinearProgram& program, const Basis* start = nullptr);

}  // namespace baechi::solver
