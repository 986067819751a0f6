/// A step's timeline as SVG.
#pragma once
#include <string>
#include <string_view>

#include "sim/report/timeline.h"

namespace baechi {

/// Two rows per device: ops and sends, with names where they fit. `until`: the end of the time
/// axis, to give several pictures one scale; at least the step's length.
std::string step_svg(const Problem& problem, const Timeline& timeline, std::string_view title,
                     Duration until);

}  // namespace baechi
