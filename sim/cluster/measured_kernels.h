/// Kernel time models with measured numbers: GEMMs by tiles and waves, fused attention by blocks of
/// rows. `baechi validate fit kernels` fits the numbers.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

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

}  // namespace baechi
