#include "sim/measure/utilisation.h"

#include <doctest/doctest.h>

#include "sim/engine/simulation.h"
#include "tests/device_models.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

constexpr double near = 1e-12;

/// 1 TFLOP/s in fp32, 2 in fp16, 100 GB/s, 1 us per launch, 4 us without a kernel.
DeviceModel plain_device() {
  DeviceModel model{.name = "plain",
                    .arithmetic = in_every_format({.peak = {1e12}}),
                    .bandwidth = {1e11},
                    .launch = 1us,
                    .no_kernel = 4us,
                    .source = "",
                    .fitted = ""};
  model.at(Precision::fp16).peak = {2e12};
  return model;
}

/// Five ops in a chain, without tensors between them:
///   conv   8 MFLOP, 100 kB: 1 + max(8, 1) = 9 us, bound by compute
///   half   4 MFLOP in fp16, 100 kB: 1 + max(2, 1) = 3 us, bound by compute
///   relu   0.1 MFLOP, 600 kB: 1 + max(0.1, 6) = 7 us, bound by memory
///   tiny   0.1 MFLOP, 10 kB: 1 + max(0.1, 0.1) = 1.1 us, bound by its launch
///   view   no kernel: 4 us, bound by the host
/// 24.1 us, 12.2 MFLOP, 810 kB. At the peaks 8 + 2 + 0.1 + 0.1 = 10.2 us of arithmetic, 8.1 us of
/// traffic.
OpGraph five_ops(const DeviceModel& model) {
  OpGraphBuilder b;
  OpId before = no_op;
  const auto add = [&](std::string_view name, std::int64_t flops, Bytes traffic, Precision p) {
    const OpId v = b.add_op({.name = name, .kind = name});
    if (flops > 0) b.add_kernel(v, {.flops = flops, .traffic = traffic, .precision = p});
    if (before != no_op) b.add_edge(b.add_tensor(before, 100'000_B), v);
    before = v;
  };
  add("conv", 8'000'000, 100'000_B, Precision::fp32);
  add("half", 4'000'000, 100'000_B, Precision::fp16);
  add("relu", 100'000, 600'000_B, Precision::fp32);
  add("tiny", 100'000, 10'000_B, Precision::fp32);
  add("view", 0, 0_B, Precision::fp32);
  const OpGraph graph = std::move(b).build();
  return graph.with_times("", roofline_times(graph, model));
}

StepUtilisation used(const OpGraph& graph, const Cluster& cluster, const Placement& placement,
                     const std::vector<const DeviceModel*>& models) {
  const ProfiledCosts costs(graph, cluster);
  const Problem problem{graph, cluster, costs};
  const StepResult step = simulate(problem, placement);
  std::vector<Duration> busy;
  for (const DeviceUse& use : step.devices) busy.push_back(use.busy);
  return utilisation(problem, placement, models, step.makespan, busy);
}

}  // namespace

TEST_SUITE("utilisation") {
  TEST_CASE("five ops on one device, by hand") {
    const DeviceModel model = plain_device();
    const OpGraph graph = five_ops(model);
    const Utilisation step =
        used(graph, gpus(1), on({gpu0, gpu0, gpu0, gpu0, gpu0}), {&model}).step;
    CHECK(step.busy == 1.0);
    CHECK(step.flops == 12'200'000.0);
    CHECK(step.traffic == 810'000.0);
    CHECK(*step.intensity() == doctest::Approx(12.2 / 0.81).epsilon(near));
    CHECK(*step.flops_of_step == doctest::Approx(10.2 / 24.1).epsilon(near));
    CHECK(*step.flops_of_busy == doctest::Approx(10.2 / 24.1).epsilon(near));
    CHECK(*step.traffic_of_step == doctest::Approx(8.1 / 24.1).epsilon(near));
    CHECK(*step.compute_bound == doctest::Approx(12.0 / 24.1).epsilon(near));  // conv and half
    CHECK(*step.memory_bound == doctest::Approx(7.0 / 24.1).epsilon(near));
    CHECK(*step.launch_bound == doctest::Approx(5.1 / 24.1).epsilon(near));  // tiny and view
  }

  TEST_CASE("two devices: the step's fractions are of both, also while one waits") {
    // conv on gpu0, then 100 kB for 100 us, and the rest on gpu1: 9 + 100 + 15.1 = 124.1 us.
    const DeviceModel model = plain_device();
    const OpGraph graph = five_ops(model);
    const StepUtilisation both =
        used(graph, gpus(2), on({gpu0, gpu1, gpu1, gpu1, gpu1}), {&model, &model});
    CHECK(*both.devices[gpu0].busy == doctest::Approx(9.0 / 124.1).epsilon(near));
    CHECK(*both.devices[gpu1].busy == doctest::Approx(15.1 / 124.1).epsilon(near));
    CHECK(*both.step.busy == doctest::Approx(24.1 / 248.2).epsilon(near));
    CHECK(*both.devices[gpu0].flops_of_step == doctest::Approx(8.0 / 124.1).epsilon(near));
    CHECK(*both.devices[gpu0].flops_of_busy == doctest::Approx(8.0 / 9.0).epsilon(near));
    CHECK(*both.step.flops_of_step == doctest::Approx(10.2 / 248.2).epsilon(near));
    CHECK(*both.step.flops_of_busy == doctest::Approx(10.2 / 24.1).epsilon(near));
    CHECK(*both.step.traffic_of_step == doctest::Approx(8.1 / 248.2).epsilon(near));
    CHECK(*both.step.memory_bound == doctest::Approx(7.0 / 24.1).epsilon(near));
  }

  TEST_CASE("unknown values are empty, never 0") {
    const DeviceModel model = plain_device();
    const OpGraph graph = five_ops(model);
    SUBCASE("a device of unknown type: flops and bytes, but no fraction of a peak") {
      const Utilisation step =
          used(graph, gpus(1), on({gpu0, gpu0, gpu0, gpu0, gpu0}), {nullptr}).step;
      CHECK(step.flops == 12'200'000.0);
      CHECK(step.intensity().has_value());
      CHECK_FALSE(step.flops_of_step.has_value());
      CHECK_FALSE(step.traffic_of_step.has_value());
      CHECK_FALSE(step.compute_bound.has_value());
    }
    SUBCASE("a device that runs no op need not be known") {
      const StepUtilisation both =
          used(graph, gpus(2), on({gpu0, gpu0, gpu0, gpu0, gpu0}), {&model, nullptr});
      CHECK(*both.step.flops_of_step == doctest::Approx(10.2 / 48.2).epsilon(near));
      CHECK(both.devices[gpu1].flops == 0.0);                     // it did none
      CHECK_FALSE(both.devices[gpu1].flops_of_busy.has_value());  // of no time
    }
    SUBCASE("a graph without work: busy only") {
      OpGraphBuilder b;
      b.add_op({.name = "a", .compute = 10us});
      const OpGraph timed = std::move(b).build();
      const Utilisation step = used(timed, gpus(1), on({gpu0}), {&model}).step;
      CHECK(step == Utilisation{.busy = 1.0});
    }
    SUBCASE("a zero-time step") {
      OpGraphBuilder b;
      b.add_op({.name = "a"});
      const OpGraph timed = std::move(b).build();
      CHECK(used(timed, gpus(1), on({gpu0}), {&model}).step == Utilisation{});
    }
  }
}
