/// m-SCT's linear program without any reduction, for comparison.
#pragma once

#include "placers/sct/favourite_child.h"

namespace baechi::testing {

/// Solves the program exactly as in the paper, with the three objectives one after the other: w;
/// with w fixed, the communication paid; with that fixed, the preference.
std::vector<double> canonical_x_the_long_way(const SctGraph& g);

}  // namespace baechi::testing
