#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <span>

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

const std::array<Number, 6>& numbers() {
  static const std::array<Number, 6> table{
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
        [](DeviceModel& g, double x) { g.host_op = Duration{std::llround(x)}; }},
       {"unaligned", 1.0, [](const DeviceModel& g) { return g.unaligned; },
        [](DeviceModel& g, double x) { g.unaligned = x; }}}};
  return table;
}

/// What is fitted to: pieces of steps on one node, and steps on several nodes.
class PieceSamples {
 public:
  PieceSamples(std::vector<GptPiece> pieces, std::vector<GptStep> several)
      : pieces_(std::move(pieces)), several_(std::move(several)) {
    for (const GptPiece& piece : pieces_) ones_.push_back(parallel_step(piece.step));
    for (const GptStep& step : several_) steps.push_back(parallel_step(step));
  }

  std::vector<ParallelStep> steps;  // on several nodes

  struct Errors {
    double layers = 0.0, heads = 0.0, several = 0.0;
    /// Steps on several nodes count as much as pieces, a layer three times a head: a step has many.
    double all() const { return 3.0 / 8.0 * layers + 1.0 / 8.0 * heads + 1.0 / 2.0 * several; }
  };
  /// Mean absolute errors on `gpu`, relative to what was measured; `simulated`: milliseconds of
  /// `steps`.
  Errors errors(const DeviceModel& gpu, std::span<const double> simulated) const {
    Errors sum;
    const auto share = [](double is, double was, std::size_t of) {
      return std::abs(is / was - 1.0) / static_cast<double>(of);
    };
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const PieceTimes is = piece_times(ones_[i], gpu);
      sum.layers += share(is.layer, pieces_[i].measured.layer, pieces_.size());
      sum.heads += share(is.head, pieces_[i].measured.head, pieces_.size());
    }
    for (std::size_t i = 0; i < several_.size(); ++i)
      sum.several += share(simulated[i], several_[i].ms, several_.size());
    return sum;
  }
  std::vector<double> simulated(const DeviceModel& gpu) const {
    std::vector<double> times(steps.size());
    tbb::parallel_for(std::size_t{0}, steps.size(),
                      [&](std::size_t i) { times[i] = simulated_ms(steps[i], gpu); });
    return times;
  }

 private:
  std::vector<GptPiece> pieces_;
  std::vector<ParallelStep> ones_;  // [pieces], of one layer
  std::vector<GptStep> several_;
};

/// The formula of the steps, times what the engine's milliseconds are of the formula's seconds at
/// one device.
class CorrectedFormulas {
 public:
  explicit CorrectedFormulas(const PieceSamples& samples)
      : samples_(samples), formulas_(samples.steps), factor_(samples.steps.size(), 1e3) {}

  void correct_at(const DeviceModel& gpu) {
    const std::vector<double> engine = samples_.simulated(gpu), formula = formulas_.seconds(gpu);
    for (std::size_t i = 0; i < factor_.size(); ++i) factor_[i] = engine[i] / formula[i];
  }
  double error(const DeviceModel& gpu) const {
    std::vector<double> ms = formulas_.seconds(gpu);
    for (std::size_t i = 0; i < ms.size(); ++i) ms[i] *= factor_[i];
    return samples_.errors(gpu, ms).all();
  }

 private:
  const PieceSamples& samples_;
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
DeviceModel fitted(const PieceSamples& samples) {
  constexpr std::array<double, 6> start{0.8, 10e9, 0.8, 100e3, 70e3, 0.35};
  DeviceModel gpu = megatron_gpu();
  for (std::size_t i = 0; i < start.size(); ++i) numbers()[i].set(gpu, start[i]);
  CorrectedFormulas formulas(samples);
  for (const std::uint64_t round : {1U, 2U, 3U}) {
    formulas.correct_at(gpu);
    gpu = improved(formulas, gpu, round);
  }
  return gpu;
}

PieceSamples::Errors errors_of(const PieceSamples& samples, const DeviceModel& gpu) {
  return samples.errors(gpu, samples.simulated(gpu));
}

template <class Row>
std::pair<std::vector<Row>, std::vector<Row>> split_rows(const std::vector<Row>& rows,
                                                         auto held_out) {
  std::pair<std::vector<Row>, std::vector<Row>> shown_and_hidden;
  for (std::size_t i = 0; i < rows.size(); ++i)
    (held_out(i, rows[i]) ? shown_and_hidden.second : shown_and_hidden.first).push_back(rows[i]);
  return shown_and_hidden;
}

/// Errors of what is left out of the fit: a quarter of the pieces at a time, and one model of those
/// on several nodes at a time.
std::string left_out_text(const std::vector<GptPiece>& pieces,
                          const std::vector<GptStep>& several) {
  constexpr std::size_t folds = 4;
  PieceSamples::Errors sum;
  for (std::size_t fold = 0; fold < folds; ++fold) {
    const auto [shown, hidden] =
        split_rows(pieces, [&](std::size_t i, const GptPiece&) { return i % folds == fold; });
    const auto errors = errors_of(PieceSamples(hidden, {}), fitted(PieceSamples(shown, several)));
    sum.layers += errors.layers * static_cast<double>(hidden.size());
    sum.heads += errors.heads * static_cast<double>(hidden.size());
  }
  std::set<std::int64_t> models;
  for (const GptStep& s : several) models.insert(s.hidden);
  for (const std::int64_t model : models) {
    const auto [shown, hidden] =
        split_rows(several, [&](std::size_t, const GptStep& s) { return s.hidden == model; });
    sum.several +=
        errors_of(PieceSamples({}, hidden), fitted(PieceSamples(pieces, shown))).several *
        static_cast<double>(hidden.size());
  }
  const auto mean = [](double of, std::size_t rows) {
    return 100.0 * of / static_cast<double>(std::max<std::size_t>(rows, 1));
  };
  return fmt::format(
      "# left out, a quarter of the pieces at a time: layers {:.1f} %, heads {:.1f} %; a model on "
      "several nodes at a time: {:.1f} %\n",
      mean(sum.layers, pieces.size()), mean(sum.heads, pieces.size()),
      mean(sum.several, several.size()));
}

}  // namespace

std::string fit_megatron(const std::string& folder, const Watch& /*watch*/) {
  Leftovers left;
  const auto steps = vtrain_single_node(folder, left);
  if (!steps) throw InputError(fmt::format("{}: no vtrain/measured_single_node.csv", folder));
  const auto many = vtrain_multi_node(folder, left);
  const std::vector<GptPiece> pieces = pieces_of(*steps, left);
  const std::vector<GptStep> several = many ? *many : std::vector<GptStep>{};
  left.throw_if_any();
  const PieceSamples samples(pieces, several);
  const DeviceModel gpu = fitted(samples);
  std::string text = fmt::format(
      "devices:\n"
      "  a100_megatron:\n"
      "    {{peak: {{fp16: 312 TFLOP/s, bf16: 312 TFLOP/s, fp32: 19.5 TFLOP/s}}, bandwidth: 2039 "
      "GB/s, memory: 81920 MiB,\n"
      "     efficiency: {{default: {0:.3f}}}, half: {{fp16: {1:.2f} GFLOP, bf16: {1:.2f} GFLOP, "
      "traffic: {2:.0f} kB}},\n"
      "     bandwidth_efficiency: {3:.3f}, unaligned: {4:.3f}, launch: 0, no_kernel: 0, host_op: "
      "{5:.1f} "
      "us}}\n",
      gpu.at(Precision::fp16).efficiency.other, gpu.at(Precision::fp16).half_flops / 1e9,
      static_cast<double>(gpu.half_traffic.count) / 1e3, gpu.bandwidth_efficiency, gpu.unaligned,
      to_us(gpu.host_op));
  const PieceSamples::Errors errors = errors_of(samples, gpu);
  text += fmt::format(
      "# mean absolute errors: layers {:.1f} %, heads {:.1f} %, of {} pieces; {:.1f} % of {} steps "
      "on several nodes\n",
      100.0 * errors.layers, 100.0 * errors.heads, pieces.size(), 100.0 * errors.several,
      several.size());
  text += left_out_text(pieces, several);
  return text;
}

}  // namespace baechi::validate
