/// COIN-OR CBC, the branch-and-cut solver behind our mixed integer programs.
#pragma once
#include <cstdint>
#include <vector>

#include "placers/solver/linear_program.h"
#include "sim/options.h"

namespace baechi::solver {

/// A linear program with columns that must be integers. It has one objective.
struct MixedProgram {
  LinearProgram relaxation;
  std::vector<std::uint32_t> whole;  ///< columns
};

/// Early stops. Iterations are those of the simplex method, checked after each node.
struct MixedLimits {
  std::int64_t nodes = 0;
  std::int64_t iterations = 0;
  std::int64_t terms = 0;  ///< a program with more nonzeros is not solved
  Duration time{};         ///< wall-clock; none if 0. The only limit whose effect may vary
};

/// The limits as options of a placer. With the defaults a small program takes seconds, the largest
/// that is solved about a minute.
MixedLimits mixed_limits(Options& options);

struct MixedOptimum {
  bool finished = false;        ///< false: a limit was reached
  std::vector<double> x;        ///< the best found [num_columns]; empty if there is none
  double bound = 0.0;           ///< a lower bound on the objective of any solution; -inf: not begun
  std::int64_t nodes = 0;       ///< nodes of branch and bound
  std::int64_t iterations = 0;  ///< of the simplex method
};

/// Minimises with one thread. The same program and limits, except for time, give the same answer.
/// Thread-safe.
MixedOptimum solve(const MixedProgram& program, const MixedLimits& limits);

}  // namespace baechi::solver
