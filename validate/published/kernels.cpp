#include <fmt/format.h>

#include "scenarios/read/device_table.h"
#include "validate/published/kernel_files.h"
#include "validate/published/published.h"

namespace baechi::validate {
namespace {

/// What the kind of device says of each kernel, as of an op that runs it alone.
void compare_kernels_alone(const std::vector<MeasuredKernel>& kernels, bool by_work,
                           Comparison& all) {
  for (const MeasuredKernel& kernel : kernels) {
    const DeviceModel& gpu = *built_in_devices().devices.at(kernel.kind);
    const auto bytes = static_cast<double>(kernel.work.traffic.count);
    const std::string group = fmt::format("{} {}", kernel.kind, kernel.group);
    all.rows.push_back({.what = kernel.what,
                        .group = group,
                        .measured = kernel.us,
                        .simulated = to_us(kernel_time(kernel.work, gpu, kernel.group)),
                        .work = by_work ? static_cast<double>(kernel.work.flops) : bytes,
                        .alike = group,
                        .size = bytes,
                        .lines = {kernel.line}});
  }
}

}  // namespace

std::optional<Comparison> compare_kernels(const std::string& folder) {
  Comparison all;
  const auto products = measured_products(folder, all.left);
  if (all.left.files.empty()) return std::nullopt;
  compare_kernels_alone(products, true, all);
  return all;
}

std::optional<Comparison> compare_passes(const std::string& folder) {
  Comparison all;
  const auto passes = measured_passes(folder, all.left);
  if (all.left.files.empty()) return std::nullopt;
  compare_kernels_alone(passes, false, all);
  return all;
}

std::optional<Comparison> compare_attention(const std::string& folder) {
  Comparison all;
  const auto attention = measured_attention(folder, all.left);
  if (all.left.files.empty()) return std::nullopt;
  compare_kernels_alone(attention, true, all);
  return all;
}

}  // namespace baechi::validate
