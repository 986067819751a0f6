#include <cmath>

#include "sim/cluster/device_model.h"

namespace baechi {
namespace {

constexpr double depth = 64.0;  // k per k-step

struct Tile {
  double rows, columns;
  double area() const { return rows * columns / (128.0 * 128.0); }
};
constexpr std::array<Tile, 11> tiles{{{64, 32},
                                      {128, 32},
                                      {64, 64},
                                      {128, 64},
                                      {64, 128},
                                      {128, 128},
                                      {64, 256},
                                      {256, 64},
                                      {128, 256},
                                      {256, 128},
                                      {256, 256}}};
constexpr std::array<double, 10> splits{1, 2, 3, 4, 6, 8, 12, 16, 24, 32};

/// The time of two activities that partly overlap.
double overlapped(double a, double b, double overlap) {
  if (a < b) std::swap(a, b);
  return b <= 0.0 ? a : a * std::pow(1.0 + std::pow(b / a, overlap), 1.0 / overlap);
}

double traffic_us(double bytes, double per_us, double cache, double cached) {
  const double in_cache = std::min(bytes, cache);
  return (bytes - in_cache + in_cache / cached) / per_us;
}

/// The time with the fastest tile and split.
double tiles_us(const ProductNumbers& x, const DeviceRates& rates, const MatrixShape& shape) {
  const auto count = static_cast<double>(shape.count), m = static_cast<double>(shape.rows),
             n = static_cast<double>(shape.columns), k = static_cast<double>(shape.inner);
  const double steps = std::ceil(k / depth);
  const double parts_us = count * m * n * 4.0 / (rates.bytes * x.split_bandwidth);
  double fastest = std::numeric_limits<double>::infinity();
  for (const Tile& tile : tiles) {
    const double number = count * std::ceil(m / tile.rows) * std::ceil(n / tile.columns);
    const double work = tile.rows * tile.columns * 2.0 * depth * rates.processors;
    const double step = std::max(work / (rates.flops * x.efficiency), x.step);
    const double per_tile = x.tile + x.tile_area * tile.area();
    for (const double parts : splits) {
      if (parts > 1.0 && k < 2.0 * depth * parts) break;
      double waves = number * parts / rates.processors;
      waves = waves > 1.0 ? (1.0 - x.streaming) * std::ceil(waves) + x.streaming * waves : 1.0;
      double us = waves * (std::ceil(steps / parts) * step + per_tile);
      if (parts > 1.0) us += x.split + parts * parts_us;
      fastest = std::min(fastest, us);
    }
  }
  return fastest;
}

}  // namespace

std::span<const MeasuredNumber<ProductNumbers>> product_numbers() {
  using N = ProductNumbers;
  using enum NumberUnit;
  static constexpr MeasuredNumber<N> table[] = {
      {"efficiency", &N::efficiency, number, 0.01, 1.0, "fraction of the peak within a tile"},
      {"bandwidth", &N::bandwidth, number, 0.01, 1.0, "fraction of the memory bandwidth"},
      {"overlap", &N::overlap, number, 0.5, 20.0, "overlap of tiles and traffic; 1: none"},
      {"streaming", &N::streaming, number, 0.0, 1.0, "1: a partial last wave costs its fraction"},
      {"launch", &N::launch, us, 0.0, 1000.0, "launch time of a GEMM"},
      {"tile", &N::tile, us, 0.0, 1000.0, "time per tile in addition to its k-steps"},
      {"tile_area", &N::tile_area, us, 0.0, 1000.0, "the same per 128 x 128 of the tile"},
      {"split", &N::split, us, 0.0, 1000.0, "extra time of a split-k GEMM"},
      {"step", &N::step, us, 0.0, 1000.0, "least time of a k-step of 64"},
      {"split_bandwidth", &N::split_bandwidth, number, 1e-3, 1e6,
       "fraction of the bandwidth for split-k partial sums"},
      {"quantise", &N::quantise, number, 0.0, 100.0, "bytes moved per number of the left matrix"},
      {"cache", &N::cache, bytes, 0.0, 1e9, "traffic that hits the cache in a benchmark"},
      {"cached", &N::cached, number, 1.0, 100.0, "how much faster cached traffic is"},
      {"sustained", &N::sustained, number, 0.1, 1.0, "fraction of the rate at the power limit"},
      {"settled", &N::settled, us, 0.0, 1e6, "GEMM time from which a benchmark is at this limit"}};
  return table;
}

ProductNumbers ProductNumbers::under_load() const {
  ProductNumbers loaded = *this;
  loaded.settled = 0.0;
  return loaded;
}

std::span<const MeasuredNumber<AttentionNumbers>> attention_numbers() {
  using N = AttentionNumbers;
  using enum NumberUnit;
  static constexpr MeasuredNumber<N> table[] = {
      {"efficiency", &N::efficiency, number, 0.01, 1.0, "fraction of the peak, in GEMMs"},
      {"exponential", &N::exponential, us, 0.0, 1000.0, "softmax time of 128 x 128 scores"},
      {"tile", &N::tile, us, 0.0, 1000.0, "time per block of 128 queries"},
      {"launch", &N::launch, us, 0.0, 1000.0, "launch time of an attention kernel"},
      {"uneven", &N::uneven, number, 0.5, 20.0, "overlap of longest block and all; 1: none"},
      {"traffic", &N::traffic, number, 0.0, 100.0, "how often inputs and outputs are moved"},
      {"cache", &N::cache, bytes, 0.0, 1e9, "traffic that hits the cache in a benchmark"},
      {"cached", &N::cached, number, 1.0, 100.0, "how much faster cached traffic is"}};
  return table;
}

double product_us(const ProductNumbers& x, const DeviceRates& rates, const MatrixShape& shape,
                  double traffic) {
  const double memory = traffic_us(traffic, rates.bytes * x.bandwidth, x.cache, x.cached);
  const double left = static_cast<double>(shape.count) * static_cast<double>(shape.rows) *
                      static_cast<double>(shape.inner);
  const double tiles = tiles_us(x, rates, shape);
  const double limited = x.settled > 0.0 ? std::min(1.0, tiles / x.settled) : 1.0;
  const double throttled = 1.0 + limited * (1.0 / x.sustained - 1.0);
  return x.launch + overlapped(tiles * throttled, memory, x.overlap) +
         x.quantise * left / rates.bytes;
}

double attention_us(const AttentionNumbers& x, const DeviceRates& rates, const MatrixShape& shape,
                    double traffic) {
  constexpr double block = 128.0, grain = 16.0;
  const auto round_up = [](std::int64_t n, double to) {
    return std::ceil(static_cast<double>(n) / to) * to;
  };
  const double heads = static_cast<double>(shape.count) / 2.0;
  const double rows = round_up(shape.rows, grain), keys = round_up(shape.inner, grain);
  const bool causal = shape.kind == MatrixKind::causal_attention;
  // With causal masking a block of rows reads the keys up to its last row.
  const double pairs = causal && rows > block ? keys * (rows + block) / 2.0 : rows * keys;
  const double pair =
      4.0 * static_cast<double>(shape.columns) * rates.processors / (rates.flops * x.efficiency) +
      x.exponential / (block * block);
  const double all = heads * (pairs * pair + round_up(shape.rows, block) / block * x.tile);
  const double longest = std::min(rows, block) * keys * pair + x.tile;
  return x.launch + overlapped(all / rates.processors, longest, x.uneven) +
         x.traffic * traffic_us(traffic, rates.bytes, x.cache, x.cached);
}

}  // namespace baechi
