/// Which of Baechi's two published systems a placer of its family follows.
#pragma once
#include <cstdint>

#include "sim/options.h"

namespace baechi {

enum class Variant : std::uint8_t {
  standard,  ///< the paper's algorithm, as its TensorFlow system has it
  /// Its PyTorch system: any number of transfers at once, received copies take memory, nothing is
  /// freed before the step ends.
  pytorch,
};

inline Variant read_variant(Options& options) {
  const std::string name = options.get(
      "variant", {"standard", "pytorch"},
      "pytorch: as Baechi's PyTorch system plans: transfers in parallel, nothing ever freed");
  return name == "pytorch" ? Variant::pytorch : Variant::standard;
}

}  // namespace baechi
