/// Op times on a device type, from the work of ops: a roofline, and kernel time models with
/// measured numbers, GEMMs by tiles and waves, fused attention by blocks of rows. `baechi validate
/// fit kernels` fits the numbers.
#pragma once
#include <map>

#include "sim/graph/op_graph.h"

namespace baechi {

/// Peak rates of a device; times are in microseconds.
struct DeviceRates {
  double flops = 0.0;       ///< per us, of the dtype
  double bytes = 0.0;       ///< per us, of device memory
  double processors = 1.0;  ///< SMs or CUs, each of which computes a tile at a time
};

/// GEMMs of one dtype. The output is cut into tiles of 64 x 32 to 256 x 256, and k into up to 32
/// parts (split-k). Tiles run in waves over the processors:
///   waves x (k-steps of 64 x step time + tile + tile_area x area / 128^2) + split, if split
/// and the library picks the fastest tile and split. Memory traffic overlaps:
///   launch + (tiles^overlap + traffic^overlap)^(1 / overlap) + quantise
/// At its power limit a device lowers its clock: a GEMM that a benchmark repeats for long enough
/// runs at `sustained` of the rate of a short one. GEMMs of `settled` us and more do so fully,
/// shorter ones in proportion to their time.
struct ProductNumbers {
  double efficiency = 0.0;  ///< fraction of the peak within a tile; 0: no numbers
  double bandwidth = 1.0;   ///< fraction of the memory bandwidth
  double overlap = 3.0;     ///< exponent of the overlap of tiles and traffic; 1: serial
  double streaming = 0.0;   ///< 0: a partial last wave costs a full one; 1: its fraction
  double launch = 0.0, tile = 0.0, tile_area = 0.0, split = 0.0;  ///< us
  double step = 0.0;             ///< least time of a k-step of 64, in us
  double split_bandwidth = 1.0;  ///< fraction of the bandwidth for split-k partial sums
  double quantise = 0.0;         ///< bytes moved per number of the left matrix, to convert it
  /// The first `cache` bytes of the traffic are `cached` times as fast: they hit the cache in a
  /// benchmark.
  double cache = 0.0, cached = 1.0;
  double sustained = 1.0;  ///< fraction of the rate that is left at the power limit
  double settled = 0.0;    ///< us
  /// The numbers of GEMMs in a step under sustained load: every one is at the power limit.
  ProductNumbers under_load() const;
};

/// Fused attention of one head size. Blocks of 128 queries iterate over the keys and are spread
/// evenly over the processors, but the time is at least that of the longest block:
///   launch + ((all / processors)^uneven + longest^uneven)^(1 / uneven) + traffic
struct AttentionNumbers {
  double efficiency = 0.0;   ///< fraction of the peak, in GEMMs
  double exponential = 0.0;  ///< us for 128 x 128 scores
  double tile = 0.0;         ///< us per block of queries
  double launch = 0.0;       ///< us
  double uneven = 1.5;
  double traffic = 1.0;              ///< how often q, k, v and the output are moved
  double cache = 0.0, cached = 1.0;  ///< as in ProductNumbers
};

/// Products of at most `most_rows` rows in 16 bits, as a decoded token's, read their weights once:
///   launch + traffic / (share of the bandwidth)
/// More rows take no less, but for the launch of measured products. Shares are of weights in 16
/// bits and in about 4, between 7 and 16 bits in proportion; more rows of weights in few bits,
/// which the kernel unpacks, run at `unpacked` of a product's speed. Without shares few rows are as
/// others. Source: llama.cpp's kernels.
struct GemvNumbers {
  static constexpr std::int64_t most_rows = 8;
  double fp16 = 0.0, q4 = 0.0, unpacked = 1.0;
};

/// A number of a device type: its YAML key, unit and limits.
enum class NumberUnit : std::uint8_t { number, us, bytes };
template <class Numbers>
struct MeasuredNumber {
  std::string_view key;
  double Numbers::* member;
  NumberUnit unit = NumberUnit::number;
  double least = 0.0, most = 0.0;
  std::string_view help;
};
std::span<const MeasuredNumber<ProductNumbers>> product_numbers();
std::span<const MeasuredNumber<AttentionNumbers>> attention_numbers();

/// Microseconds of a kernel that moves `traffic` bytes; `shape` has no 0 (MatrixShape::filled).
double product_us(const ProductNumbers& x, const DeviceRates& rates, const MatrixShape& shape,
                  double traffic);
double attention_us(const AttentionNumbers& x, const DeviceRates& rates, const MatrixShape& shape,
                    double traffic);

/// Values by kind of op. A kind applies to all kinds that begin with its name, such as Conv2d to
/// Conv2dBackward and Conv2dBatchNormReLU; the longest matching name decides.
template <class Value>
using ByKind = std::map<std::string, Value, std::less<>>;
template <class Value>
const Value& value_of(std::string_view kind, const ByKind<Value>& by_kind, const Value& other) {
  // Prefixes of `kind` sort before it, longer ones last.
  for (auto it = by_kind.upper_bound(kind); it != by_kind.begin();) {
    --it;
    if (kind.starts_with(it->first)) return it->second;
  }
  return other;
}

/// Efficiency of kernels (achieved rate / peak rate).
struct Efficiency {
  double other = 1.0;  ///< for kinds that by_kind does not match
  ByKind<double> by_kind{};

  double of(std::string_view kind) const { return value_of(kind, by_kind, other); }
};

/// Memory-bound kernels of one kind of op: launch + bytes / rate. Up to `cache` bytes the rate is
/// `cached` of the memory's bandwidth, from twice of them `bandwidth_efficiency`; between them the
/// fraction of the bytes that the cache holds falls linearly from 1 to 0.
struct MemoryBoundNumbers {
  double bandwidth_efficiency = 1.0;
  double launch = -1.0;  ///< us; below 0: the device's
  double cache = 0.0, cached = 1.0;

  /// Of `bytes`: seconds at a bandwidth of 1 byte per second.
  double traffic(double bytes) const;
};

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
/// sim/cluster/device_model.h if the device has such numbers, unless an efficiency is given for
/// their kind of op.
struct DeviceModel {
  std::string name;
  std::array<Arithmetic, all<Precision>().size()> arithmetic{};  ///< by Precision
  Bandwidth bandwidth{};                                         ///< peak memory bandwidth
  Bytes memory{};
  Duration launch{};                    ///< time added to each kernel
  Duration no_kernel{};                 ///< time of an op without kernels
  double bandwidth_efficiency = 1.0;    ///< of memory-bound kernels
  ByKind<MemoryBoundNumbers> passes{};  ///< by kind of op, instead of `bandwidth_efficiency`
  /// Factor on the efficiency of a 16-bit GEMM with rows of odd length; its square root if the
  /// length is even but no multiple of 16 bytes.
  double unaligned = 1.0;
  Bytes half_traffic{};             ///< bytes at which a kernel reaches half of that efficiency
  ByKind<double> half_by_kind{};    ///< factors on half_flops by kind of op
  std::int64_t processors = 0;      ///< SMs or CUs, if kernels were measured
  double compute_capability = 0.0;  ///< CUDA's; 0: not NVIDIA's, or unknown
  /// The file of scenarios/frameworks/ whose kernels were measured; "": none.
  std::string framework{};
  /// Fused 16-bit attention by head size: the smallest listed size that is not smaller, else the
  /// largest.
  std::map<std::int64_t, AttentionNumbers> attention{};
  GemvNumbers gemv{};
  /// Share of the bandwidth at which attention of at most GemvNumbers::most_rows tokens reads keys
  /// and values; 0: as attention of more.
  double attention_decode = 0.0;
  Duration host_op{};    ///< the framework's host time per op; not in op times
  Duration host_step{};  ///< the framework's host time per step, in addition
  std::string source;
  std::string fitted;  ///< what its numbers were fitted to, and the error on held-out rows

  Arithmetic& at(Precision p) { return arithmetic[static_cast<std::size_t>(p)]; }
  /// TF32 falls back to FP32 on devices without TF32.
  const Arithmetic& at(Precision p) const;
};

DeviceRates rates_of(const DeviceModel& model, Precision p);

/// The time of one kernel of an op of `kind` running alone, as in a benchmark, including its
/// launch; rounded up to a nanosecond, at most 146 years. Requires a peak for the kernel's dtype.
Duration kernel_time(const OpWork& kernel, const DeviceModel& model, std::string_view kind);

/// Time of every op of `graph` on such a device under sustained load, at its power limit
/// (ProductNumbers::sustained); rounded up to a nanosecond. [num_ops] Throws InputError if the
/// device does not support a kernel's dtype, or a time is above 146 years.
IdVector<OpId, Duration> roofline_times(const OpGraph& graph, const DeviceModel& model);

enum class Bound : std::uint8_t { compute, memory, host };
constexpr auto names_of(Bound) {
  return std::to_array<Named<Bound>>({{Bound::compute, "compute", "its arithmetic"},
                                      {Bound::memory, "memory", "the bytes it reads and writes"},
                                      {Bound::host, "host", "its launches, or it runs there"}});
}

/// The largest of arithmetic, traffic and launches on the device, each summed over the kernels of
/// `op`. Ties: compute, then memory. An op without kernels: host.
Bound bound_by_work(const OpGraph& graph, OpId op, const DeviceModel& model);

}  // namespace baechi
