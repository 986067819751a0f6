#include "validate/fit/kernel_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "scenarios/read/device_table.h"

namespace baechi::validate {
namespace {

std::span<const MeasuredNumber<ProductNumbers>> fields_of(const ProductNumbers&) {
  return product_numbers();
}
std::span<const MeasuredNumber<AttentionNumbers>> fields_of(const AttentionNumbers&) {
  return attention_numbers();
}

/// What the search changes: not the limit of power, which long products alone know.
std::span<const MeasuredNumber<ProductNumbers>> searched_of(const ProductNumbers&) {
  constexpr std::size_t of_limit = 2;  // sustained, settled: the last
  return product_numbers().first(product_numbers().size() - of_limit);
}
std::span<const MeasuredNumber<AttentionNumbers>> searched_of(const AttentionNumbers&) {
  return attention_numbers();
}

std::string text_of(double value, NumberUnit unit) {
  switch (unit) {
    case NumberUnit::us:
      return fmt::format("{:.0f} ns", 1e3 * value);
    case NumberUnit::bytes:
      return fmt::format("{:.3g} MB", value / 1e6);
    case NumberUnit::number:
      break;
  }
  return fmt::format("{:.3g}", value);
}

double as_printed(double value, NumberUnit unit) {
  if (unit == NumberUnit::us) return std::round(1e3 * value) / 1e3;
  if (unit == NumberUnit::bytes) return 1e6 * std::stod(fmt::format("{:.3g}", value / 1e6));
  return std::stod(fmt::format("{:.3g}", value));
}

template <class Numbers>
double loss_of(std::span<const KernelRow<Numbers>> rows, const Numbers& numbers,
               const Numbers& start) {
  double sum = 0.0;
  for (const KernelRow<Numbers>& row : rows) sum += std::abs(std::log1p(row.error(numbers)));
  for (const auto& field : searched_of(start))
    if (start.*field.member > 0.0)
      sum += std::abs(std::log(numbers.*field.member / start.*field.member));
  return sum / static_cast<double>(rows.size());
}

using PassRows = std::vector<const MeasuredKernel*>;
constexpr std::string_view sums = "Add";

double pass_us(const MeasuredKernel& kernel, const DeviceModel& gpu, double launch, double share) {
  return launch + static_cast<double>(kernel.work.traffic.count) * 1e6 /
                      (gpu.bandwidth.bytes_per_second * share);
}

/// The share of 0.30 to 1.00 for which the sum of |log(simulated / measured)| is least, and the
/// sum.
std::pair<double, double> best_share(const PassRows& rows, const DeviceModel& gpu, double launch) {
  std::pair<double, double> best{1.0, std::numeric_limits<double>::infinity()};
  for (int share = 30; share <= 100; share += 2) {
    double sum = 0.0;
    for (const MeasuredKernel* row : rows)
      sum += std::abs(std::log(pass_us(*row, gpu, launch, share / 100.0) / row->us));
    if (sum < best.second) best = {share / 100.0, sum};
  }
  return best;
}

/// A launch of 0.5 to 6 us, and the share of each group with it. `share`: of sums, if none of them
/// is larger than the caches.
PassNumbers fitted_passes(const PassRows& rows, const DeviceModel& gpu, double share) {
  constexpr Bytes uncached{256'000'000};
  std::map<std::string, PassRows> groups;
  PassRows large;
  for (const MeasuredKernel* row : rows) {
    groups[row->group].push_back(row);
    if (row->group == sums && row->work.traffic >= uncached) large.push_back(row);
  }
  PassNumbers best;
  double least = 0.0;
  for (int quarter = 2; quarter <= 24; ++quarter) {
    PassNumbers at{.launch = quarter / 4.0, .share = share, .rows = rows.size()};
    if (!large.empty()) at.share = best_share(large, gpu, at.launch).first;
    double sum = 0.0;
    for (const auto& [group, members] : groups) {
      if (group == sums) {
        for (const MeasuredKernel* row : members)
          sum += std::abs(std::log(pass_us(*row, gpu, at.launch, at.share) / row->us));
        continue;
      }
      const auto [reached, loss] = best_share(members, gpu, at.launch);
      at.passes[group] = reached;
      sum += loss;
    }
    if (best.rows != 0 && sum >= least) continue;
    least = sum;
    best = at;
  }
  return best;
}

}  // namespace

double PassNumbers::us(const MeasuredKernel& kernel, const DeviceModel& gpu) const {
  const auto own = passes.find(kernel.group);
  return pass_us(kernel, gpu, launch, own == passes.end() ? share : own->second);
}

namespace {

template <class Numbers>
Numbers searched_numbers(std::span<const KernelRow<Numbers>> rows, const Numbers& start) {
  constexpr int sweeps = 20;
  const auto fields = searched_of(start);
  std::vector<double> step(fields.size(), 0.2);  // of logarithms
  Numbers best = start;
  double least = loss_of(rows, best, start);
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const auto& field = fields[i];
      const double at = best.*field.member;
      if (at == 0.0) continue;
      bool better = false;
      for (const double way : {step[i], -step[i]}) {
        if (better) break;
        Numbers next = best;
        next.*field.member =
            std::clamp(at * std::exp(way), std::max(field.least, 1e-3), field.most);
        if (const double loss = loss_of(rows, next, start); loss < least - 1e-6) {
          best = next;
          least = loss;
          better = true;
        }
      }
      step[i] *= better ? 1.5 : 0.5;
    }
  }
  for (const auto& field : fields) best.*field.member = as_printed(best.*field.member, field.unit);
  return best;
}

}  // namespace

template <>
AttentionNumbers fitted_numbers(std::span<const KernelRow<AttentionNumbers>> rows,
                                const AttentionNumbers& start) {
  return searched_numbers(rows, start);
}

template <>
ProductNumbers fitted_numbers(std::span<const KernelRow<ProductNumbers>> rows,
                              const ProductNumbers& start) {
  constexpr double brief = 2000.0, settled = 10'000.0;  // us
  std::vector<KernelRow<ProductNumbers>> shorter;
  for (const auto& row : rows)
    if (row.measured < brief) shorter.push_back(row);
  ProductNumbers unlimited = start;
  unlimited.sustained = ProductNumbers{}.sustained;
  unlimited.settled = 0.0;
  ProductNumbers numbers = searched_numbers<ProductNumbers>(shorter, unlimited);
  std::vector<double> left;
  for (const auto& row : rows)
    if (row.measured >= settled) left.push_back(1.0 + row.error(numbers));
  constexpr std::size_t fewest = 5;
  if (left.size() < fewest) return numbers;
  const auto median = left.begin() + std::ssize(left) / 2;
  std::ranges::nth_element(left, median);
  if (*median >= 1.0) return numbers;
  numbers.sustained = as_printed(*median, NumberUnit::number);
  numbers.settled = settled;
  return numbers;
}

template <>
ProductNumbers first_numbers(const std::string& group, bool cache) {
  ProductNumbers x{.efficiency = 0.8,
                   .bandwidth = 0.8,
                   .overlap = 3.0,
                   .streaming = 0.5,
                   .launch = 2.2,
                   .tile = 0.5,
                   .tile_area = 0.3,
                   .split = 2.9,
                   .step = 0.085,
                   .split_bandwidth = 1.3};
  if (group != "bf16") {
    x.launch = 12.0;
    x.quantise = 8.0;
  }
  if (cache) x.cache = 2e7, x.cached = 2.0;
  return x;
}

template <>
AttentionNumbers first_numbers(const std::string&, bool cache) {
  return {.efficiency = 0.7,
          .exponential = 0.3,
          .tile = 1.0,
          .launch = 10.0,
          .uneven = 1.5,
          .traffic = 3.0,
          .cache = cache ? 5e7 : 0.0,
          .cached = cache ? 4.0 : 1.0};
}

template <class Numbers>
std::string numbers_yaml(const Numbers& numbers) {
  std::string text;
  for (const auto& field : fields_of(numbers))
    if (numbers.*field.member != Numbers{}.*field.member)
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", field.key,
                          text_of(numbers.*field.member, field.unit));
  return "{" + text + "}";
}

std::map<std::string, PassNumbers> fit_passes(std::span<const MeasuredKernel> passes) {
  std::map<std::string, std::vector<const MeasuredKernel*>> of_kind;
  for (const MeasuredKernel& pass : passes) of_kind[pass.kind].push_back(&pass);
  std::map<std::string, PassNumbers> numbers;
  for (const auto& [kind, rows] : of_kind) {
    const DeviceModel& gpu = *built_in_devices().devices.at(kind);
    const double share = numbers.empty() ? 1.0 : numbers.begin()->second.share;
    PassNumbers fitted = fitted_passes(rows, gpu, share);
    std::set<std::string> models;
    for (const MeasuredKernel* row : rows) models.insert(row->key);
    for (const std::string& model : models) {
      std::vector<const MeasuredKernel*> others;
      for (const MeasuredKernel* row : rows)
        if (row->key != model) others.push_back(row);
      if (others.empty()) continue;
      const PassNumbers without = fitted_passes(others, gpu, share);
      for (const MeasuredKernel* row : rows)
        if (row->key == model)
          fitted.error +=
              std::abs(without.us(*row, gpu) / row->us - 1.0) / static_cast<double>(rows.size());
    }
    numbers[kind] = fitted;
  }
  return numbers;
}

template std::string numbers_yaml(const ProductNumbers&);
template std::string numbers_yaml(const AttentionNumbers&);

}  // namespace baechi::validate
