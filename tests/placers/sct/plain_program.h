/// m-SCT's linear program without any reduction, for comparison.
#pragma once
#include <vector>

#include "placers/sct/favourite_child.h"

namespace baechi::testing {

/// The program exactly as the paper has it, nothing left out, and the three objectives one after
/// the other: w; then, w being fixed, the kept communication; then, that being fixed, the
/// preference.
std::vector<double> canonical_x_the_long_way(const SctGraph& g);

}  // namespace baechi::testing
