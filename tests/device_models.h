/// Parts of kinds of devices that several tests make.
#pragma once
#include "sim/cluster/device_model.h"

namespace baechi::testing {

/// Peak and efficiency of a device that are the same in every number format.
inline std::array<Arithmetic, all<Precision>().size()> in_every_format(const Arithmetic& one) {
  std::array<Arithmetic, all<Precision>().size()> same;
  same.fill(one);
  return same;
}

}  // namespace baechi::testing
