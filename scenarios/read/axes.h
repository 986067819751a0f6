/// Axes to points: every combination of the values a sweep names.
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

/// `visit`s every combination of `axes`, all below the key `name`, put into `block`; the last axis
/// varies fastest. Without axes, the block itself. An axis that replaces what another reaches into
/// is put first, wherever it stands. Ends early if `visit` returns false.
/// Throws InputError where a key leads nowhere (see put()).
void for_each_combination(const std::string& name, const Options::Value& block,
                          std::span<const Axis> axes,
                          const std::function<bool(const Options::Value&)>& visit);

/// Their number; at most `most` + 1.
std::size_t count_combinations(std::span<const Axis> axes, std::size_t most);

}  // namespace baechi
