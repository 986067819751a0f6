/// The lower bounds that `baechi bound` prints, each with its name and its meaning.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "sim/problem/problem.h"

namespace baechi::bounds {

struct NamedBound {
  std::string_view name, key, meaning;  ///< `key`: in JSON
  Duration time{};
};

/// All lower bounds on one objective, the quickly computed ones first.
struct NamedBounds {
  std::vector<NamedBound> all;

  Duration best() const;
  std::string_view binding() const;  ///< the name of the largest; ties: the first
};

/// Bounds on the step time. `quick`: those of the problem.
NamedBounds step_bounds(const LowerBounds& quick, const Problem& problem);

/// Bounds on the largest load. A time limit adds the bound that an integer program proves within
/// it.
NamedBounds load_bounds(const LowerBounds& quick, const Problem& problem,
                        std::optional<Duration> time_limit);

}  // namespace baechi::bounds
