#include "validate/fit/coordinate_search.h"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>

using namespace baechi::validate;

namespace {

/// Measurements of a + b: 1 + 1, 1 + 2, ... `rows` of them; the first number is a, the second b.
SearchProblem sums(double pull, double weight) {
  SearchProblem p{.numbers = {{.start = 0.0, .weight = 0.0, .rows = {0, 1, 2, 3}},
                              {.start = 0.0, .weight = weight, .rows = {3}}},
                  .rows = 4,
                  .pull = pull,
                  .loss = {}};
  // Rows 0 to 2 measure a = 3, row 3 a + b = 4. (As often, and no single number gains where both
  // err.)
  p.loss = [](std::uint32_t row, std::span<const double> x) {
    return row < 3 ? std::abs(x[0] - 3.0) : std::abs(x[0] + x[1] - 4.0);
  };
  return p;
}

const std::vector<bool> all_free(4, true);

}  // namespace

TEST_SUITE("coordinate_search") {
  TEST_CASE("it finds the numbers that rows were made with") {
    const std::vector<double> x = search(sums(0.0, 0.0), all_free, 0);
    CHECK(x[0] == doctest::Approx(3.0).epsilon(0.01));
    CHECK(x[1] == doctest::Approx(1.0).epsilon(0.02));
  }

  TEST_CASE("a number that is pulled moves only if the rows gain more than the pull") {
    // b = 1 gains 1 of row 3, and costs the pull.
    CHECK(search(sums(0.9, 1.0), all_free, 0)[1] == doctest::Approx(1.0).epsilon(0.02));
    CHECK(search(sums(1.1, 1.0), all_free, 0)[1] == 0.0);
  }

  TEST_CASE("rows that do not count decide nothing") {
    const std::vector<double> x = search(sums(0.1, 1.0), {true, false, true, false}, 2);
    CHECK(x[0] == doctest::Approx(3.0).epsilon(0.01));
    CHECK(x[1] == 0.0);
  }

  TEST_CASE("the same problem has the same result, to the bit") {
    CHECK(search(sums(0.5, 1.0), all_free, 3) == search(sums(0.5, 1.0), all_free, 3));
  }
}
