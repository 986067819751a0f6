/// What a policy's network is told of each unit.
#pragma once
#include <vector>

namespace baechi::learned {

class Environment;

/// [blocks, unit_feature_names] Asks `environment` for its problem, blocks and able devices.
std::vector<double> unit_features(const Environment& environment);

}  // namespace baechi::learned
