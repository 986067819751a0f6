/// A placer decides which device runs each op.
#pragma once
#include <cstdint>

#include "sim/cluster/placement.h"

namespace baechi {

class Placer {
 public:
  virtual ~Placer() = default;
  /// Every op gets a device; a colocation group gets one (but for `adjust: none`). Same problem and
  /// seed, same placement. Const and without shared state: may be called from several threads at
  /// once. Throws InfeasibleError if it finds no placement within the devices' memory.
  virtual Placement place(const Problem& problem, std::uint64_t seed) const = 0;
};

}  // namespace baechi
