/// Times of kernels as they were measured: matrix products by tiles and waves, fused attention by
/// blocks of rows. `baechi validate fit kernels` fits the numbers.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "sim/graph/op_graph.h"

namespace baechi {

/// What a device could do at most. Times are in microseconds.
struct DeviceRates {
  double flops = 0.0;       ///< per us, of the number format
  double bytes = 0.0;       ///< per us, of the memory
  double processors = 1.0;  ///< of the device that compute a tile each (SMs, CUs)
};

/// Matrix products of one number format. A product is cut into tiles of 64 x 32 to 256 x 256, and
/// its sums into up to 32 parts ("split-k"). Tiles run in waves over the processors:
///   waves x (sums of 64 each x a step + tile + tile_area x area / 128^2) + split, if it is split
/// and the library takes the tiles and parts that are fastest. Memory works beside it:
///   launch + (tiles^overlap + traffic^overlap)^(1 / overlap) + quantise
/// A device at its limit of power lowers its clock: a product that a benchmark repeats for long
/// enough computes at `sustained` of the rate of a short one. Products of `settled` and more do,
/// shorter ones in proportion to their time.
struct ProductNumbers {
  double efficiency = 0.0;  ///< share of the peak within a tile; 0: no numbers
  double bandwidth = 1.0;   ///< share of the memory's bandwidth
  double overlap = 3.0;     ///< 1: tiles and traffic one after the other
  double streaming = 0.0;   ///< 0: the last wave takes as long as a full one; 1: its share
  double launch = 0.0, tile = 0.0, tile_area = 0.0, split = 0.0;  ///< us
  double step = 0.0;             ///< us that 64 sums of a tile take at least
  double split_bandwidth = 1.0;  ///< with which the parts' sums are written and added up
  double quantise = 0.0;         ///< bytes moved for each number of the left matrix, before
  /// The first `cache` bytes of the traffic are `cached` times as fast: a benchmark finds them in
  /// the cache.
  double cache = 0.0, cached = 1.0;
  double sustained = 1.0;  ///< share of the rate that is left at the limit of power
  double settled = 0.0;    ///< us

  /// The numbers of products in a step that computes all the time: every one is at the limit.
  ProductNumbers under_load() const;
};

/// Fused attention of one size of head. A block of 128 queries goes over the keys; blocks share the
/// processors evenly, and none takes less than the longest:
///   launch + ((all / processors)^uneven + longest^uneven)^(1 / uneven) + traffic
struct AttentionNumbers {
  double efficiency = 0.0;   ///< share of the peak, in products
  double exponential = 0.0;  ///< us for 128 x 128 scores
  double tile = 0.0;         ///< us for each block of queries
  double launch = 0.0;       ///< us
  double uneven = 1.5;
  double traffic = 1.0;              ///< how often q, k, v and the output are moved
  double cache = 0.0, cached = 1.0;  ///< as ProductNumbers has them
};

/// A number as a kind of device says it: its key, its unit and its limits.
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

/// Microseconds of a kernel of the filled `shape` that moves `traffic` bytes.
double product_us(const ProductNumbers& x, const DeviceRates& rates, const MatrixShape& shape,
                  double traffic);
double attention_us(const AttentionNumbers& x, const DeviceRates& rates, const MatrixShape& shape,
                    double traffic);

}  // namespace baechi
