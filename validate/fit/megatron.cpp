#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "scenarios/planning/step_formulas.h"
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
       {"bandwidth_efficiency", 0.95, [](const DeviceModel& g) { return g.bandwidth_efficiency; },
        [](DeviceModel& g, double x) { g.bandwidth_efficiency = x; }},
       {"half traffic", 1e9,
        [](const DeviceModel& g) { return static_cast<double>(g.half_traffic.count); },
        [](DeviceModel& g, double x) { g.half_traffic = {std::llround(x)}; }},
       {"host_op", 1e6, [](const DeviceModel& g) { return static_cast<double>(g.host_op.count()); },
        [](DeviceModel& g, double x) { g.host_op = Duration{std::llround(x)}; }}}};
  return table;
}

/// Measured steps, and what is simulated of them.
struct Samples {
  std::vector<ParallelStep> steps;
  std::vector<double> ms;      // measured [steps]
  std::vector<double> weight;  // [steps], 1 in sum
  explicit Samples(const std::vector<GptStep>& measured) { add(measured, 1.0); }

  /// Steps on one node, and on several, which count an eighth: there are fewer.
  Samples(const std::vector<GptStep>& one_node, const std::vector<GptStep>& several) {
    add(one_node, several.empty() ? 1.0 : 7.0 / 8.0);
    if (!several.empty()) add(several, 1.0 / 8.0);
  }

  /// Mean absolute error of `simulated` [steps], relative to what was measured.
  double error(const std::vector<double>& simulated) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < ms.size(); ++i)
      sum += weight[i] * std::abs(simulated[i] / ms[i] - 1.0);
    return sum;
  }
  std::vector<double> simulated(const DeviceModel& gpu) const {
    std::vector<double> times(steps.size());
    tbb::parallel_for(std::size_t{0}, steps.size(),
                      [&](std::size_t i) { times[i] = simulated_ms(steps[i], gpu); });
    return times;
  }

 private:
  void add(const std::vector<GptStep>& measured, double share) {
    for (const GptStep& s : measured) {
      steps.push_back(parallel_step(s));
      ms.push_back(s.ms);
      weight.push_back(share / static_cast<double>(measured.size()));
    }
  }
};

/// The formula of the steps, times what the engine's milliseconds are of the formula's seconds at
/// one device.
class CorrectedFormulas {
 public:
  explicit CorrectedFormulas(const Samples& samples)
      : samples_(samples), formulas_(samples.steps), factor_(samples.steps.size(), 1e3) {}

  void correct_at(const DeviceModel& gpu) {
    const std::vector<double> engine = samples_.simulated(gpu), formula = formulas_.seconds(gpu);
    for (std::size_t i = 0; i < factor_.size(); ++i) factor_[i] = engine[i] / formula[i];
  }
  double error(const DeviceModel& gpu) const {
    std::vector<double> ms = formulas_.seconds(gpu);
    for (std::size_t i = 0; i < ms.size(); ++i) ms[i] *= factor_[i];
    return samples_.error(ms);
  }

 private:
  const Samples& samples_;
  StepFormulas formulas_;
  std::vector<double> factor_;  // [steps]
};

/// Random changes of some of the numbers at once, which become smaller; what is better is kept.
/// Coordinates alone get stuck: the numbers make up for each other.
DeviceModel improved(const CorrectedFormulas& formulas, DeviceModel best, std::uint64_t seed) {
  constexpr int tries = 1500;
  double least = formulas.error(best);
  Random random(seed);
  double size = 0.3;  // of a change, on the scale of logarithms
  for (int i = 0; i < tries; ++i, size = std::max(0.01, size * 0.997)) {
    DeviceModel changed = best;
    for (const Number& number : numbers()) {
      if (random.below(2) == 0) continue;
      const double by = std::exp(size * 2.0 * (random.uniform() - 0.5));
      number.set(changed, std::min(number.get(best) * by, number.most));
    }
    const double error = formulas.error(changed);
    if (error >= least) continue;
    best = changed;
    least = error;
  }
  return best;
}

/// The formula is searched; the engine corrects it where the search ended, and begins it anew.
DeviceModel fitted(const Samples& samples) {
  constexpr std::array<double, 5> start{0.8, 10e9, 0.8, 100e3, 70e3};
  DeviceModel gpu = megatron_gpu();
  for (std::size_t i = 0; i < start.size(); ++i) numbers()[i].set(gpu, start[i]);
  CorrectedFormulas formulas(samples);
  for (const std::uint64_t round : {1U, 2U, 3U}) {
    formulas.correct_at(gpu);
    gpu = improved(formulas, gpu, round);
  }
  return gpu;
}

double error_of(const std::vector<GptStep>& steps, const DeviceModel& gpu) {
  const Samples samples(steps);
  return samples.error(samples.simulated(gpu));
}

/// The error on the steps for which `held_out` holds, fitted to the others.
std::string held_out_error(const std::vector<GptStep>& steps, std::string_view what,
                           auto held_out) {
  std::vector<GptStep> shown, hidden;
  for (const GptStep& s : steps) (held_out(s) ? hidden : shown).push_back(s);
  return fmt::format("# {}: {:.1f} % over {} steps\n", what,
                     100.0 * error_of(hidden, fitted(Samples(shown))), hidden.size());
}

}  // namespace

std::string fit_megatron(const std::string& folder) {
  Leftovers left;
  const auto steps = vtrain_single_node(folder, left);
  if (!steps) throw InputError(fmt::format("{}: no vtrain/measured_single_node.csv", folder));
  const auto many = vtrain_multi_node(folder, left);
  left.throw_if_any();
  const DeviceModel gpu = fitted(Samples(*steps, many ? *many : std::vector<GptStep>{}));
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
                      100.0 * error_of(*steps, gpu), steps->size());
  if (many)
    text += fmt::format("# on several nodes: {:.1f} % over {} steps\n",
                        100.0 * error_of(*many, gpu), many->size());
  text += "# fitted to some steps of one node, on others:\n";
  text += held_out_error(*steps, "hidden size 1024, on 2048",
                         [](const GptStep& s) { return s.hidden > 1024; });
  text += held_out_error(*steps, "up to 18 layers, on more",
                         [](const GptStep& s) { return s.layers > 18; });
  text += held_out_error(*steps, "up to 4 GPUs, on 8", [](const GptStep& s) { return s.gpus > 4; });
  return text;
}

}  // namespace baechi::validate
