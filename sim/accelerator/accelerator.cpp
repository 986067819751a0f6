#include "sim/accelerator/accelerator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/units.h"

namespace baechi {

std::string to_text(const Accelerator& a) {
  return fmt::format("{} x {}x{} + {} x {} + {}", a.tensor_cores, a.width, a.depth, a.vector_cores,
                     a.width, to_text(a.buffer));
}

std::optional<double> AreaTable::area(const Accelerator& a) const {
  const auto t = tensor_core.find(a.width * a.depth);
  const auto v = vector_core.find(a.width);
  const auto b = buffer.find(a.buffer);
  if (t == tensor_core.end() || v == vector_core.end() || b == buffer.end()) return std::nullopt;
  return static_cast<double>(a.tensor_cores) * t->second +
         static_cast<double>(a.vector_cores) * v->second + b->second;
}

namespace {

/// `parts` equal parts on at most `most` cores: rounds, and the fewest cores for so many rounds.
struct Rounds {
  std::int64_t rounds = 0, cores = 0;
};
Rounds distribute(std::int64_t parts, std::int64_t most) {
  const std::int64_t rounds = std::max<std::int64_t>(1, ceil_div(parts, most));
  return {.rounds = rounds, .cores = std::max<std::int64_t>(1, ceil_div(parts, rounds))};
}

CoreCost gemm_cost(const CoreOp& op, const Accelerator& a, const AcceleratorRates& rates) {
  const std::int64_t across = ceil_div(op.k, a.width), along = ceil_div(op.n, a.depth);
  const Rounds tiles = distribute(op.count * across * along, a.tensor_cores);
  const std::int64_t weights = op.k * op.n;
  const std::int64_t once = op.m * op.k + weights + op.m * op.n;
  const bool fits = once * rates.word.count <= a.buffer.count;
  const std::int64_t words = fits ? once : op.m * op.k * along + weights + op.m * op.n * across;
  return {.cores = tiles.cores,
          .cycles = tiles.rounds * (op.m + a.width + a.depth),
          .traffic = Bytes{op.count * words * rates.word.count}};
}

CoreCost vector_cost(const CoreOp& op, const Accelerator& a, const AcceleratorRates& rates) {
  const Rounds lanes = distribute(ceil_div(op.elements, a.width), a.vector_cores);
  return {.cores = lanes.cores,
          .cycles = op.elements == 0 ? 0 : op.passes * lanes.rounds,
          .traffic = Bytes{op.words * rates.word.count}};
}

}  // namespace

CoreCost core_cost(const CoreOp& op, const Accelerator& a, const AcceleratorRates& rates) {
  CoreCost cost = op.is_gemm() ? gemm_cost(op, a, rates) : vector_cost(op, a, rates);
  const double seconds =
      std::max(static_cast<double>(cost.cycles) / rates.clock,
               static_cast<double>(cost.traffic.count) / rates.memory.bytes_per_second);
  cost.time = Duration{static_cast<std::int64_t>(std::ceil(seconds * 1e9))};
  return cost;
}

}  // namespace baechi
