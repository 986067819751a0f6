#include "validate/fit/fitted_devices.h"

#include <cmath>
#include <map>
#include <set>

#include "scenarios/read/device_table.h"
#include "sim/error.h"
#include "sim/hash.h"

namespace baechi::validate {
namespace {

constexpr int restarts = 2;

struct Gpu {
  std::string_view name;    ///< as in the names of kinds
  std::string_view fitted;  ///< the GPU whose numbers it shares
};
constexpr std::array<Gpu, 5> gpus{{{"v100", "v100"},
                                   {"v100_32gb", "v100"},
                                   {"t4", "t4"},
                                   {"a100_40gb", "a100"},
                                   {"a100", "a100"}}};
constexpr std::array<std::string_view, 4> frameworks{"pytorch", "mxnet", "tensorflow", "xla"};

struct Kind {
  std::string gpu, framework;
};
/// The parts of a kind's name, "v100_32gb_pytorch"; the GPU is the one whose numbers it shares.
Kind kind_parts(const std::string& kind) {
  const std::size_t end = kind.rfind('_');
  const std::string gpu = kind.substr(0, end);
  for (const Gpu& g : gpus)
    if (g.name == gpu) return {std::string(g.fitted), kind.substr(end + 1)};
  return {gpu, kind.substr(end + 1)};
}

}  // namespace

FittedRow::FittedRow(ExampleRow of) : row(std::move(of)), step(example_step(row)) {
  const std::string kind = kind_of(row).value();
  sheet = built_in_devices().devices.at(kind).get();
  const auto [gpu, framework] = kind_parts(kind);
  fit_case.gpu = gpu;
  fit_case.framework = framework;
  fit_case.measured = measured_seconds(row);
  fit_case.bandwidth = sheet->bandwidth.bytes_per_second;
  for (const Precision p : all<Precision>())
    fit_case.peak[static_cast<std::size_t>(p)] = sheet->at(p).peak.flop_per_second;
  if (step.update.num_ops() > 0) fit_case.add(step.update, 1.0);
  if (step.pass.num_ops() > 0)
    fit_case.add(step.pass, static_cast<double>(row.training ? row.passes - 1 : 1));
  for (const std::size_t format : fit_case.formats)
    if (!(fit_case.peak[format] > 0.0))
      throw InputError(fmt::format("{}: {} has no peak in {}", row.text(), kind,
                                   to_text(static_cast<Precision>(format))));
}

double engine_error(const FittedRow& row, const DeviceNumbers& numbers) {
  const DeviceModel device = numbers.device(*row.sheet, row.fit_case.gpu, row.fit_case.framework);
  return std::abs(simulated_seconds(row.row, row.step, device) / row.fit_case.measured - 1.0);
}

Folds folds_of(std::span<const FittedRow> rows,
               const std::function<std::string(const ExampleRow&)>& fold) {
  Folds folds;
  for (std::size_t r = 0; r < rows.size(); ++r)
    if (const std::string name = fold(rows[r].row); !name.empty()) folds[name].push_back(r);
  return folds;
}

CrossValidated cross_validate(
    std::span<const FittedRow> rows, std::span<const FitCase> cases, const Folds& folds,
    std::atomic<std::size_t>& done,
    const std::function<bool(const ExampleRow&, const std::string&)>& also) {
  CrossValidated result{.folds = folds.size()};
  DeviceNumbers numbers(cases);
  for (const auto& [name, members] : folds) {
    std::vector<bool> use(rows.size(), true);
    for (const std::size_t r : members) use[r] = false;
    for (std::size_t r = 0; also && r < rows.size(); ++r)
      if (also(rows[r].row, name)) use[r] = false;
    numbers.fit(use, restarts);
    ++done;
    double sum = 0.0;
    for (const std::size_t r : members) sum += engine_error(rows[r], numbers);
    result.rows += members.size();
    result.mean += sum;
    result.mean_of_folds += sum / static_cast<double>(members.size());
  }
  result.mean /= static_cast<double>(std::max<std::size_t>(result.rows, 1));
  result.mean_of_folds /= static_cast<double>(std::max<std::size_t>(result.folds, 1));
  return result;
}

namespace {

std::string number(double x) {
  return fmt::format("{:.3g}", x);
}

std::string shares_text(const Efficiency& e) {
  std::string text = fmt::format("default: {}", number(e.other));
  for (const auto& [kind, share] : e.by_kind) text += fmt::format(", {}: {}", kind, number(share));
  return "{" + text + "}";
}

/// The formats that the data sheet has a peak in; `item` of each, joined.
std::string by_format(const DeviceModel& model, const std::string& separator,
                      const std::function<std::string(const Arithmetic&)>& item) {
  std::string text;
  for (const Precision p : all<Precision>()) {
    const Arithmetic& own = model.arithmetic[static_cast<std::size_t>(p)];
    if (own.peak > FlopRate{})
      text += fmt::format("{}{}: {}", text.empty() ? "" : separator, to_text(p), item(own));
  }
  return text;
}

/// `steps`: of the kind itself.
std::string kind_yaml(const DeviceModel& m, std::int64_t steps, double error) {
  const std::string peaks = by_format(m, ", ", [](const Arithmetic& a) {
    return fmt::format("{:g} TFLOP/s", a.peak.flop_per_second / 1e12);
  });
  const std::string shares = by_format(
      m, ",\n                  ", [](const Arithmetic& a) { return shares_text(a.efficiency); });
  const std::string half = by_format(m, ", ", [](const Arithmetic& a) {
    return fmt::format("{} MFLOP", number(a.half_flops / 1e6));
  });
  const auto us = [](Duration time) { return number(to_us(time)); };
  return fmt::format(
      "  {}:\n"
      "    {{peak: {{{}}}, bandwidth: {:g} GB/s, memory: {} MiB,\n"
      "     efficiency: {{{}}},\n"
      "     half: {{{}}},\n"
      "     bandwidth_efficiency: {}, launch: {} us, no_kernel: {} us, host_op: {} us, "
      "host_step: {} us,\n"
      "     fitted: \"{}\",\n     source: \"{}\"}}\n",
      m.name, peaks, m.bandwidth.bytes_per_second / 1e9, m.memory.count >> 20U, shares, half,
      number(m.bandwidth_efficiency), us(m.launch), us(m.no_kernel), us(m.host_op), us(m.host_step),
      steps == 0
          ? "unfitted: no step of this kind; numbers of its GPU and its framework"
          : fmt::format("steps of networks, {} of this kind and others that share its numbers, "
                        "error of inference {:.1f} %",
                        steps, 100.0 * error),
      m.source);
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100.0 * share);
}

/// One of six folds of single rows: dlexamples/ splits inference rows so.
std::string single_rows(const ExampleRow& row) {
  Hash hash;
  hash.add(row.text());
  return row.training ? "" : fmt::format("{}", hash.value() % 6);
}
std::string blocks(const ExampleRow& row) {
  return row.training ? fmt::format("{},{},{}", row.framework, row.model, row.machine) : "";
}
/// Cases of PyTorch inference: GPU, format and network.
std::string networks(const ExampleRow& row) {
  if (row.training || row.base_framework() != "pytorch") return "";
  return fmt::format("{},{},{}", row.model, row.machine, row.precision);
}

/// Rows of inference under a framework, "pytorch" or "xla", a sixth left out at a time.
Folds of_framework(std::span<const FittedRow> rows, std::string_view framework) {
  return folds_of(rows, [framework](const ExampleRow& row) {
    const std::string_view base = row.base_framework();
    return (base == "tensorflow+xla" ? std::string_view("xla") : base) == framework
               ? single_rows(row)
               : std::string();
  });
}

/// What is left out when: all the folds of a fit's cross-validation.
struct AllFolds {
  explicit AllFolds(std::span<const FittedRow> rows)
      : training(folds_of(rows, blocks)), network(folds_of(rows, networks)) {
    for (const std::string_view framework : frameworks)
      inference[framework] = of_framework(rows, framework);
  }
  std::size_t count() const {
    std::size_t sum = training.size() + network.size();
    for (const auto& [framework, folds] : inference) sum += folds.size();
    return sum;
  }

  Folds training, network;
  std::map<std::string_view, Folds> inference;  ///< by framework
};

/// The errors of each of `frameworks`.
using ByFramework = std::map<std::string_view, CrossValidated>;

/// GPUs that are left out as if nobody had measured them under PyTorch.
constexpr std::array<std::string_view, 2> left_out_gpus{"v100", "a100"};

/// A GPU that nobody measured under PyTorch: `alone` is its kind without a framework, whose
/// products it keeps, but for convolutions.
DeviceModel under_pytorch(const DeviceModel& alone, const DeviceNumbers& numbers) {
  const DeviceModel others = numbers.device(alone, "", "pytorch");
  DeviceModel model = alone;
  for (const Precision p : all<Precision>()) {
    Arithmetic& own = model.arithmetic[static_cast<std::size_t>(p)];
    own.efficiency.by_kind = others.at(p).efficiency.by_kind;
    own.half_flops = others.at(p).half_flops;
  }
  model.bandwidth_efficiency = others.bandwidth_efficiency;
  model.launch = others.launch;
  model.no_kernel = others.no_kernel;
  model.host_op = others.host_op;
  model.host_step = others.host_step;
  return model;
}

/// Errors of PyTorch's rows on GPUs whose kernels alone were measured, each by the numbers of the
/// others; and the numbers of all for such GPUs.
std::string unmeasured_text(std::span<const FittedRow> rows, std::span<const FitCase> cases,
                            const DeviceNumbers& all, std::atomic<std::size_t>& done) {
  const auto& kinds = built_in_devices().devices;
  std::string text;
  for (const std::string_view gpu : left_out_gpus) {
    std::vector<bool> others;
    for (const FitCase& c : cases) others.push_back(c.gpu != gpu);
    DeviceNumbers numbers(cases);
    numbers.fit(others, restarts);
    ++done;
    const DeviceModel device = under_pytorch(*kinds.at(std::string(gpu)), numbers);
    for (const bool training : {false, true}) {
      double sum = 0.0, count = 0.0;
      for (const FittedRow& row : rows) {
        const FitCase& c = row.fit_case;
        if (c.gpu != gpu || c.framework != "pytorch" || row.row.training != training) continue;
        sum += std::abs(simulated_seconds(row.row, row.step, device) / c.measured - 1.0);
        count += 1.0;
      }
      if (count > 0.0)
        text += fmt::format("{}{} {} {} of {} rows", text.empty() ? "" : ", ", gpu,
                            training ? "training" : "inference", percent(sum / count), count);
    }
  }
  const DeviceModel device = under_pytorch(*kinds.at("a100"), all);  // it has no 8 bits
  const std::string shares = by_format(device, ", ", [](const Arithmetic& a) {
    return fmt::format("{} from {} MFLOP", shares_text(a.efficiency), number(a.half_flops / 1e6));
  });
  return fmt::format(
      "# GPUs that nobody measured under PyTorch: bandwidth_efficiency: {:.3g}, launch: {:.3g} us, "
      "host_op: {:.3g} us, host_step: {:.3g} us, {}.\n# Left out: {}.\n",
      device.bandwidth_efficiency, to_us(device.launch), to_us(device.host_op),
      to_us(device.host_step), shares, text);
}

std::string comment(std::span<const FittedRow> rows, std::span<const FitCase> cases,
                    const DeviceNumbers& numbers, const ByFramework& inferences,
                    const AllFolds& folds, std::atomic<std::size_t>& done) {
  double training = 0.0, inference = 0.0;
  std::size_t trainings = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    (rows[r].row.training ? training : inference) += engine_error(rows[r], numbers);
    trainings += rows[r].row.training ? 1U : 0U;
  }
  const CrossValidated block = cross_validate(rows, cases, folds.training, done),
                       network = cross_validate(rows, cases, folds.network, done,
                                                [](const ExampleRow& row, const std::string& fold) {
                                                  return fold.starts_with(row.model + ",");
                                                });
  return fmt::format(
      "# {} numbers fitted to {} steps, of which {} of training: mean absolute error of these {}, "
      "of "
      "inference\n"
      "# {}, of the engine. Cross-validated, which is what to expect of others: inference, a sixth "
      "of the rows "
      "left "
      "out at a time,\n"
      "# PyTorch {}, MXNet {}, TensorFlow {}, with XLA {}; a network left out everywhere, "
      "PyTorch's "
      "inference, mean\n"
      "# of {} cases {}; training, a (framework, model, machine) left out, mean of {} blocks {}.\n",
      numbers.moved(), rows.size(), trainings, percent(training / static_cast<double>(trainings)),
      percent(inference / static_cast<double>(rows.size() - trainings)),
      percent(inferences.at("pytorch").mean), percent(inferences.at("mxnet").mean),
      percent(inferences.at("tensorflow").mean), percent(inferences.at("xla").mean), network.folds,
      percent(network.mean_of_folds), block.folds, percent(block.mean_of_folds));
}

}  // namespace

std::string fit_devices(const std::string& folder, const Watch& watch) {
  std::vector<FittedRow> rows;
  Leftovers left;
  for (auto* const read : {inference_rows, training_rows}) {
    auto more = read(folder, left);
    if (!more) throw InputError(fmt::format("{}: no dlexamples/*.csv", folder));
    for (ExampleRow& row : *more)
      if (row.gpus == 1 && unknown_speed(row).empty()) rows.emplace_back(std::move(row));
  }
  left.throw_if_any();
  std::vector<FitCase> cases;
  for (const FittedRow& row : rows) cases.push_back(row.fit_case);
  const AllFolds folds(rows);
  std::atomic<std::size_t> done = 0;
  const auto watched = begin_watch(watch, done, 1 + folds.count() + left_out_gpus.size());
  DeviceNumbers numbers(cases);
  numbers.fit(std::vector<bool>(rows.size(), true), restarts);
  ++done;
  ByFramework inferences;
  for (const auto& [framework, sixths] : folds.inference)
    inferences[framework] = cross_validate(rows, cases, sixths, done);
  std::string yaml = comment(rows, cases, numbers, inferences, folds, done);
  yaml += unmeasured_text(rows, cases, numbers, done);
  std::map<std::string, std::int64_t> steps;
  for (const FittedRow& row : rows) ++steps[*kind_of(row.row)];
  for (const std::string_view framework : frameworks) {
    for (const Gpu& gpu : gpus) {
      const std::string name = fmt::format("{}_{}", gpu.name, framework);
      const auto sheet = built_in_devices().devices.find(name);
      if (sheet != built_in_devices().devices.end())
        yaml += kind_yaml(
            numbers.device(*sheet->second, std::string(gpu.fitted), std::string(framework)),
            steps[name], inferences.at(framework).mean);
    }
  }
  return yaml;
}

}  // namespace baechi::validate
