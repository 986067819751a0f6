#include "placers/solver/cbc.h"

#include <CbcModel.hpp>
// CbcStrategy.hpp needs CbcModel.hpp first.
#include <CbcCutGenerator.hpp>
#include <CbcEventHandler.hpp>
#include <CbcStrategy.hpp>
#include <CglProbing.hpp>
#include <OsiClpSolverInterface.hpp>
#include <algorithm>
#include <limits>
#include <utility>

#include "placers/solver/coin_matrix.h"
#include "sim/error.h"

namespace baechi::solver {
namespace {

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
  WithoutProbing()
      : CbcStrategyDefault(/*cutsOnlyAtRoot=*/1, /*numberStrong=*/5, /*numberBeforeTrust=*/5) {}
  CbcStrategy* clone() const override { return new WithoutProbing(*this); }
  void setupCutGenerators(CbcModel& model) override {
    constexpr int never = -100;
    CbcStrategyDefault::setupCutGenerators(model);
    for (int i = 0; i < model.numberCutGenerators(); ++i)
      if (dynamic_cast<CglProbing*>(model.cutGenerator(i)->generator()) != nullptr)
        model.cutGenerator(i)->setHowOften(never);
  }
};

int as_int(std::int64_t n) {
  return static_cast<int>(std::min<std::int64_t>(n, std::numeric_limits<int>::max()));
}

}  // namespace

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
    return {.x = {}, .bound = -LinearProgram::infinity};
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
  WithoutProbing strategy;
  model.setStrategy(strategy);
  model.setMaximumNodes(as_int(limits.nodes));
  if (limits.time > Duration::zero()) {
    model.setUseElapsedTime(true);
    model.setMaximumSeconds(std::chrono::duration<double>(limits.time).count());
  }
  IterationLimit iterations(limits.iterations);
  model.passInEventHandler(&iterations);
  // The model's time limit does not apply to the relaxation, which needs its own.
  ClpSimplex& simplex = *dynamic_cast<OsiClpSolverInterface&>(*model.solver()).getModelPtr();
  if (limits.time > Duration::zero())
    simplex.setMaximumWallSeconds(std::chrono::duration<double>(limits.time).count());
  model.initialSolve();
  constexpr int stopped = 3;  // status of a run ended by a limit, whose objective is no bound
  if (simplex.problemStatus() == stopped) return {.x = {}, .bound = -LinearProgram::infinity};
  simplex.setMaximumWallSeconds(-1.0);
  model.branchAndBound();

  MixedOptimum optimum{.finished = model.status() == 0,
                       .x = {},
                       .bound = model.getBestPossibleObjValue(),
                       .nodes = model.getNodeCount(),
                       .iterations = taken(model)};
  if (const double* x = model.bestSolution(); x != nullptr) {
    optimum.x.assign(x, x + relaxation.num_columns());
    if (optimum.finished) optimum.bound = model.getObjValue();
  }
  return optimum;
}

}  // namespace baechi::solver
