#include <numeric>

#include "placers/solver/normal_matrix.h"
#include "sim/random.h"
#include "tests/prelude.h"

using namespace baechi::solver;

namespace {

using Rest = Basis::Rest;
constexpr double no_bound = LinearProgram::infinity;
constexpr double any_number = 1e12;

/// [num_columns] (A^T D A + E) x, without factors.
std::vector<double> product(const LinearProgram& lp, const std::vector<double>& row,
                            const std::vector<double>& column, const std::vector<double>& x) {
  std::vector<double> y(x.size());
  for (std::size_t j = 0; j < x.size(); ++j) y[j] = column[j] * x[j];
  for (std::size_t i = 0; i < lp.num_rows(); ++i) {
    double sum = 0.0;
    for (std::size_t t = lp.row_begin[i]; t < lp.row_begin[i + 1]; ++t)
      sum += lp.terms[t].factor * x[lp.terms[t].column];
    for (std::size_t t = lp.row_begin[i]; t < lp.row_begin[i + 1]; ++t)
      y[lp.terms[t].column] += lp.terms[t].factor * row[i] * sum;
  }
  return y;
}

std::size_t basics(const Basis& basis) {
  return static_cast<std::size_t>(std::ranges::count(basis.columns, Rest::basic) +
                                  std::ranges::count(basis.rows, Rest::basic));
}

}  // namespace

TEST_SUITE_BEGIN("interior_point");
TEST_CASE("a normal matrix of two columns is solved as derived by hand") {
  // One row (1, 2) of weight 3: 3 (1, 2)^T (1, 2) = (3, 6; 6, 12), and (1, 2) on the diagonal:
  // 4 x + 6 y = 16 and 6 x + 14 y = 34 at x = 1, y = 2.
  LinearProgram lp;
  const auto x = lp.add_column(0.0, no_bound), y = lp.add_column(0.0, no_bound);
  lp.add_row(-no_bound, {{{x, 1.0}, {y, 2.0}}}, 1.0);
  NormalMatrix normal(lp);
  normal.factor(std::vector{3.0}, std::vector{1.0, 2.0});
  std::vector<double> b{16.0, 34.0};
  normal.solve(b);
  CHECK(b[x] == doctest::Approx(1.0));
  CHECK(b[y] == doctest::Approx(2.0));
}

TEST_CASE("a chain of columns is eliminated without any fill, a row of 70 as one front") {
  LinearProgram chain, wide;
  std::vector<LinearProgram::Term> all;
  for (std::uint32_t j = 0; j < 70; ++j) {
    chain.add_column(0.0, 1.0);
    all.push_back({wide.add_column(0.0, 1.0), 1.0});
  }
  for (std::uint32_t j = 0; j + 1 < 70; ++j)
    chain.add_row(-no_bound, {{{j, 1.0}, {j + 1, 1.0}}}, 1.0);
  wide.add_row(-no_bound, all, 1.0);
  // 70 on the diagonal and 69 next to it; fronts of few columns may hold as many zeros
  CHECK(elimination_of(chain).entries() >= 70 + 69);
  CHECK(elimination_of(chain).entries() < 3 * (70 + 69));
  const Elimination one = elimination_of(wide);
  CHECK(one.fronts.size() == 1);
  CHECK(one.multiplications() == 70.0 * 71.0 * 141.0 / 12.0);  // half of 1 + 4 + ... + 70^2
}

TEST_CASE("random normal matrices are solved, also with fronts of more columns than a block") {
  Random random(1);
  for (const std::uint32_t columns : {1U, 3U, 40U, 70U, 300U}) {
    CAPTURE(columns);
    LinearProgram lp;
    for (std::uint32_t j = 0; j < columns; ++j) lp.add_column(0.0, 1.0);
    for (std::uint32_t i = 0; i < 2 * columns; ++i) {
      // mostly neighbours; two rows of many columns
      std::vector<LinearProgram::Term> row;
      const std::uint32_t first = random.below(columns);
      for (std::uint32_t k = 0; k < (i < 2 ? columns / 2 : 3) && first + k < columns; ++k)
        row.push_back({first + k, 2.0 * random.uniform() - 1.0});
      lp.add_row(-no_bound, row, 1.0);
    }
    std::vector<double> row(lp.num_rows()), column(columns), x(columns);
    for (double& value : row) value = std::exp2(10.0 * random.uniform());
    for (double& value : column) value = random.uniform();
    for (double& value : x) value = random.uniform();
    NormalMatrix normal(lp);
    for (int again = 0; again < 2;
         ++again) {  // a factorisation does not depend on the previous one
      std::vector<double> b = product(lp, row, column, x);
      normal.factor(row, column);
      normal.solve(b);
      for (std::uint32_t j = 0; j < columns; ++j) CHECK(std::abs(b[j] - x[j]) < 1e-9);
    }
  }
}

TEST_CASE("the optimum of a program of two variables, and its active rows") {
  // minimise -x - 2y, x + y <= 4, x + 3y <= 6: at (3, 1), where both rows meet.
  LinearProgram lp;
  const auto x = lp.add_column(0.0, no_bound), y = lp.add_column(0.0, no_bound);
  lp.add_row(-no_bound, {{{x, 1.0}, {y, 1.0}}}, 4.0);
  lp.add_row(-no_bound, {{{x, 1.0}, {y, 3.0}}}, 6.0);
  lp.objectives = {{-1.0, -2.0}};
  const auto best = interior_optimum(lp, any_number);
  REQUIRE(best);
  CHECK(std::abs(best->x[x] - 3.0) < 1e-3);
  CHECK(std::abs(best->x[y] - 1.0) < 1e-3);
  CHECK(best->basis.rows == std::vector{Rest::at_upper, Rest::at_upper});
  CHECK(best->basis.columns == std::vector{Rest::basic, Rest::basic});
}

TEST_CASE("further objectives choose among the optima of the first") {
  // maximise x + y <= 4 with x, y <= 3: then the least x is 1, y = 3.
  LinearProgram lp;
  const auto x = lp.add_column(0.0, 3.0), y = lp.add_column(0.0, 3.0);
  lp.add_row(-no_bound, {{{x, 1.0}, {y, 1.0}}}, 4.0);
  lp.objectives = {{-1.0, -1.0}, {1.0, 0.0}};
  const auto best = interior_optimum(lp, any_number);
  REQUIRE(best);
  CHECK(std::abs(best->x[x] - 1.0) < 1e-3);
  CHECK(std::abs(best->x[y] - 3.0) < 1e-3);
  CHECK(best->basis.rows == std::vector{Rest::at_upper});
  CHECK(best->basis.columns == std::vector{Rest::basic, Rest::at_upper});
}

TEST_CASE("at a degenerate vertex two of three active bounds make the basis") {
  // maximise x + 2y with x, y <= 1 and x + y <= 2: at (1, 1). One row: one of three is basic.
  LinearProgram lp;
  const auto x = lp.add_column(0.0, 1.0), y = lp.add_column(0.0, 1.0);
  lp.add_row(-no_bound, {{{x, 1.0}, {y, 1.0}}}, 2.0);
  lp.objectives = {{-1.0, -2.0}};
  const auto best = interior_optimum(lp, any_number);
  REQUIRE(best);
  CHECK(std::abs(best->x[x] - 1.0) < 1e-3);
  CHECK(std::abs(best->x[y] - 1.0) < 1e-3);
  CHECK(basics(best->basis) == 1);
  const solver::Start start{.basis = best->basis, .cost = best->cost};
  const LinearOptimum last = solve(lp, &start);
  REQUIRE(last.status == LinearOptimum::Status::optimal);
  CHECK(last.x == std::vector{1.0, 1.0});
}

TEST_CASE("balance() makes the least certain bounds basic, to as many as there are rows") {
  // two columns and a row; in decreasing certainty: column 0, the row, column 1
  InteriorOptimum all_rest{
      .basis = {.columns = {Rest::at_lower, Rest::at_lower}, .rows = {Rest::at_upper}},
      .bounds = {{1e6, false, 0, Rest::at_lower},
                 {1e3, true, 0, Rest::at_upper},
                 {10.0, false, 1, Rest::at_lower}},
      .x = {0.0, 0.0},
      .cost = {}};
  InteriorOptimum none_rests = all_rest;
  none_rests.basis = {.columns = {Rest::basic, Rest::basic}, .rows = {Rest::basic}};
  for (InteriorOptimum* near : {&all_rest, &none_rests}) {
    near->balance();
    CHECK(near->basis.columns == std::vector{Rest::at_lower, Rest::basic});
    CHECK(near->basis.rows == std::vector{Rest::at_upper});
  }
}

TEST_CASE("there is no result where a factorisation takes too long, or a row is too long") {
  LinearProgram lp;
  std::vector<LinearProgram::Term> row;
  for (std::uint32_t j = 0; j < 60; ++j) row.push_back({lp.add_column(0.0, 1.0), 1.0});
  lp.objectives = {std::vector(60, -1.0)};
  lp.add_row(-no_bound, std::span(row).first(50), 1.0);
  CHECK(interior_optimum(lp, any_number));
  CHECK_FALSE(interior_optimum(lp, 1000.0));  // of the 50 columns: 50^3 / 6
  lp.add_row(-no_bound, row, 1.0);            // 50^2 + 60^2 pairs: more than 50 for each term
  CHECK_FALSE(interior_optimum(lp, any_number));
}

namespace baechi::solver {
namespace {

/// Binary columns under as many rows, each with this share of the columns: many pivots.
MixedProgram many_knapsacks(std::uint32_t size = 40, double share = 1.0) {
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
      if (share < 1.0 && random.uniform() > share) continue;
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
  CHECK(stopped.limit == "time_limit");

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
  const MixedOptimum found = solve(many_knapsacks(300, 0.05), one);
  CHECK(found.iterations <= 2'000);  // in 10 rounds of cuts; 5,918 in CBC's 50
  CHECK(found.limit == "max_nodes");
  CHECK(solve(many_knapsacks(), {.nodes = 1, .iterations = 1, .terms = 10'000}).limit ==
        "max_iterations");
  CHECK(solve(many_knapsacks(), {.nodes = 1, .iterations = 1, .terms = 10}).limit == "max_terms");
}

}  // namespace
}  // namespace baechi::solver
