#include <doctest/doctest.h>

#include "sim/accelerator/accelerator.h"
#include "sim/accelerator/layer_schedule.h"

using namespace baechi;
using namespace baechi::literals;
using namespace std::chrono_literals;

namespace {

/// A cycle is a nanosecond, a byte of traffic a hundredth of one, a number two bytes.
constexpr AcceleratorRates rates{.clock = 1e9, .memory = {100e9}, .word = Bytes{2}};

constexpr Accelerator two_and_two{
    .tensor_cores = 2, .vector_cores = 2, .width = 4, .depth = 8, .buffer = 1_MiB};

}  // namespace

TEST_SUITE("core costs") {
  TEST_CASE("area: tensor cores, vector cores and the buffer") {
    const AreaTable table{
        .tensor_core = {{32, 100.0}}, .vector_core = {{4, 7.0}}, .buffer = {{1_MiB, 1000.0}}};
    CHECK(table.area(two_and_two) == 2 * 100.0 + 2 * 7.0 + 1000.0);
    Accelerator other = two_and_two;
    other.depth = 4;  // 16 multipliers: not in the table
    CHECK_FALSE(table.area(other));
  }

  TEST_CASE("a GEMM: rounds of tiles, each of m rows and the array's fill") {
    // k 10 / width 4: 3 tiles; n 20 / depth 8: 3 tiles. 9 tiles on 2 cores: 5 rounds of
    // 100 + 4 + 8 cycles = 560.
    const CoreOp op{.count = 1, .m = 100, .k = 10, .n = 20};
    CoreCost cost = core_cost(op, two_and_two, rates);
    CHECK(cost.cycles == 560);
    CHECK(cost.cores == 2);
    CHECK(cost.traffic == Bytes{2 * (1000 + 200 + 2000)});  // x, w, y once: they fit
    CHECK(cost.time == 560ns);
    // 8 GEMMs have 72 tiles: 36 rounds.
    CHECK(core_cost({.count = 8, .m = 100, .k = 10, .n = 20}, two_and_two, rates).cycles ==
          36 * 112);
    // 9 tiles on 8 cores take 2 rounds, as on 5.
    Accelerator more = two_and_two;
    more.tensor_cores = 8;
    cost = core_cost(op, more, rates);
    CHECK(cost.cycles == 2 * 112);
    CHECK(cost.cores == 5);
  }

  TEST_CASE("operands beyond the buffer are read and written by every tile") {
    Accelerator small = two_and_two;
    small.buffer = Bytes{6000};  // 6400 are needed
    const CoreCost cost = core_cost({.count = 1, .m = 100, .k = 10, .n = 20}, small, rates);
    CHECK(cost.traffic == Bytes{2 * (1000 * 3 + 200 + 2000 * 3)});  // 18 400
    CHECK(cost.time == 560ns);
    // At a tenth of the bandwidth the traffic decides: 18 400 B at 10 B/ns.
    AcceleratorRates slow = rates;
    slow.memory = {10e9};
    CHECK(core_cost({.count = 1, .m = 100, .k = 10, .n = 20}, small, slow).time == 1840ns);
  }

  TEST_CASE("a vector op: all lanes of its cores, one cycle per pass") {
    // 100 numbers on 2 x 4 lanes: 13 cycles a pass.
    const CoreCost cost =
        core_cost({.passes = 3, .elements = 100, .words = 200}, two_and_two, rates);
    CHECK(cost.cycles == 39);
    CHECK(cost.cores == 2);
    CHECK(cost.traffic == Bytes{400});
    // 3 numbers need one core.
    CHECK(core_cost({.passes = 1, .elements = 3}, two_and_two, rates).cores == 1);
  }
}

TEST_SUITE("layer schedules") {
  TEST_CASE("independent tasks run concurrently in a pool if it has cores for both") {
    const PoolTask one{.tensor = true, .cores = 1, .time = 10ns};
    const std::vector<PoolTask> both{one, one};
    CHECK(list_schedule(both, two_and_two, rates).makespan == 10ns);
    PoolTask wide = one;
    wide.cores = 2;
    CHECK(list_schedule(std::vector{wide, wide}, two_and_two, rates).makespan == 20ns);
    // The vector cores are another pool.
    PoolTask vector = wide;
    vector.tensor = false;
    CHECK(list_schedule(std::vector{wide, vector}, two_and_two, rates).makespan == 10ns);
  }

  TEST_CASE("the longest path goes first, with backfilling past a task that waits for cores") {
    //  a(10, tensor) -> b(30, vector);  c(20, tensor), d(5, tensor, one core)
    const std::vector<std::uint32_t> after_a{0};
    const std::vector<PoolTask> tasks{{.tensor = true, .cores = 2, .time = 10ns},
                                      {.tensor = false, .cores = 2, .time = 30ns, .after = after_a},
                                      {.tensor = true, .cores = 2, .time = 20ns},
                                      {.tensor = true, .cores = 1, .time = 5ns}};
    const LayerSchedule schedule = list_schedule(tasks, two_and_two, rates);
    CHECK(schedule.start == std::vector<Duration>{0ns, 10ns, 10ns, 30ns});
    CHECK(schedule.makespan == 40ns);
    CHECK(least_makespan(tasks, two_and_two, rates) == 40ns);  // a, b
  }

  TEST_CASE("the makespan is at least the time of all traffic") {
    const PoolTask one{.tensor = true, .cores = 1, .time = 10ns, .traffic = Bytes{1000}};
    const std::vector<PoolTask> both{one, one};
    CHECK(list_schedule(both, two_and_two, rates).makespan == 20ns);  // 2000 B at 100 B/ns
    CHECK(least_makespan(both, two_and_two, rates) == 20ns);
  }
}
