#include "scenarios/planning/plan_search.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "scenarios/read/device_table.h"
#include "sim/error.h"
#include "tests/message.h"

using namespace baechi;
using namespace baechi::testing;
using namespace baechi::literals;

namespace {

TrainingJob small_gpt(std::int64_t batch) {
  const auto text = [](const char* value) { return Options::Value{value, {}, {}}; };
  return {.generator = "gpt",
          .options = Options("gpt", {{"layers", text("4")},
                                     {"hidden", text("256")},
                                     {"heads", text("4")},
                                     {"length", text("64")},
                                     {"vocabulary", text("1024")},
                                     {"tied", text("false")}}),
          .batch = batch};
}

Cluster gpus_of(std::size_t count, Bytes memory) {
  IdVector<DeviceId, Device> devices;
  for (std::size_t i = 0; i < count; ++i)
    devices.push_back({.name = fmt::format("gpu{}", i), .kind = "a100", .memory = memory});
  return Cluster::uniform(std::move(devices), Link{{100e9}, std::chrono::microseconds(5)});
}

const DeviceModel& gpu() {
  return *built_in_devices().devices.at("a100_megatron");
}

const PlanSpace space{.tensor = {1, 2}, .pipeline = {1, 4}, .micro_batch = {1, 4}};

PlanAnswer answer(std::size_t most, Bytes memory) {
  std::atomic<std::size_t> done = 0;
  return fastest_plans(small_gpt(16), space, gpus_of(8, memory), gpu(), most, done);
}

}  // namespace

TEST_SUITE("plan search") {
  TEST_CASE("a plan uses all devices, and divides the batch evenly") {
    // 8 devices: tensor 1 or 2, 1 or 4 stages leave 8, 2, 4, 1 replicas. A batch of 16 gives 2,
    // 8, 4, 16 samples to each: micro-batches of 1 always, of 4 in all but the first. That makes 7
    // times with and without recomputing; optimizer state is divided where there are replicas: in
    // 5 of the 7.
    const std::vector<ParallelPlan> plans = plans_of(space, 8, 16);
    CHECK(plans.size() == 2 * (7 + 5));
    for (const ParallelPlan& plan : plans) {
      CHECK(plan.ranks() == 8);
      CHECK(plan.data * plan.micro_batch * plan.micro_batches(16) == 16);
    }
    CHECK(plans_of(space, 6, 16).empty());  // 6 replicas, or 3
  }

  TEST_CASE("the answer is that of simulating every plan") {
    const PlanAnswer all = answer(100, 80_GiB), three = answer(3, 80_GiB);
    CHECK(all.considered == 24);
    CHECK(all.simulated == 24);
    CHECK(all.fastest.size() == 24);
    CHECK(three.simulated + three.slower == 24);
    REQUIRE(three.fastest.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(three.fastest[i].step == all.fastest[i].step);
    CHECK(std::ranges::is_sorted(all.fastest, {}, &SimulatedPlan::step));
  }

  TEST_CASE("no step is shorter than its lower bound") {
    const TrainingJob job = small_gpt(16);
    for (const ParallelPlan& plan : plans_of(space, 8, 16)) {
      CAPTURE(fmt::format("t {} d {} p {} b {}", plan.tensor, plan.data, plan.pipeline,
                          plan.micro_batch));
      const ParallelStep step(rank_graph(job, plan), job, plan, gpus_of(8, 80_GiB));
      const Duration simulated = step.simulated(gpu(), false).makespan,
                     least = least_step(step, gpu());
      CHECK(least <= simulated);
      CHECK(2 * least > simulated);
    }
  }

  TEST_CASE("memory decides: replicas that divide the optimizer's state need less") {
    const TrainingJob job = small_gpt(16);
    const auto peak = [&](bool recompute, bool sharded) {
      const ParallelPlan plan{
          .data = 8, .micro_batch = 2, .recompute = recompute, .sharded_optimizer = sharded};
      const ParallelStep step(rank_graph(job, plan), job, plan, gpus_of(8, 80_GiB));
      return step.simulated(gpu(), true).stages.at(0).by_kind;
    };
    // Adam: two numbers of 4 bytes per weight, of which each of 8 replicas keeps an eighth.
    CHECK(static_cast<double>(peak(false, true).optimizer_state.count) ==
          doctest::Approx(static_cast<double>(peak(false, false).optimizer_state.count) / 8.0)
              .epsilon(1e-4));
    CHECK(peak(true, false).activations < peak(false, false).activations);
    const PlanAnswer none = answer(3, 1_MiB);
    CHECK(none.fastest.empty());
    CHECK(none.too_large == 24);
  }

  TEST_CASE("what plans choose is not the model's") {
    TrainingJob job = small_gpt(16);
    job.options.set("tensor", {"2", {}, {}});
    CHECK(message<InputError>([&] { rank_graph(job, {}); }) == "gpt.tensor: plans choose it");
  }
}
