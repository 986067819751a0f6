#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "sim/error.h"
#include "sim/random.h"
#include "validate/fit/fit.h"
#include "validate/published/vtrain.h"

namespace baechi::validate {
namespace {

/// The numbers to fit, and how large they may become.
struct Number {
  std::string_view name;
  double most;
  std::function<double(const DeviceModel&)> get;
  std::function<void(DeviceModel&, double)> set;
};

const std::array<Number, 5>& numbers() {
  static const std::array<Number, 5> table{
      {{"efficiency", 1.0,
        [](const DeviceModel& g) { return g.at(Precision::fp16).efficiency.other; },
        [](DeviceModel& g, double x) { g.at(Precision::fp16).efficiency.other = x; }},
       {"half", 1e12, [](const DeviceModel& g) { return g.at(Precision::fp16).half_flops; },
        [](DeviceModel& g, double x) { g.at(Precision::fp16).half_flops = x; }},
       {"bandwidth_efficiency", 0.9, [](const DeviceModel& g) { return g.bandwidth_efficiency; },
        [](DeviceModel& g, double x) { g.bandwidth_efficiency = x; }},
       {"half traffic", 1e9,
        [](const DeviceModel& g) { return static_cast<double>(g.half_traffic.count); },
        [](DeviceModel& g, double x) { g.half_traffic = {std::llround(x)}; }},
       {"host_op", 1e6, [](const DeviceModel& g) { return static_cast<double>(g.host_op.count()); },
        [](DeviceModel& g, double x) { g.host_op = Duration{std::llround(x)}; }}}};
  return table;
}

struct Sample {
  PreparedGptStep step;
  double ms = 0.0;
};
std::vector<Sample> prepared(const std::vector<GptStep>& steps) {
  std::vector<Sample> samples;
  for (const GptStep& s : steps) samples.push_back({PreparedGptStep(s), s.ms});
  return samples;
}

/// Mean absolute error, relative to what was measured.
double error_of(const std::vector<Sample>& samples, const DeviceModel& gpu) {
  std::vector<double> errors(samples.size());
  tbb::parallel_for(std::size_t{0}, samples.size(), [&](std::size_t i) {
    errors[i] = std::abs(samples[i].step.simulated_ms(gpu) / samples[i].ms - 1.0);
  });
  double sum = 0.0;  // in order: the same for any number of threads
  for (const double e : errors) sum += e;
  return sum / static_cast<double>(std::max<std::size_t>(1, errors.size()));
}

/// Steps on one node, and on several, which count a third: there are fewer.
struct Samples {
  std::vector<Sample> single_node, multi_node;
};
double error_of(const Samples& samples, const DeviceModel& gpu) {
  const double single = error_of(samples.single_node, gpu);
  return samples.multi_node.empty() ? single : (3.0 * single + error_of(samples.multi_node, gpu)) / 4.0;
}

/// Random changes of some of the numbers at once, which become smaller; what is better is kept.
/// Coordinates alone get stuck: the numbers make up for each other.
DeviceModel fitted(const Samples& samples) {
  constexpr int tries = 150;
  constexpr std::array<double, 5> start{0.8, 10e9, 0.8, 100e3, 70e3};
  DeviceModel best = megatron_gpu();
  for (std::size_t i = 0; i < start.size(); ++i) numbers()[i].set(best, start[i]);
  double least = error_of(samples, best);
  Random random(1);
  double size = 0.2;  // of a change, on the scale of logarithms
  for (int i = 0; i < tries; ++i, size = std::max(0.02, size * 0.985)) {
    DeviceModel changed = best;
    for (const Number& number : numbers()) {
      if (random.below(2) == 0) continue;
      const double by = std::exp(size * 2.0 * (random.uniform() - 0.5));
      number.set(changed, std::min(number.get(best) * by, number.most));
    }
    const double error = error_of(samples, changed);
    if (error >= least) continue;
    best = changed;
    least = error;
  }
  return best;
}

/// Every `nth`: enough to search with.
std::vector<GptStep> some(const std::vector<GptStep>& steps, std::size_t nth) {
  std::vector<GptStep> kept;
  for (std::size_t i = 0; i < steps.size(); i += nth) kept.push_back(steps[i]);
  return kept;
}
constexpr std::size_t nth = 6;

/// The error on the steps for which `held_out` holds, fitted to the others.
std::string held_out_error(const std::vector<GptStep>& steps, std::string_view what,
                           auto held_out) {
  std::vector<GptStep> shown, hidden;
  for (const GptStep& s : steps) (held_out(s) ? hidden : shown).push_back(s);
  const DeviceModel gpu = fitted({prepared(some(shown, nth)), {}});
  return fmt::format("# {}: {:.1f} % over {} steps\n", what,
                     100.0 * error_of(prepared(hidden), gpu), hidden.size());
}

}  // namespace

std::string fit_megatron(const std::string& folder) {
  const auto steps = vtrain_single_node(folder);
  if (!steps) throw InputError(fmt::format("{}: no vtrain/measured_single_node.csv", folder));
  const auto many = vtrain_multi_node(folder);
  Samples samples{.single_node = prepared(some(*steps, nth)), .multi_node = {}};
  if (many) samples.multi_node = prepared(some(*many, nth));
  const DeviceModel gpu = fitted(samples);
  std::string text = fmt::format(
      "devices:\n"
      "  a100_megatron:\n"
      "    {{peak: {{fp16: 312 TFLOP/s, fp32: 19.5 TFLOP/s}}, bandwidth: 2039 GB/s, memory: 80 "
      "GB,\n"
      "     efficiency: {{default: {:.3f}}}, half: {{fp16: {:.2f} GFLOP, traffic: {:.0f} kB}},\n"
      "     bandwidth_efficiency: {:.3f}, launch: 0, no_kernel: 0, host_op: {:.1f} us}}\n",
      gpu.at(Precision::fp16).efficiency.other, gpu.at(Precision::fp16).half_flops / 1e9,
      static_cast<double>(gpu.half_traffic.count) / 1e3, gpu.bandwidth_efficiency,
      to_us(gpu.host_op));
  text += fmt::format("# mean absolute error: {:.1f} % over {} steps\n",
                      100.0 * error_of(prepared(*steps), gpu), steps->size());
  if (many)
    text += fmt::format("# on several nodes: {:.1f} % over {} steps\n",
                        100.0 * error_of(prepared(*many), gpu), many->size());
  text += "# fitted to some steps of one node, on others:\n";
  text += held_out_error(*steps, "hidden size 1024, on 2048",
                         [](const GptStep& s) { return s.hidden > 1024; });
  text += held_out_error(*steps, "up to 18 layers, on more",
                         [](const GptStep& s) { return s.layers > 18; });
  text += held_out_error(*steps, "up to 4 GPUs, on 8", [](const GptStep& s) { return s.gpus > 4; });
  return text;
}

}  // namespace baechi::validate
