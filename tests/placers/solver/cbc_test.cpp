#include <doctest/doctest.h>

#include "placers/solver/linear_program.h"
#include "sim/random.h"

namespace baechi::solver {
namespace {

/// Binary columns under as many dense rows: many pivots.
MixedProgram many_knapsacks(std::uint32_t size = 40) {
  Random random(1);
  MixedProgram program;
  LinearProgram& p = program.relaxation;
  p.objectives.resize(1);
  for (std::uint32_t c = 0; c < size; ++c) {
    program.whole.push_back(p.add_column(0.0, 1.0));
    p.objectives.front().push_back(-1.0 - random.below(100));
  }
  for (std::uint32_t r = 0; r < size; ++r) {
    std::vector<LinearProgram::Term> row;
    double sum = 0.0;
    for (std::uint32_t c = 0; c < size; ++c) {
      row.push_back({c, 1.0 + random.below(100)});
      sum += row.back().factor;
    }
    p.add_row(-LinearProgram::infinity, row, sum / 2.0);
  }
  return program;
}

constexpr MixedLimits most{.nodes = 100, .iterations = 100'000, .terms = 10'000};

TEST_CASE("limits of time and iterations end the relaxation, too, which then gives no bound") {
  MixedLimits none = most;
  none.time = Duration{1};
  const MixedOptimum stopped = solve(many_knapsacks(), none);
  CHECK(stopped.x.empty());
  CHECK(stopped.bound == -LinearProgram::infinity);
  CHECK_FALSE(stopped.finished);

  MixedLimits few = most;
  few.iterations = 1;
  const MixedOptimum begun = solve(many_knapsacks(), few);
  CHECK(begun.x.empty());
  CHECK(begun.bound == -LinearProgram::infinity);
  CHECK(begun.iterations <= 11);  // ten times as many for the relaxation

  const MixedOptimum found = solve(many_knapsacks(), most);
  CHECK_FALSE(found.x.empty());
  CHECK(found.bound > -40 * 100.0);  // all columns, each worth at most 100
}

TEST_CASE("few nodes bound the iterations") {
  MixedLimits one = most;
  one.nodes = 1;
  CHECK(solve(many_knapsacks(100), one).iterations <= 4'000);  // 2,000, checked between rounds
}

}  // namespace
}  // namespace baechi::solver
