/// Scores of placers by class of instances: their size, memory, links and devices.
#pragma once

#include "scenarios/arena/known.h"

namespace baechi {

/// The results of a placer on some instances.
struct ClassScore {
  std::size_t solved = 0;
  double ratio = 0.0;  ///< geometric mean of step time / best known where it has a step; 0: no step
};

struct ArenaClass {
  std::string name;                ///< "301 to 1000 ops"
  std::size_t instances = 0;       ///< with a best known value
  std::vector<ClassScore> scores;  ///< of the requested placers
};

/// Classes by ops, memory over the least, link and devices, in this order. An instance is in one
/// class of each; instances of duels are only in the classes of ops. Classes without instances are
/// omitted.
std::vector<ArenaClass> arena_classes(const Arena& arena, const std::vector<std::string>& placers);

}  // namespace baechi
