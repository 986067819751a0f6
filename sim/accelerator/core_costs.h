/// How long an accelerator's cores take for an op: a model of our own, in closed form, in place of
/// the mapper (Sunstone) that PHAZE asks.
#pragma once
#include <cstdint>

#include "sim/accelerator/accelerator.h"

namespace baechi {

/// Work of a core: a product of matrices on a tensor core, anything else on a vector core.
struct CoreOp {
  std::int64_t count = 0;  ///< independent products of [m, k] by [k, n]; 0: no products
  std::int64_t m = 0, k = 0, n = 0;
  std::int64_t passes = 0;  ///< of a vector op, over `elements` numbers
  std::int64_t elements = 0;
  std::int64_t words = 0;  ///< numbers that a vector op reads and writes

  bool products() const { return count > 0; }
  friend bool operator==(const CoreOp&, const CoreOp&) = default;
};

/// Rates that all accelerators of a search share.
struct AcceleratorRates {
  double clock = 1e9;  ///< cycles per second
  Bandwidth memory{};  ///< of the memory beside the chip
  Bytes word{2};       ///< of one number
};

struct CoreCost {
  std::int64_t cores = 0;   ///< that it takes, of its pool
  std::int64_t cycles = 0;  ///< of them
  Bytes traffic{};          ///< with the memory beside the chip
  Duration time{};          ///< the longer of its cycles and its traffic, rounded up
};

/// Products are weight-stationary: a core holds a tile of width x depth weights, and m rows stream
/// through it in m + width + depth cycles. The ceil(k / width) ceil(n / depth) tiles of all
/// products are dealt out to the tensor cores. A core that would be idle in the last round is left
/// to other ops if fewer cores take no more rounds. Traffic is m k + k n + m n numbers a product if
/// these fit the buffer. Else each tile reads its rows and writes its sums: m k ceil(n / depth) + k
/// n + m n ceil(k / width).
/// A vector op takes ceil(elements / (width vector_cores)) cycles a pass. Its traffic is `words`.
CoreCost core_cost(const CoreOp& op, const Accelerator& a, const AcceleratorRates& rates);

}  // namespace baechi
