#include "scenarios/studies/codesign/layer_program.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/random.h"

using namespace baechi;
using namespace std::chrono_literals;

namespace {

constexpr AcceleratorRates rates{.clock = 1e9, .memory = {1e15}, .word = Bytes{2}};
constexpr solver::MixedLimits limits{.nodes = 20'000, .iterations = 2'000'000, .terms = 100'000};
constexpr Accelerator two_cores{.tensor_cores = 2, .vector_cores = 2, .width = 2, .depth = 2};

}  // namespace

TEST_SUITE("layer programs") {
  TEST_CASE("where the longest path first is a mistake, the program is shorter") {
    // f(4, 2 cores); b(3, 1 core) -> c(1, vector); a(3, 1 core). Longest paths: 4, 4, 3.
    const std::vector<std::uint32_t> after_b{1};
    const std::vector<PoolTask> tasks{{.tensor = true, .cores = 2, .time = 4ns},
                                      {.tensor = true, .cores = 1, .time = 3ns},
                                      {.tensor = false, .cores = 1, .time = 1ns, .after = after_b},
                                      {.tensor = true, .cores = 1, .time = 3ns}};
    // f 0-4, b and a 4-7, c 7-8. Better: b and a 0-3, f 3-7, c 3-4.
    CHECK(list_schedule(tasks, two_cores, rates).makespan == 8ns);
    const ShortestSchedule shortest = shortest_schedule(tasks, two_cores, rates, limits);
    CHECK(shortest.makespan == 7ns);
    CHECK(shortest.proved);
  }

  TEST_CASE("cores of a pool are never taken twice") {
    // Three tasks of one core on two cores: two rounds, though each pair may run side by side.
    const PoolTask one{.tensor = true, .cores = 1, .time = 5ns};
    const PoolTask two{.tensor = true, .cores = 2, .time = 5ns};
    CHECK(shortest_schedule(std::vector{one, one, one}, two_cores, rates, limits).makespan == 10ns);
    CHECK(shortest_schedule(std::vector{one, two, one}, two_cores, rates, limits).makespan == 10ns);
  }

  TEST_CASE("the list schedule of small random layers is within a third of the shortest") {
    Random random(7);
    double sum = 0.0, worst = 1.0;
    constexpr int layers = 30;
    for (int layer = 0; layer < layers; ++layer) {
      std::vector<std::vector<std::uint32_t>> after(8);
      std::vector<PoolTask> tasks;
      for (std::uint32_t i = 0; i < after.size(); ++i) {
        for (std::uint32_t b = 0; b < i; ++b)
          if (random.below(4) == 0) after[i].push_back(b);
        tasks.push_back({.tensor = random.below(2) == 0,
                         .cores = static_cast<std::int64_t>(1 + random.below(2)),
                         .time = Duration{static_cast<std::int64_t>(1 + random.below(20))},
                         .after = after[i]});
      }
      const Duration listed = list_schedule(tasks, two_cores, rates).makespan;
      const ShortestSchedule shortest = shortest_schedule(tasks, two_cores, rates, limits);
      CAPTURE(layer);
      CHECK(shortest.proved);
      CHECK(shortest.makespan <= listed);
      CHECK(shortest.makespan >= least_makespan(tasks, two_cores, rates));
      const double gap = to_us(listed) / to_us(shortest.makespan);
      sum += gap;
      worst = std::max(worst, gap);
    }
    MESSAGE("list schedule over shortest: mean ", sum / layers, ", worst ", worst);
    CHECK(sum / layers < 1.05);
    CHECK(worst < 1.34);
  }
}
