/// The combinations of the values of a sweep.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sim/options.h"

namespace baechi {

struct Axis {
  std::string key;  ///< dotted, from the root: "cluster.memory_fraction"
  std::vector<Options::Value> values;
};

/// Calls `visit` with every variant of `section`, whose key is `name`: one for each combination of
/// the values of `axes`, the last axis varying fastest; without axes, `section` itself. Shorter
/// keys are put first, so that "cluster" does not undo "cluster.link". Ends early if `visit`
/// returns false. Throws InputError if a key does not exist (see put()).
void for_each_combination(const std::string& name, const Options::Value& section,
                          std::span<const Axis> axes,
                          const std::function<bool(const Options::Value&)>& visit);

/// The number of combinations, or `most` + 1 if there are more than `most`.
std::size_t count_combinations(std::span<const Axis> axes, std::size_t most);

}  // namespace baechi
