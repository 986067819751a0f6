/// A search for the numbers of measured kernels (sim/cluster/measured_kernels.h).
#pragma once
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/cluster/device_model.h"
#include "validate/published/kernel_files.h"

namespace baechi::validate {

template <class Numbers>
struct KernelRow {
  DeviceRates rates{};
  MatrixShape shape{};
  double traffic = 0.0;   ///< bytes
  double measured = 0.0;  ///< us
  double (*us)(const Numbers&, const DeviceRates&, const MatrixShape&, double traffic) = nullptr;

  double error(const Numbers& numbers) const {
    return us(numbers, rates, shape, traffic) / measured - 1.0;
  }
};

/// The numbers for which the mean of |log(simulated / measured)|, and the sum of |log(number /
/// start)| divided by the number of rows, is least, searched one at a time from `start`, where a
/// number that is 0 stays 0: few rows move the numbers little. Times are whole nanoseconds, other
/// numbers have three digits, as devices.yaml has them.
/// Products that take less than 2 ms are searched so, before the limit of power. What those of 10
/// ms and more keep of this rate, in the median, is `sustained`, if there are five or more.
template <class Numbers>
Numbers fitted_numbers(std::span<const KernelRow<Numbers>> rows, const Numbers& start);

/// Where the search begins, for a number format or a size of head. `cache`: the benchmark finds its
/// data in the cache of the device.
template <class Numbers>
Numbers first_numbers(const std::string& group, bool cache);

/// {efficiency: 0.8, launch: 2.3 us, ...}
template <class Numbers>
std::string numbers_yaml(const Numbers& numbers);

/// Kernels that are no products, as DeviceModel has them: launch + traffic / (bandwidth x share).
struct PassNumbers {
  double launch = 0.0;                     ///< us
  double share = 1.0;                      ///< of sums, which PyTorch computes, and of all others
  std::map<std::string, double> passes{};  ///< of an inference library's kernels, by kind of op
  std::size_t rows = 0;
  double error = 0.0;  ///< mean, fitted to the rows of other models

  double us(const MeasuredKernel& kernel, const DeviceModel& gpu) const;
};
/// The share of sums is that of those that no cache holds, 256 MB and more. A kind without any has
/// the share of the first kind by name that has some.
std::map<std::string, PassNumbers> fit_passes(std::span<const MeasuredKernel> passes);

}  // namespace baechi::validate
