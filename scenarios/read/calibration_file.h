/// Calibrations as files of YAML.
#pragma once
#include <string>
#include <string_view>

#include "sim/cluster/calibration.h"

namespace baechi {

std::string calibration_yaml(const Calibration& calibration);

/// Throws InputError with path:line:column, all mistakes at once: another schema, a key that is not
/// known or missing, a number that is none.
Calibration parse_calibration(std::string_view text, const std::string& path);
Calibration read_calibration(const std::string& path);

}  // namespace baechi
