/// The architecture of an accelerator, and its chip area. Source: Wang et al., "PHAZE", ICML 2024.
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

}  // namespace baechi
