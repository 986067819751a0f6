/// Which of Baechi's two published systems m_topo, m_etf and m_sct follow.
#pragma once
#include <cstdint>

#include "sim/options.h"

namespace baechi {

enum class Variant : std::uint8_t {
  standard,  ///< the paper's algorithm, as in Baechi's TensorFlow system
  /// Baechi's PyTorch system: any number of transfers run at once, received copies take memory,
  /// nothing is freed before the step ends.
  pytorch,
};

constexpr auto names_of(Variant) {
  return std::to_array<Named<Variant>>(
      {{Variant::standard, "standard"}, {Variant::pytorch, "pytorch"}});
}

inline Variant read_variant(Options& options) {
  return read_enum(
      options, "variant", Variant::standard,
      "pytorch: plan as Baechi's PyTorch system does: parallel transfers, no memory freed");
}

}  // namespace baechi
