/// The architecture of an accelerator, its chip area, and op times on its cores. Source: Wang et
/// al., "PHAZE", ICML 2024; op times: our closed-form model in place of the mapper (Sunstone) that
/// it uses.
#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "sim/units.h"

namespace baechi {

struct Accelerator {
  std::int64_t tensor_cores = 1;  ///< each an array of width x depth multipliers
  std::int64_t vector_cores = 1;  ///< each of `width` lanes
  std::int64_t width = 1, depth = 1;
  Bytes buffer{};  ///< on-chip, shared by all cores

  friend auto operator<=>(const Accelerator&, const Accelerator&) = default;
};

/// "8 x 128x128 + 2 x 128 + 128 MiB".
std::string to_text(const Accelerator& a);

/// The area of each part, in um2.
struct AreaTable {
  std::map<std::int64_t, double> tensor_core{};  ///< by multipliers: width x depth
  std::map<std::int64_t, double> vector_core{};  ///< by lanes: width
  std::map<Bytes, double> buffer{};

  /// tensor_cores T(width depth) + vector_cores V(width) + B(buffer); nothing if one of these is
  /// not in the table.
  std::optional<double> area(const Accelerator& a) const;
};

/// The work of one op: GEMMs on tensor cores, anything else on vector cores.
struct CoreOp {
  std::int64_t count = 0;  ///< independent GEMMs [m, k] x [k, n]; 0: a vector op
  std::int64_t m = 0, k = 0, n = 0;
  std::int64_t passes = 0;  ///< vector op: passes over `elements` numbers
  std::int64_t elements = 0;
  std::int64_t words = 0;  ///< vector op: numbers read and written

  bool is_gemm() const { return count > 0; }
  friend bool operator==(const CoreOp&, const CoreOp&) = default;
};

/// Rates common to all accelerators of a search.
struct AcceleratorRates {
  double clock = 1e9;  ///< cycles per second
  Bandwidth memory{};  ///< off-chip
  Bytes word{2};       ///< size of one number
};

struct CoreCost {
  std::int64_t cores = 0;   ///< cores used, of its pool
  std::int64_t cycles = 0;  ///< of each of these cores
  Bytes traffic{};          ///< off-chip
  Duration time{};          ///< the longer of compute and traffic, rounded up
};

/// GEMMs are weight-stationary: a core holds a tile of width x depth weights, and m rows stream
/// through it in m + width + depth cycles. The ceil(k / width) ceil(n / depth) tiles of all GEMMs
/// are distributed over the tensor cores in rounds; the fewest cores that need no more rounds are
/// used. Traffic per GEMM is m k + k n + m n numbers if these fit the buffer; else each tile reads
/// its rows and writes its partial sums: m k ceil(n / depth) + k n + m n ceil(k / width).
/// A vector op takes ceil(elements / (width vector_cores)) cycles per pass. Its traffic is `words`.
CoreCost core_cost(const CoreOp& op, const Accelerator& a, const AcceleratorRates& rates);

}  // namespace baechi
