/// Device models for several tests.
#pragma once
#include "sim/cluster/device_model.h"

namespace baechi::testing {

/// A device with the same peak and efficiency for every dtype.
inline std::array<Arithmetic, all<Precision>().size()> in_every_format(const Arithmetic& one) {
  std::array<Arithmetic, all<Precision>().size()> same;
  same.fill(one);
  return same;
}

}  // namespace baechi::testing
