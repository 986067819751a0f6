#include "placers/solver/clp.h"

#include <ClpSimplex.hpp>
#include <cmath>
#include <optional>

#include "placers/solver/coin_matrix.h"
#include "sim/error.h"

namespace baechi::solver {
namespace {

// Reduced costs of these programs are sums of a few input numbers near 1, exact to about 1e-13: a
// value below the tolerance is zero.
constexpr double dual_tolerance = 1e-9;
constexpr double zero_reduced_cost = 1e-8;
// A sum of objectives has weights down to 1e-6 of the first, whose effects are far below
// `dual_tolerance`.
constexpr double dual_tolerance_of_sums = 1e-10;

void load(const LinearProgram& program, ClpSimplex& clp) {
  clp.loadProblem(coin_matrix(program), program.column_lower.data(), program.column_upper.data(),
                  program.objectives.front().data(), program.row_lower.data(),
                  program.row_upper.data());
}

void set_objective(const std::vector<double>& objective, ClpSimplex& clp) {
  for (std::size_t i = 0; i < objective.size(); ++i)
    clp.setObjectiveCoefficient(static_cast<int>(i), objective[i]);
}

void set_basis(const Basis& basis, ClpSimplex& clp) {
  const auto status = [](Basis::Rest rest) {
    if (rest == Basis::Rest::basic) return ClpSimplex::basic;
    return rest == Basis::Rest::at_lower ? ClpSimplex::atLowerBound : ClpSimplex::atUpperBound;
  };
  clp.createStatus();
  for (std::size_t i = 0; i < basis.columns.size(); ++i)
    clp.setColumnStatus(static_cast<int>(i), status(basis.columns[i]));
  for (std::size_t i = 0; i < basis.rows.size(); ++i)
    clp.setRowStatus(static_cast<int>(i), status(basis.rows[i]));
}

/// The bound at which a variable or row with this reduced cost rests in every optimum; nothing if
/// it is free. A cost towards a missing bound is a rounding error.
std::optional<double> rests(double cost, double lower, double upper) {
  if (std::abs(cost) <= zero_reduced_cost) return std::nullopt;
  const double bound = cost > 0.0 ? lower : upper;
  return std::abs(bound) < COIN_DBL_MAX ? std::optional(bound) : std::nullopt;
}

/// Restricts `clp` to the optima of the objective that was just minimised (complementary
/// slackness).
void keep_optima_only(ClpSimplex& clp) {
  for (int i = 0; i < clp.numberColumns(); ++i)
    if (const auto at =
            rests(clp.dualColumnSolution()[i], clp.columnLower()[i], clp.columnUpper()[i]))
      clp.setColumnBounds(i, *at, *at);
  for (int i = 0; i < clp.numberRows(); ++i)
    if (const auto at = rests(clp.dualRowSolution()[i], clp.rowLower()[i], clp.rowUpper()[i]))
      clp.setRowBounds(i, *at, *at);
}

LinearOptimum::Status status_of(const ClpSimplex& clp) {
  switch (clp.status()) {
    case 0:
      return LinearOptimum::Status::optimal;
    case 1:
      return LinearOptimum::Status::infeasible;
    case 2:
      return LinearOptimum::Status::unbounded;
    default:
      return LinearOptimum::Status::gave_up;
  }
}

}  // namespace

LinearOptimum solve(const LinearProgram& program, const Start* start) {
  BAECHI_CHECK(!program.objectives.empty(), "a linear program without an objective");
  ClpSimplex clp;
  clp.setLogLevel(0);
  load(program, clp);
  if (start != nullptr) {
    set_basis(start->basis, clp);
    if (!start->cost.empty()) {
      set_objective(start->cost, clp);
      clp.setDualTolerance(dual_tolerance_of_sums);
      clp.dual();
      set_objective(program.objectives.front(), clp);
    }
    clp.setDualTolerance(dual_tolerance);
    clp.primal();
  } else {
    clp.setDualTolerance(dual_tolerance);
    clp.dual();
  }
  LinearOptimum optimum;
  optimum.status = status_of(clp);
  if (optimum.status != LinearOptimum::Status::optimal) return optimum;
  optimum.row_dual.assign(clp.dualRowSolution(), clp.dualRowSolution() + program.num_rows());

  for (;;) {
    const double* x = clp.primalColumnSolution();
    optimum.x.assign(x, x + program.num_columns());
    if (++optimum.objectives == program.objectives.size()) return optimum;
    keep_optima_only(clp);
    set_objective(program.objectives[optimum.objectives], clp);
    clp.primal(/*ifValuesPass=*/1);
    if (status_of(clp) != LinearOptimum::Status::optimal) return optimum;
  }
}

}  // namespace baechi::solver
