// CbcStrategy.hpp needs CbcModel.hpp first.
#include <CbcModel.hpp>
//
#include <CbcCutGenerator.hpp>
#include <CbcEventHandler.hpp>
#include <CbcStrategy.hpp>
#include <CglProbing.hpp>
#include <ClpSimplex.hpp>
#include <CoinPackedMatrix.hpp>
#include <OsiClpSolverInterface.hpp>
#include <algorithm>
#include <cmath>

#include "placers/solver/linear_program.h"

namespace baechi::solver {

inline CoinPackedMatrix coin_matrix(const LinearProgram& program) {
  std::vector<int> columns;
  std::vector<double> factors;
  columns.reserve(program.terms.size());
  factors.reserve(program.terms.size());
  for (const LinearProgram::Term& term : program.terms) {
    columns.push_back(static_cast<int>(term.column));
    factors.push_back(term.factor);
  }
  std::vector<CoinBigIndex> begin;
  begin.reserve(program.row_begin.size());
  for (const std::size_t b : program.row_begin) begin.push_back(static_cast<CoinBigIndex>(b));
  return {/*colordered=*/false,
          static_cast<int>(program.num_columns()),
          static_cast<int>(program.num_rows()),
          static_cast<CoinBigIndex>(columns.size()),
          factors.data(),
          columns.data(),
          begin.data(),
          nullptr};
}

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

std::int64_t taken(const CbcModel& model) {
  return std::int64_t{model.getIterationCount()} + model.numberStrongIterations();
}

/// Stops the branch and bound after so many simplex iterations.
class IterationLimit final : public CbcEventHandler {
 public:
  explicit IterationLimit(std::int64_t most) : most_(most) {}
  CbcAction event(CbcEvent what) override {
    return what == node && taken(*model_) > most_ ? stop : noAction;
  }
  CbcEventHandler* clone() const override { return new IterationLimit(*this); }

 private:
  std::int64_t most_;
};

/// CBC's default strategy without probing: with it, CBC 2.10.8 returns a worse solution as the
/// optimum of about one small program in ten thousand.
class WithoutProbing final : public CbcStrategyDefault {
 public:
  WithoutProbing(int strong, std::optional<int> rounds)
      : CbcStrategyDefault(/*cutsOnlyAtRoot=*/1, /*numberStrong=*/strong,
                           /*numberBeforeTrust=*/strong),
        rounds_(rounds) {}
  CbcStrategy* clone() const override { return new WithoutProbing(*this); }
  void setupCutGenerators(CbcModel& model) override {
    constexpr int never = -100;
    CbcStrategyDefault::setupCutGenerators(model);
    for (int i = 0; i < model.numberCutGenerators(); ++i)
      if (dynamic_cast<CglProbing*>(model.cutGenerator(i)->generator()) != nullptr)
        model.cutGenerator(i)->setHowOften(never);
    if (rounds_) model.setMaximumCutPassesAtRoot(*rounds_);
  }

 private:
  std::optional<int> rounds_;  // of cuts at the root
};

/// The limit of iterations where few nodes are asked for; nothing where there are many.
std::optional<std::int64_t> limit_of_few_nodes(const MixedLimits& limits) {
  constexpr std::int64_t least = 2'000, of_a_node = 100;
  if (limits.nodes >= limits.iterations / of_a_node) return std::nullopt;
  return std::min(limits.iterations, std::max(least, of_a_node * limits.nodes));
}

int as_int(std::int64_t n) {
  return static_cast<int>(std::min<std::int64_t>(n, std::numeric_limits<int>::max()));
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

MixedLimits mixed_limits(Options& o) {
  const MixedLimits limits{
      .nodes = o.get("max_nodes", std::int64_t{5'000},
                     "nodes of branch and bound; 0: only the start and its bound"),
      .iterations = o.get("max_iterations", std::int64_t{20'000},
                          "simplex iterations, after which no node is begun"),
      .terms = o.get("max_terms", std::int64_t{100'000},
                     "nonzeros of the integer program: a larger one is not solved"),
      .time = o.get("time_limit", Duration{},
                    "real time; the only limit that may change the result from run to "
                    "run; 0: none")};
  constexpr std::int64_t most_terms = 100'000'000;
  if (limits.terms > most_terms) o.mistake("max_terms", fmt::format("more than {}", most_terms));
  return limits;
}

MixedOptimum solve(const MixedProgram& program, const MixedLimits& limits) {
  const LinearProgram& relaxation = program.relaxation;
  BAECHI_CHECK(relaxation.objectives.size() == 1, "a mixed program has one objective");
  if (std::cmp_greater(relaxation.terms.size(), limits.terms))
    return {.limit = "max_terms", .x = {}, .bound = -LinearProgram::infinity};
  OsiClpSolverInterface solver;
  solver.messageHandler()->setLogLevel(0);
  solver.setHintParam(OsiDoReducePrint, true, OsiHintTry);
  solver.loadProblem(coin_matrix(relaxation), relaxation.column_lower.data(),
                     relaxation.column_upper.data(), relaxation.objectives.front().data(),
                     relaxation.row_lower.data(), relaxation.row_upper.data());
  for (const std::uint32_t column : program.whole) solver.setInteger(static_cast<int>(column));

  CbcModel model(solver);
  model.setLogLevel(0);
  // Without the solver's preprocessing, which may leave whole columns fractional when it is undone.
  // Strong branching and cuts take most of the time of few nodes: a round of cuts, of up to 600
  // iterations in a program of 1,000 columns, may tighten the bound as much as a node.
  const std::optional<std::int64_t> few = limit_of_few_nodes(limits);
  std::optional<int> rounds;
  if (few) rounds = as_int(std::clamp<std::int64_t>(limits.nodes, 10, 50));  // 50: CBC's own
  WithoutProbing strategy(few ? 0 : 5, rounds);
  model.setStrategy(strategy);
  model.setMaximumNodes(as_int(limits.nodes));
  if (limits.time > Duration::zero()) {
    model.setUseElapsedTime(true);
    model.setMaximumSeconds(std::chrono::duration<double>(limits.time).count());
  }
  IterationLimit iterations(few.value_or(limits.iterations));
  model.passInEventHandler(&iterations);
  // The model's limits do not apply to the relaxation, which needs its own: its bound is worth more
  // than those of nodes.
  constexpr std::int64_t of_relaxation = 10;
  ClpSimplex& simplex = *dynamic_cast<OsiClpSolverInterface&>(*model.solver()).getModelPtr();
  const int unlimited = simplex.maximumIterations();
  simplex.setMaximumIterations(
      as_int(few.value_or(of_relaxation * std::min(limits.iterations, std::int64_t{1} << 40))));
  if (limits.time > Duration::zero())
    simplex.setMaximumWallSeconds(std::chrono::duration<double>(limits.time).count());
  model.initialSolve();
  constexpr int stopped = 3;  // status of a run ended by a limit, whose objective is no bound
  const std::string_view of_iterations = few ? "max_nodes" : "max_iterations";
  if (simplex.problemStatus() == stopped)
    return {.limit = simplex.numberIterations() >= simplex.maximumIterations() ? of_iterations
                                                                               : "time_limit",
            .x = {},
            .bound = -LinearProgram::infinity,
            .iterations = simplex.numberIterations()};
  simplex.setMaximumIterations(unlimited);
  simplex.setMaximumWallSeconds(-1.0);
  model.branchAndBound();

  const bool finished = model.status() == 0;
  const std::string_view reached = model.isNodeLimitReached()      ? "max_nodes"
                                   : model.isSecondsLimitReached() ? "time_limit"
                                                                   : of_iterations;
  MixedOptimum optimum{.limit = finished ? "" : reached,
                       .x = {},
                       .bound = model.getBestPossibleObjValue(),
                       .nodes = model.getNodeCount(),
                       .iterations = taken(model)};
  if (const double* x = model.bestSolution(); x != nullptr) {
    optimum.x.assign(x, x + relaxation.num_columns());
    if (finished) optimum.bound = model.getObjValue();
  }
  return optimum;
}

}  // namespace baechi::solver
