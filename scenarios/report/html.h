/// Results as one HTML page that needs no network.
#pragma once
#include <string>

#include "scenarios/results/overview.h"

namespace baechi {

/// For each graph a table of placers against the points of the sweep, charts of step time and peak
/// memory along each axis, and the steps that have a picture. With very many runs it contains only
/// the first ones, and says so.
std::string to_html(const Overview& overview);
std::string to_html(const Results& results);

}  // namespace baechi
