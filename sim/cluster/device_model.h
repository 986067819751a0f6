/// The time of an op on a kind of device, from the op's work (a roofline).
#pragma once
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "sim/cluster/measured_kernels.h"
#include "sim/graph/op_graph.h"

namespace baechi {

/// Efficiency of kernels (achieved rate / peak rate) by kind of op. The efficiency of a kind holds
/// for all kinds that begin with its name, such as Conv2d for Conv2dBackward and
/// Conv2dBatchNormReLU. The longest matching name decides.
struct Efficiency {
  double other = 1.0;  ///< of kinds not below
  std::map<std::string, double, std::less<>> by_kind{};

  double of(std::string_view kind) const;
  static double of(std::string_view kind, const std::map<std::string, double, std::less<>>& by_kind,
                   double other);
};

/// Rates of a device for kernels of one number format.
struct Arithmetic {
  FlopRate peak{};  ///< 0: the device has no units for the format
  Efficiency efficiency{};
  double half_flops = 0.0;  ///< work of a kernel that reaches half of its share of the peak
  /// Instead of the roofline for kernels that are products of matrices.
  ProductNumbers products{};
};

/// A roofline (Williams et al., CACM 2009): each kernel of an op takes `launch` and the longer of
/// its arithmetic and its memory traffic, at its efficiency. A kernel of f flops reaches f / (f +
/// half_flops) of its efficiency, so its arithmetic takes (f + half_flops) / (peak x efficiency).
/// Traffic likewise with `half_traffic`. Kernels of a shape for which the device has measured
/// numbers take the time of sim/cluster/measured_kernels.h, unless an efficiency is told for their
/// kind of op.
struct DeviceModel {
  std::string name;
  std::array<Arithmetic, all<Precision>().size()> arithmetic{};  ///< by Precision
  Bandwidth bandwidth{};                                         ///< peak of the device's memory
  Bytes memory{};
  Duration launch{};                                    ///< time added to each kernel
  Duration no_kernel{};                                 ///< time of an op without kernels
  double bandwidth_efficiency = 1.0;                    ///< share of the bandwidth
  std::map<std::string, double, std::less<>> passes{};  ///< other shares, by kind of op as above
  /// The share of its efficiency that a product in 16 bits reaches if its rows have an odd number
  /// of numbers. Its root if they have an even one, and 16 does not divide their bytes.
  double unaligned = 1.0;
  Bytes half_traffic{};             ///< of a kernel that reaches half of that share
  std::int64_t processors = 0;      ///< SMs or CUs, where kernels were measured
  double compute_capability = 0.0;  ///< CUDA's; 0: not NVIDIA's, or unknown
  std::string
      framework{};  ///< the file of scenarios/frameworks/ whose kernels were measured; "": none's
  /// Fused attention in 16 bits by size of head: the numbers of the least size that is as large,
  /// else of the largest.
  std::map<std::int64_t, AttentionNumbers> attention{};
  Duration host_op{};    ///< the framework's host time for an op; not in op times
  Duration host_step{};  ///< and for a step besides
  std::string source;
  std::string fitted;  ///< what its numbers were fitted to, and the error on other rows

  Arithmetic& at(Precision p) { return arithmetic[static_cast<std::size_t>(p)]; }
  /// Where the device has no TF32 units, its FP32 units compute.
  const Arithmetic& at(Precision p) const;
};

/// What the device could do at most with kernels of that number format.
DeviceRates rates_of(const DeviceModel& model, Precision p);

/// The time of a kernel of an op of `kind` that runs alone, as in a benchmark, with its launch,
/// rounded up to a nanosecond; at most 146 years. The device has a peak in the kernel's number
/// format.
Duration kernel_time(const OpWork& kernel, const DeviceModel& model, std::string_view kind);

/// Time of every op of `graph` on such a device, which computes all the time and is at its limit of
/// power (ProductNumbers::sustained), rounded up to a nanosecond. [num_ops] Throws InputError if a
/// kernel's number format is not the device's, or a time is above 146 years.
IdVector<OpId, Duration> roofline_times(const OpGraph& graph, const DeviceModel& model);

}  // namespace baechi
