#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "scenarios/read/device_table.h"
#include "sim/error.h"
#include "sim/hash.h"
#include "sim/watch.h"
#include "validate/fit/kernel_numbers.h"
#include "validate/published/kernel_files.h"
#include "validate/published/measured_files.h"

namespace baechi::validate {
namespace {

constexpr std::uint64_t num_folds = 5;

/// What the numbers of one kind, of one format or size of head, are fitted to.
template <class Numbers>
struct KernelFit {
  std::vector<KernelRow<Numbers>> rows{};
  std::vector<std::uint64_t> fold{};             ///< [rows] by the rows' keys
  std::array<Numbers, num_folds + 1> numbers{};  ///< without each fold; with all
  double error = 0.0;                            ///< mean, on the fold that was left out

  const Numbers& all() const { return numbers.back(); }

  void add(const MeasuredKernel& kernel, const DeviceRates& rates, auto us) {
    Hash hash;
    hash.add(kernel.key);
    fold.push_back(hash.value() % num_folds);
    rows.push_back(
        {rates, kernel.work.matrix, static_cast<double>(kernel.work.traffic.count), kernel.us, us});
  }
  void fit(std::size_t without, const Numbers& start) {
    std::vector<KernelRow<Numbers>> shown;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (fold[i] != without) shown.push_back(rows[i]);
    numbers[without] = fitted_numbers<Numbers>(shown, start);
  }
  void cross_validate() {
    for (std::size_t i = 0; i < rows.size(); ++i)
      error += std::abs(rows[i].error(numbers[fold[i]])) / static_cast<double>(rows.size());
  }
};

template <class Numbers>
using KernelFits = std::map<std::pair<std::string, std::string>, KernelFit<Numbers>>;

/// GPUs with slow memory have large caches, in which a benchmark finds its data.
bool has_large_cache(const std::string& kind) {
  return built_in_devices().devices.at(kind)->bandwidth.bytes_per_second < 1.7e12;
}

/// Every seventh row of the kinds of `group` without large caches, but for `without`.
template <class Numbers>
std::vector<KernelRow<Numbers>> sample_of(const KernelFits<Numbers>& fits, const std::string& group,
                                          const std::string& without) {
  std::vector<KernelRow<Numbers>> rows;
  for (const auto& [name, fit] : fits) {
    if (name.second != group || name.first == without || has_large_cache(name.first)) continue;
    for (std::size_t row = 0; row < fit.rows.size(); row += 7) rows.push_back(fit.rows[row]);
  }
  return rows;
}

/// The numbers of all kinds together are where those of a kind begin.
template <class Numbers>
KernelFits<Numbers> fits_of(const std::vector<MeasuredKernel>& kernels, auto us) {
  KernelFits<Numbers> fits;
  for (const MeasuredKernel& kernel : kernels)
    fits[{kernel.kind, kernel.group}].add(
        kernel, rates_of(*built_in_devices().devices.at(kernel.kind), kernel.work.precision), us);
  std::vector<KernelFit<Numbers>*> jobs;
  std::vector<Numbers> starts;
  for (auto& [name, fit] : fits) {
    const bool cache = has_large_cache(name.first);
    const Numbers start = first_numbers<Numbers>(name.second, cache);
    jobs.push_back(&fit);
    starts.push_back(cache ? start
                           : fitted_numbers<Numbers>(sample_of(fits, name.second, ""), start));
  }
  tbb::parallel_for(std::size_t{0}, jobs.size() * (num_folds + 1), [&](std::size_t job) {
    jobs[job / (num_folds + 1)]->fit(job % (num_folds + 1), starts[job / (num_folds + 1)]);
  });
  for (auto& [name, fit] : fits) fit.cross_validate();
  return fits;
}

/// Numbers for devices that nobody measured: of all devices together. `error`: that of each device,
/// fitted to the others.
template <class Numbers>
struct KernelRule {
  Numbers numbers{};
  std::map<std::string, double> error{};
};

template <class Numbers>
KernelRule<Numbers> rule_of(const KernelFits<Numbers>& fits, const std::string& group) {
  const Numbers start = first_numbers<Numbers>(group, false);
  KernelRule<Numbers> rule{.numbers = fitted_numbers<Numbers>(sample_of(fits, group, ""), start)};
  for (const auto& [name, fit] : fits) {
    if (name.second != group) continue;
    const Numbers others = fitted_numbers<Numbers>(sample_of(fits, group, name.first), start);
    double& error = rule.error[name.first];
    for (const KernelRow<Numbers>& row : fit.rows)
      error += std::abs(row.error(others)) / static_cast<double>(fit.rows.size());
  }
  return rule;
}

std::string percent_text(double share) {
  return fmt::format("{:.1f} %", 100.0 * share);
}

template <class Numbers>
std::string rule_yaml(const KernelRule<Numbers>& rule, std::string_view name,
                      std::string_view what) {
  std::string errors;
  for (const auto& [kind, error] : rule.error)
    errors += fmt::format("{}{} {}", errors.empty() ? "" : ", ", kind, percent_text(error));
  return fmt::format("# {} of a GPU that was left out: {}.\nx-{}: &{}\n  {}\n", what, errors, name,
                     name, numbers_yaml(rule.numbers));
}

/// A kind's numbers as YAML, and what they were fitted to.
struct KindText {
  std::string yaml{}, fitted{};

  void add(const std::string& key, const std::string& numbers, const std::string& what) {
    yaml += fmt::format("{}{}: {}", yaml.empty() ? "" : ",\n       ", key, numbers);
    fitted += (fitted.empty() ? "" : "; ") + what;
  }
};

/// The kind's formats or sizes of head, each with its rows and its error on rows left out.
template <class Numbers>
KindText measured_text(const KernelFits<Numbers>& fits, const std::string& kind,
                       std::string_view what) {
  KindText text;
  for (const auto& [name, fit] : fits) {
    if (name.first != kind) continue;
    // bf16's numbers are those of every format that has none of its own.
    text.add(name.second == "bf16" ? "default" : name.second, numbers_yaml(fit.all()),
             fmt::format("{} {} {} rows, error {}", what, name.second, fit.rows.size(),
                         percent_text(fit.error)));
  }
  return text;
}

/// The mean over the devices of a rule.
template <class Numbers>
double mean_error(const KernelRule<Numbers>& rule) {
  double sum = 0.0;
  for (const auto& [kind, error] : rule.error) sum += error;
  return sum / static_cast<double>(rule.error.size());
}

/// "a100" for a100_40gb: the kind with the same processors whose kernels were measured; "" if none.
std::string same_chip(const std::string& kind, const KernelFits<ProductNumbers>& fits) {
  for (const auto& [name, fit] : fits)
    if (kind == name.first || kind.starts_with(name.first + "_")) return name.first;
  return "";
}

/// The numbers with the efficiency for which the best product that was found on the device takes
/// the time that was measured (measured/public_logs/gemm_best.csv); unchanged without such a row.
ProductNumbers as_best_product(ProductNumbers numbers, const DeviceModel& gpu,
                               const std::string& folder) {
  Leftovers left;
  const auto table = read_measured(folder, "measured/public_logs/gemm_best.csv", left);
  if (!table || gpu.name != "mi300x") return numbers;
  const auto column = [&](std::string_view name) { return table->column(name); };
  for (std::size_t row = 0; row < table->num_rows(); ++row) {
    if (table->text(row, column("accelerator")) != "AMD MI300X" ||
        table->text(row, column("precision")) != "bf16")
      continue;
    const MatrixShape shape{MatrixKind::product, 1, table->whole(row, column("m"), 1),
                            table->whole(row, column("n"), 1), table->whole(row, column("k"), 1)};
    const auto m = static_cast<double>(shape.rows), n = static_cast<double>(shape.columns),
               k = static_cast<double>(shape.inner);
    const double us = 2.0 * m * n * k / (1e6 * table->number(row, column("tflops"), 1e-3));
    for (int round = 0; round < 50; ++round)
      numbers.efficiency *= product_us(numbers, rates_of(gpu, Precision::bf16), shape,
                                       2.0 * (m * k + k * n + m * n)) /
                            us;
  }
  return numbers;
}

std::string data_sheet_yaml(const DeviceModel& gpu) {
  std::string peaks;
  for (const Precision p : all<Precision>())
    if (const FlopRate peak = gpu.arithmetic[static_cast<std::size_t>(p)].peak; peak > FlopRate{})
      peaks += fmt::format("{}{}: {:g} TFLOP/s", peaks.empty() ? "" : ", ", to_text(p),
                           peak.flop_per_second / 1e12);
  return fmt::format(
      "{{peak: {{{}}},\n     bandwidth: {:g} GB/s, memory: {} MiB, processors: {}, efficiency: "
      "*tensor,\n",
      peaks, gpu.bandwidth.bytes_per_second / 1e9, gpu.memory.count >> 20, gpu.processors);
}

}  // namespace

std::string fit_kernels(const std::string& folder, const Watch& /*watch*/) {
  Leftovers left;
  const std::vector<MeasuredKernel> measured = measured_products(folder, left),
                                    attention = measured_attention(folder, left),
                                    passes = measured_passes(folder, left);
  if (measured.empty() || attention.empty())
    throw InputError(
        fmt::format("{}: no measured/aiconfigurator/gemm.csv, attention_forward.csv", folder));
  const auto of_products = fits_of<ProductNumbers>(measured, product_us);
  const auto of_attention = fits_of<AttentionNumbers>(attention, attention_us);
  const std::map<std::string, PassNumbers> of_passes = fit_passes(passes);
  const auto rule = rule_of(of_products, "bf16"), rule_fp8 = rule_of(of_products, "fp8");
  const auto rule_attention = rule_of(of_attention, "128");
  std::string text =
      "# Begin: baechi validate fit kernels. Errors are means over rows that were left out, a "
      "fifth\n"
      "# at a time, by n x k or by heads.\n" +
      rule_yaml(rule, "products", "bf16 products") +
      rule_yaml(rule_fp8, "products_fp8", "fp8 products") +
      rule_yaml(rule_attention, "attention", "Attention, heads of 128,") + "devices:\n";
  for (const auto& [kind, gpu] : built_in_devices().devices) {
    if (gpu->processors == 0) continue;
    const std::string chip = same_chip(kind, of_products);
    KindText gemms = measured_text(of_products, chip, "products"),
             heads = measured_text(of_attention, chip, "attention");
    if (gemms.yaml.empty()) {
      const ProductNumbers best = as_best_product(rule.numbers, *gpu, folder);
      const bool is_rule = best.efficiency == rule.numbers.efficiency;
      gemms.add("default", is_rule ? "*products" : numbers_yaml(best),
                fmt::format("{}: products by the rule for other GPUs, error {} on one left out",
                            is_rule ? "unfitted" : "unfitted but for the best product, 1 row",
                            percent_text(mean_error(rule))));
      if (gpu->at(Precision::fp8).peak > FlopRate{})
        gemms.add("fp8", "*products_fp8", "fp8 likewise");
    } else if (chip != kind) {
      gemms.fitted = fmt::format("unfitted: numbers of {}", chip);
      heads.fitted.clear();
    }
    if (heads.yaml.empty())
      heads.add("128", "*attention",
                fmt::format("attention by the rule, error {} on one left out",
                            percent_text(mean_error(rule_attention))));
    const auto own = of_passes.find(kind);
    const PassNumbers pass = own == of_passes.end() ? of_passes.at("h100") : own->second;
    const std::string passed =
        own == of_passes.end()
            ? "other kernels as h100's"
            : fmt::format("other kernels {} rows, error {}", pass.rows, percent_text(pass.error));
    std::string passes;
    for (const auto& [group, share] : pass.passes)
      passes += fmt::format("{}{}: {:.2g}", passes.empty() ? "" : ", ", group, share);
    text += fmt::format(
        "  {}:\n    {}     products: {{\n       {}}},\n     attention: {{\n       {}}},\n"
        "     bandwidth_efficiency: {:.3g}, launch: {:.3g} us, passes: {{{}}},\n     fitted: "
        "\"{}{}{}; {}\",\n     "
        "source: \"{}\"}}\n",
        kind, data_sheet_yaml(*gpu), gemms.yaml, heads.yaml, pass.share, pass.launch, passes,
        gemms.fitted, heads.fitted.empty() ? "" : "; ", heads.fitted, passed, gpu->source);
  }
  return text + "  # End\n";
}

}  // namespace baechi::validate
