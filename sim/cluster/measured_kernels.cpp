#include "sim/cluster/measured_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace baechi {
namespace {

constexpr double depth = 64.0;  // sums of a step

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

/// The length of two things that partly overlap.
double together(double a, double b, double overlap) {
  if (a < b) std::swap(a, b);
  return b <= 0.0 ? a : a * std::pow(1.0 + std::pow(b / a, overlap), 1.0 / overlap);
}

double moved(double bytes, double per_us, double cache, double cached) {
  const double in_cache = std::min(bytes, cache);
  return (bytes - in_cache + in_cache / cached) / per_us;
}

/// The time with the fastest tiles and parts.
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
    const double beside = x.tile + x.tile_area * tile.area();
    for (const double parts : splits) {
      if (parts > 1.0 && k < 2.0 * depth * parts) break;
      double waves = number * parts / rates.processors;
      waves = waves > 1.0 ? (1.0 - x.streaming) * std::ceil(waves) + x.streaming * waves : 1.0;
      double us = waves * (std::ceil(steps / parts) * step + beside);
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
      {"efficiency", &N::efficiency, number, 0.01, 1.0, "share of the peak within a tile"},
      {"bandwidth", &N::bandwidth, number, 0.01, 1.0, "share of the memory's bandwidth"},
      {"overlap", &N::overlap, number, 0.5, 20.0, "of tiles and traffic; 1: none"},
      {"streaming", &N::streaming, number, 0.0, 1.0, "1: the last wave takes its share of a wave"},
      {"launch", &N::launch, us, 0.0, 1000.0, "of a product"},
      {"tile", &N::tile, us, 0.0, 1000.0, "of each tile, beside its sums"},
      {"tile_area", &N::tile_area, us, 0.0, 1000.0, "the same for each 128 x 128 of the tile"},
      {"split", &N::split, us, 0.0, 1000.0, "of a product whose sums are split"},
      {"step", &N::step, us, 0.0, 1000.0, "that 64 sums of a tile take at least"},
      {"split_bandwidth", &N::split_bandwidth, number, 1e-3, 1e6, "with which parts are added up"},
      {"quantise", &N::quantise, number, 0.0, 100.0, "bytes moved per number of the left matrix"},
      {"cache", &N::cache, bytes, 0.0, 1e9, "traffic that a benchmark finds in the cache"},
      {"cached", &N::cached, number, 1.0, 100.0, "how much faster this is"},
      {"sustained", &N::sustained, number, 0.1, 1.0, "share of the rate at the limit of power"},
      {"settled", &N::settled, us, 0.0, 1e6, "that a product takes which a benchmark has there"}};
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
      {"efficiency", &N::efficiency, number, 0.01, 1.0, "share of the peak, in products"},
      {"exponential", &N::exponential, us, 0.0, 1000.0, "of 128 x 128 scores"},
      {"tile", &N::tile, us, 0.0, 1000.0, "of each block of 128 queries"},
      {"launch", &N::launch, us, 0.0, 1000.0, "of an attention"},
      {"uneven", &N::uneven, number, 0.5, 20.0, "of the longest block and all; 1: one by one"},
      {"traffic", &N::traffic, number, 0.0, 100.0, "how often inputs and outputs are moved"},
      {"cache", &N::cache, bytes, 0.0, 1e9, "traffic that a benchmark finds in the cache"},
      {"cached", &N::cached, number, 1.0, 100.0, "how much faster this is"}};
  return table;
}

double product_us(const ProductNumbers& x, const DeviceRates& rates, const MatrixShape& shape,
                  double traffic) {
  const double memory = moved(traffic, rates.bytes * x.bandwidth, x.cache, x.cached);
  const double left = static_cast<double>(shape.count) * static_cast<double>(shape.rows) *
                      static_cast<double>(shape.inner);
  const double tiles = tiles_us(x, rates, shape);
  const double limited = x.settled > 0.0 ? std::min(1.0, tiles / x.settled) : 1.0;
  const double longer = 1.0 + limited * (1.0 / x.sustained - 1.0);
  return x.launch + together(tiles * longer, memory, x.overlap) + x.quantise * left / rates.bytes;
}

double attention_us(const AttentionNumbers& x, const DeviceRates& rates, const MatrixShape& shape,
                    double traffic) {
  constexpr double block = 128.0, grain = 16.0;
  const auto rounded = [](std::int64_t n, double to) {
    return std::ceil(static_cast<double>(n) / to) * to;
  };
  const double heads = static_cast<double>(shape.count) / 2.0;
  const double rows = rounded(shape.rows, grain), keys = rounded(shape.inner, grain);
  const bool causal = shape.kind == MatrixKind::causal_attention;
  // A causal block of rows reads the keys up to its last row.
  const double pairs = causal && rows > block ? keys * (rows + block) / 2.0 : rows * keys;
  const double pair =
      4.0 * static_cast<double>(shape.columns) * rates.processors / (rates.flops * x.efficiency) +
      x.exponential / (block * block);
  const double all = heads * (pairs * pair + rounded(shape.rows, block) / block * x.tile);
  const double longest = std::min(rows, block) * keys * pair + x.tile;
  return x.launch + together(all / rates.processors, longest, x.uneven) +
         x.traffic * moved(traffic, rates.bytes, x.cache, x.cached);
}

}  // namespace baechi
