/// What runs in real time on this machine's own cores. Bounds on times are generous: others run
/// here too.
#include "validate/processor/processor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <span>
#include <thread>

#include "sim/error.h"
#include "tests/validate/example_plan.h"
#include "validate/benchmarks.h"
#include "validate/calibrate.h"
#include "validate/plan/benchmarks.h"
#include "validate/plan/timeline.h"
#include "validate/processor/worker.h"
#include "validate/replays.h"
#include "validate/score.h"

using namespace baechi;
using namespace baechi::validate;

namespace {

/// Whether here is a core for each of two devices; says so where not.
bool two_cores() {
  if (std::thread::hardware_concurrency() >= 2) return true;
  MESSAGE("skipped: one core");
  return false;
}

ReplayPlan chain_of_two_devices(const std::string& name, std::int64_t ns, Body body) {
  ReplayPlan plan = replay::empty_plan(name, 2, SubmitMode::graph, Way::link);
  int last = replay::add_op(plan, 0, body);
  for (int i = 1; i < 10; ++i) {
    const int sent = replay::add_transfer(plan, (i + 1) % 2, i % 2, 64 << 10, ns, {last});
    last = replay::add_op(plan, i % 2, body, {sent});
  }
  return plan;
}

}  // namespace

TEST_SUITE("processor") {
  TEST_CASE("tasks last as long as they are told, after what they come after") {
    if (!two_cores()) return;
    const ReplayPlan plan = parse_plan(baechi::testing::example_plan, "p");
    ReplayPlan small = plan;  // a product of 512 columns takes a processor long
    small.tasks[3].body.args[0] = 64;
    Processor processor(2);
    const Outcome outcome = processor.run(small);
    REQUIRE(outcome.verdict == Verdict::ok);
    replay::Timeline times;
    for (std::size_t i = 0; i < plan.tasks.size(); ++i)
      times.push_back({outcome.replay.start[i].count(), outcome.replay.end[i].count()});
    CHECK(replay::disorder(small, times, 0) == "");
    CHECK(times[0].length() >= 20'000);
    CHECK(times[2].length() >= 145'496);
    CHECK(outcome.peaks == std::vector<Bytes>{{1114112}, {65536}});
    small.live_memory = true;
    CHECK(processor.run(small).verdict == Verdict::ok);
    small.budget[1] = 65535;
    CHECK(processor.run(small).verdict == Verdict::oom);
  }

  // Two transfers of 4 KiB and 64 KiB wait for the first op, and the last op for both.
  TEST_CASE("an op reads what the largest transfer that it waits for has written") {
    if (!two_cores()) return;
    ReplayPlan plan = replay::empty_plan("p", 2, SubmitMode::graph, Way::link);
    const Body pass{.kind = BodyKind::ew, .args = {64 << 10}};
    const int first = replay::add_op(plan, 0, pass);
    const int small = replay::add_transfer(plan, 0, 1, 4 << 10, 1000, {first});
    const int large = replay::add_transfer(plan, 0, 1, 64 << 10, 1000, {first});
    const int last = replay::add_op(plan, 1, pass, {small, large});
    SharedStep step(plan, 1'000'000'000);
    Worker sender(0, 2), receiver(1, 2);
    {
      std::jthread here([&] { sender.run(step); }), there([&] { receiver.run(step); });
    }
    REQUIRE_FALSE(step.stop);
    const auto task = [&](int id) -> const Task& {
      return plan.tasks[static_cast<std::size_t>(id)];
    };
    const auto written = sender.written(task(large), large, 1);
    CHECK(written.size() == (64 << 10) / sizeof(float));
    CHECK(written.front() == 0.5F);  // what links send; 0.25 before
    CHECK(written.back() == 0.5F);
    CHECK(sender.written(task(small), small, 1).data() + 1024 == written.data());
    CHECK(receiver.received(task(last)).data() == written.data());
    CHECK(receiver.received(task(last)).size() == written.size());
    CHECK(sender.received(task(first)).empty());
    // A pass makes x / 2 + 1 of its 8192 numbers: 1.25 of what was sent, 1.125 of what lay there
    // before, and anything of scratch memory, as the first op did.
    CHECK(receiver.made().size() == 8192);
    CHECK(std::ranges::count(receiver.made(), 1.25F) == 8192);
    CHECK(std::ranges::count(sender.made(), 1.25F) < 8192);
  }

  // A transfer of 64 rows of 64 numbers, all 0.5, and the product that waits for it.
  TEST_CASE("a product reads its rows from what a transfer has written") {
    if (!two_cores()) return;
    ReplayPlan plan = replay::empty_plan("p", 2, SubmitMode::graph, Way::link);
    const Body product{.kind = BodyKind::gemm, .args = {64}};
    const int first = replay::add_op(plan, 0, product);
    const int sent = replay::add_transfer(plan, 0, 1, 64 * 64 * 4, 1000, {first});
    replay::add_op(plan, 1, product, {sent});
    SharedStep step(plan, 1'000'000'000);
    Worker sender(0, 2), receiver(1, 2);
    {
      std::jthread here([&] { sender.run(step); }), there([&] { receiver.run(step); });
    }
    REQUIRE_FALSE(step.stop);
    // Rows of one number make equal rows of the product; random ones do not.
    const auto equal_rows = [](std::span<const float> c) {
      REQUIRE(c.size() == 64 * 64);
      int equal = 0;
      for (std::size_t row = 0; row < 64; ++row)
        equal += std::ranges::equal(c.subspan(row * 64, 64), c.first(64)) ? 1 : 0;
      return equal;
    };
    CHECK(equal_rows(receiver.made()) == 64);
    CHECK(equal_rows(sender.made()) == 1);
  }

  TEST_CASE("what a processor cannot run fails, and more devices than cores are refused") {
    if (!two_cores()) return;
    Processor processor(2);
    ReplayPlan plan = chain_of_two_devices("p", 1000, {.kind = BodyKind::spin, .args = {1000}});
    plan.mode = SubmitMode::stream;
    CHECK(processor.run(plan).verdict == Verdict::failed);
    plan.mode = SubmitMode::graph;
    plan.lanes = 2;
    CHECK(processor.run(plan).verdict == Verdict::failed);
    plan = chain_of_two_devices("p", 1000, {.kind = BodyKind::gemm, .args = {1024}});
    CHECK(processor.run(plan).verdict == Verdict::failed);
    CHECK_THROWS_AS(Processor(4096), InputError);
  }

  TEST_CASE("benchmarks, a calibration of them, and predictions that are not far off") {
    if (!two_cores()) return;
    Processor processor(2);
    ValidationRun run;
    run.machine = processor.machine();
    run.measurements = run_benchmarks(processor, 3);
    const Calibration calibration = calibrate(*run.machine, run.measurements, "m.csv");
    CHECK(calibration.find_mode("graph") != nullptr);
    CHECK(calibration.find_transfer("graph", "link", "") != nullptr);
    CHECK(calibration.find_op("gemm")->time(2.0 * 192 * 192 * 192) >
          calibration.find_op("gemm")->time(2.0 * 32 * 32 * 32));
    // Nine transfers of 200 us and ten spins of 100 us one after the other: 2.8 ms.
    run.plans = {
        chain_of_two_devices("exact", 200'000, {.kind = BodyKind::spin, .args = {100'000}}),
        chain_of_two_devices("real", 200'000, {.kind = BodyKind::gemm, .args = {96}})};
    replay_plans(processor, run.plans, {.replays = 5, .in_turn = true}, run);
    const Validation v = compare(run, calibration);
    REQUIRE(v.plans.size() == 2);
    CHECK(v.failed == 0);
    const PlanScore& exact = v.plans[0].plan == "exact" ? v.plans[0] : v.plans[1];
    CHECK(exact.layer == Layer::queues);
    CHECK(exact.predicted >= 2.8e6);
    CHECK(exact.measured.value >= 2.8e6);
    CHECK(std::abs(exact.error()) < 0.5);
    for (const PlanScore& p : v.plans) CHECK(std::abs(p.error()) < 0.9);
  }
}
