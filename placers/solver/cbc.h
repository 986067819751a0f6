/// COIN-OR CBC, the branch-and-cut solver behind our mixed integer programs.
#pragma once
#include <cstdint>
#include <vector>

#include "placers/solver/linear_program.h"
#include "sim/options.h"

namespace baechi::solver {

/// A linear program with columns that must be whole. It has one objective.
struct MixedProgram {
  LinearProgram relaxation;
  std::vector<std::uint32_t> whole;  ///< columns
};

/// When to stop early. Iterations are of the simplex method, looked at after each node.
struct MixedLimits {
  std::int64_t nodes = 0;
  std::int64_t iterations = 0;
  std::int64_t terms = 0;  ///< a program with more factors is not begun
  Duration time{};         ///< wall clock; none if 0. The only limit whose effect may vary
};

/// Limits that a placer's users may set. With the defaults a small program takes seconds, the
/// largest that is begun about a minute.
MixedLimits mixed_limits(Options& options);

struct MixedOptimum {
  bool finished = false;   ///< else a limit was reached
  std::vector<double> x;   ///< the best found [num_columns]; empty if there is none
  double bound = 0.0;      ///< no solution has a lower objective, if there is one; -inf: not begun
  std::int64_t nodes = 0;  ///< that were looked at
  std::int64_t iterations = 0;  ///< of the simplex method
};

/// Minimises; one thread. The same program and limits, but for time, give the same answer. May be
/// called from several threads at once.
MixedOptimum solve(const MixedProgram& program, const MixedLimits& limits);

}  // namespace baechi::solver
