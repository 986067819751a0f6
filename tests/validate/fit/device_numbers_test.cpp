#include "validate/fit/device_numbers.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "sim/random.h"
#include "tests/shared_data.h"
#include "validate/fit/fitted_devices.h"

using namespace baechi;
using namespace baechi::validate;
using namespace baechi::literals;
using namespace std::chrono_literals;

namespace {

//   a convolution, then n ReLUs
OpGraph small_network(std::int64_t flops, std::int64_t bytes, int relus) {
  OpGraphBuilder g;
  const OpId conv = g.add_op({.name = "conv", .kind = "Conv2d"});
  g.add_kernel(conv, {.flops = flops, .traffic = Bytes{bytes / 10}});
  for (int i = 0; i < relus; ++i) {
    const OpId relu = g.add_op({.name = fmt::format("relu{}", i), .kind = "ReLU"});
    g.add_kernel(relu, {.flops = 1, .traffic = Bytes{bytes}});
  }
  return std::move(g).build();
}

/// One GPU, 10 TFLOP/s and 1 TB/s, under one framework.
constexpr double share = 0.8, half = 2e8, bandwidth = 0.6, launch = 4e-6, host_op = 6e-5,
                 host_step = 1e-3;

FitCase on_one_gpu() {
  return {.gpu = "g", .framework = "f", .peak = {1e13}, .bandwidth = 1e12};
}

FitCase measured(Random& random) {
  FitCase c = on_one_gpu();
  const std::int64_t flops = std::int64_t{1} << (24 + random.below(16));
  const std::int64_t bytes = std::int64_t{1} << (12 + random.below(17));
  const int relus = 1 + static_cast<int>(random.below(100));
  c.add(small_network(flops, bytes, relus), 1.0);
  const double conv = std::max((static_cast<double>(flops) + half) / (1e13 * share),
                               static_cast<double>(bytes / 10) / (1e12 * bandwidth));
  const double one = static_cast<double>(bytes) / (1e12 * bandwidth);
  // The host launches op after op; each begins when it is launched and the one before has ended.
  double end = host_step + host_op + launch + conv;
  for (int i = 0; i < relus; ++i)
    end = std::max(end, host_step + (2 + i) * host_op) + launch +
          std::max(one, (1.0 + half) / (1e13 * 0.6));
  c.measured = end;
  return c;
}

}  // namespace

TEST_SUITE("device_numbers") {
  TEST_CASE("the fit recovers the numbers that steps were made with") {
    Random random(5);
    std::vector<FitCase> cases;
    for (int i = 0; i < 300; ++i) cases.push_back(measured(random));
    DeviceNumbers numbers(cases);
    numbers.fit(std::vector<bool>(cases.size(), true), 2);
    const DeviceModel model = numbers.device({.name = "g_f", .source = {}, .fitted = {}}, "g", "f");
    const Arithmetic& fp32 = model.at(Precision::fp32);
    CHECK(fp32.efficiency.of("Conv2d") == doctest::Approx(share).epsilon(0.05));
    CHECK(model.bandwidth_efficiency == doctest::Approx(bandwidth).epsilon(0.05));
    CHECK(to_us(model.host_op) == doctest::Approx(1e6 * host_op).epsilon(0.05));
    CHECK(to_us(model.host_step) == doctest::Approx(1e6 * host_step).epsilon(0.1));
    double error = 0.0;
    for (const FitCase& c : cases) error += std::abs(numbers.predicted(c) / c.measured - 1.0);
    CHECK(error / 300.0 < 0.01);
  }

  TEST_CASE("what is fitted is what the device model then says") {
    Random random(6);
    std::vector<FitCase> cases{measured(random), measured(random)};
    const DeviceNumbers numbers(cases);
    DeviceModel sheet{.name = "g_f", .bandwidth = {1e12}, .source = {}, .fitted = {}};
    sheet.at(Precision::fp32).peak = {1e13};
    const DeviceModel model = numbers.device(sheet, "g", "f");
    const OpGraph graph = small_network(1 << 30, 1 << 20, 7);
    FitCase c = on_one_gpu();
    c.add(graph, 1.0);
    CHECK(1e6 * numbers.predicted(c) ==
          doctest::Approx(to_us(simulated_step({}, graph, model))).epsilon(1e-5));
  }

  TEST_CASE("the fit sees what the engine simulates, forward, backward and update") {
    ExampleRow row{.framework = "pytorch-20.06",
                   .model = "resnet50",
                   .machine = "a100-40g",
                   .precision = "amp",
                   .training = true,
                   .batch = 4,
                   .passes = 3,
                   .rate = 100.0};
    for (const std::int64_t batch : {4, 64}) {  // the host decides, or the device
      row.batch = batch;
      const FittedRow fitted(row);
      const DeviceNumbers numbers(std::span(&fitted.fit_case, 1));
      const DeviceModel device =
          numbers.device(*fitted.sheet, fitted.fit_case.gpu, fitted.fit_case.framework);
      CHECK(numbers.predicted(fitted.fit_case) ==
            doctest::Approx(simulated_seconds(row, fitted.step, device)).epsilon(1e-5));
    }
  }

  TEST_CASE("no share of a peak is above 1, however fast a step was") {
    FitCase c = on_one_gpu();
    c.add(small_network(std::int64_t{1} << 40, 1 << 20, 1), 1.0);
    c.measured = 0.01;  // 0.11 s at the peak
    DeviceNumbers numbers(std::span(&c, 1));
    numbers.fit({true}, 2);
    DeviceModel sheet{.name = "g_f", .bandwidth = {1e12}, .source = {}, .fitted = {}};
    sheet.at(Precision::fp32).peak = {1e13};
    const DeviceModel model = numbers.device(sheet, "g", "f");
    CHECK(model.at(Precision::fp32).efficiency.of("Conv2d") == 1.0);
    CHECK(model.bandwidth_efficiency <= 1.0);
  }

  TEST_CASE("equal kernels are timed once") {
    FitCase c = on_one_gpu();
    c.add(small_network(1000, 1000, 7), 2.0);
    c.add(small_network(1000, 1000, 1), 1.0);
    CHECK(c.kernels.size() == 2);  // convolution and ReLU
    REQUIRE(c.runs.size() == 2);
    CHECK(c.runs[0].kernels == std::vector<std::uint32_t>{0, 1, 1, 1, 1, 1, 1, 1});
    CHECK(c.runs[1].ends == std::vector<std::uint32_t>{1, 2});
  }

  TEST_CASE("numbers nobody measured together are the product of what each was measured to be") {
    Random random(7);
    std::vector<FitCase> cases{measured(random)};
    const DeviceNumbers numbers(cases);
    const DeviceModel known = numbers.device({.name = "a", .source = {}, .fitted = {}}, "g", "f"),
                      unknown = numbers.device({.name = "b", .source = {}, .fitted = {}}, "other",
                                               "another");
    CHECK(known.bandwidth_efficiency == unknown.bandwidth_efficiency);  // nothing is fitted yet
  }
}
