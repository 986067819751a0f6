#include <doctest/doctest.h>

#include <array>

#include "scenarios/planning/plan_search.h"

using namespace baechi;

TEST_SUITE("step formulas") {
  TEST_CASE("a flushed pipeline fills once, then waits for its longest stage") {
    // One micro-batch through both stages: 2 + 3 s. Each of three more: the 3 s of the longest.
    // Then the longer end, 1 s.
    constexpr std::array stages{StageSeconds{.passes = 2.0, .last = 1.0},
                                StageSeconds{.passes = 3.0, .last = 0.5}};
    CHECK(flushed_step(stages, 4) == doctest::Approx(15.0));
  }
}
