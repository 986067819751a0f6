/// Calibrations as YAML files.
#pragma once
#include <string>
#include <string_view>

#include "sim/cluster/calibration.h"

namespace baechi {

std::string calibration_yaml(const Calibration& calibration);

/// Throws InputError with path:line:column, all mistakes at once, if the schema is another, a key
/// is unknown or missing, or a number is none.
Calibration parse_calibration(std::string_view text, const std::string& path);
Calibration read_calibration(const std::string& path);

}  // namespace baechi
