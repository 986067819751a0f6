/// Results as one HTML page that opens without a network.
#pragma once
#include <string>

#include "scenarios/run/results.h"

namespace baechi {

/// Per graph a table, placers against the points of the sweep, and charts of the step time against
/// the memory fraction (without one, against the axis that varies fastest).
std::string to_html(const Results& results);

}  // namespace baechi
