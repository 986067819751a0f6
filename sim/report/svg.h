/// A step as a picture that any browser opens: SVG.
#pragma once
#include <string>
#include <string_view>

#include "sim/report/timeline.h"

namespace baechi {

/// A row for the ops of each device, and a row for its transfers. Ops and tensors are named where
/// there is room. `until`: the end of the time axis, so that two pictures have one scale; at least
/// the step's length.
std::string step_svg(const Problem& problem, const Timeline& timeline, std::string_view title,
                     Duration until);

}  // namespace baechi
