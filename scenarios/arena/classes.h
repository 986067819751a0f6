/// Which placer when: the arena's instances by their size, memory, links and devices.
#pragma once
#include <string>
#include <vector>

#include "scenarios/arena/known.h"

namespace baechi {

/// How a placer did on some instances.
struct ClassScore {
  std::size_t solved = 0;
  double ratio = 0.0;  ///< geometric mean of step time / best known where it has a step; 0: nowhere
};

struct ArenaClass {
  std::string name;                ///< "301 to 1000 ops"
  std::size_t instances = 0;       ///< with a best known value
  std::vector<ClassScore> scores;  ///< of the placers asked for
};

/// Classes by ops, memory over the least, link and devices, in this order. An instance is in one
/// class of each; duels are in the classes of ops alone. Classes without instances are left out.
std::vector<ArenaClass> arena_classes(const Arena& arena, const std::vector<std::string>& placers);

}  // namespace baechi
