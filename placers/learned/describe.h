/// What a policy's network is told of each unit, and what several ways tell it of devices.
#pragma once
#include <vector>

#include "sim/units.h"

namespace baechi::learned {

class Environment;

/// [bundles, unit_feature_names] Asks `environment` for its problem, bundles and able devices.
std::vector<double> unit_features(const Environment& environment);

/// What is left of a device's memory, from 0 to 1; 0 where there is none.
double free_share(Bytes left, Bytes limit);

}  // namespace baechi::learned
