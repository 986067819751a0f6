/// Op times on a device type, from the work of ops (a roofline).
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

/// Efficiency of kernels (achieved rate / peak rate) by kind of op. A kind applies to all kinds
/// that begin with its name, such as Conv2d to Conv2dBackward and Conv2dBatchNormReLU; the longest
/// matching name decides.
struct Efficiency {
  double other = 1.0;  ///< for kinds that by_kind does not match
  std::map<std::string, double, std::less<>> by_kind{};

  double of(std::string_view kind) const;
  static double of(std::string_view kind, const std::map<std::string, double, std::less<>>& by_kind,
                   double other);
};

/// Rates of a device for kernels of one dtype.
struct Arithmetic {
  FlopRate peak{};  ///< 0: the device does not support the dtype
  Efficiency efficiency{};
  double half_flops = 0.0;  ///< flops at which a kernel reaches half of its efficiency
  /// Replaces the roofline for GEMMs.
  ProductNumbers products{};
};

/// A roofline (Williams et al., CACM 2009): each kernel of an op takes `launch` plus the longer of
/// its arithmetic and its memory traffic, at its efficiency. A kernel of f flops reaches f / (f +
/// half_flops) of its efficiency, so its arithmetic takes (f + half_flops) / (peak x efficiency).
/// Traffic likewise with `half_traffic`. GEMMs and attention kernels take the time of
/// sim/cluster/measured_kernels.h if the device has such numbers, unless an efficiency is given for
/// their kind of op.
struct DeviceModel {
  std::string name;
  std::array<Arithmetic, all<Precision>().size()> arithmetic{};  ///< by Precision
  Bandwidth bandwidth{};                                         ///< peak memory bandwidth
  Bytes memory{};
  Duration launch{};                                    ///< time added to each kernel
  Duration no_kernel{};                                 ///< time of an op without kernels
  double bandwidth_efficiency = 1.0;                    ///< of memory-bound kernels
  std::map<std::string, double, std::less<>> passes{};  ///< the same by kind of op, as Efficiency
  /// Factor on the efficiency of a 16-bit GEMM with rows of odd length; its square root if the
  /// length is even but no multiple of 16 bytes.
  double unaligned = 1.0;
  Bytes half_traffic{};             ///< bytes at which a kernel reaches half of that efficiency
  std::int64_t processors = 0;      ///< SMs or CUs, if kernels were measured
  double compute_capability = 0.0;  ///< CUDA's; 0: not NVIDIA's, or unknown
  /// The file of scenarios/frameworks/ whose kernels were measured; "": none.
  std::string framework{};
  /// Fused 16-bit attention by head size: the smallest listed size that is not smaller, else the
  /// largest.
  std::map<std::int64_t, AttentionNumbers> attention{};
  Duration host_op{};    ///< the framework's host time per op; not in op times
  Duration host_step{};  ///< the framework's host time per step, in addition
  std::string source;
  std::string fitted;  ///< what its numbers were fitted to, and the error on held-out rows

  Arithmetic& at(Precision p) { return arithmetic[static_cast<std::size_t>(p)]; }
  /// TF32 falls back to FP32 on devices without TF32.
  const Arithmetic& at(Precision p) const;
};

/// The device's peak rates for that dtype.
DeviceRates rates_of(const DeviceModel& model, Precision p);

/// The time of one kernel of an op of `kind` running alone, as in a benchmark, including its
/// launch; rounded up to a nanosecond, at most 146 years. Requires a peak for the kernel's dtype.
Duration kernel_time(const OpWork& kernel, const DeviceModel& model, std::string_view kind);

/// Time of every op of `graph` on such a device under sustained load, at its power limit
/// (ProductNumbers::sustained); rounded up to a nanosecond. [num_ops] Throws InputError if the
/// device does not support a kernel's dtype, or a time is above 146 years.
IdVector<OpId, Duration> roofline_times(const OpGraph& graph, const DeviceModel& model);

}  // namespace baechi
