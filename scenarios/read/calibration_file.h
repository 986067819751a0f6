/// Calibrations as YAML files.
#pragma once

#include "sim/cluster/calibration.h"

namespace baechi {

std::string calibration_yaml(const Calibration& calibration);

/// Throws InputError with path:line:column and all mistakes at once: another schema, a key that is
/// unknown or missing, a value that is no number.
Calibration parse_calibration(std::string_view text, const std::string& path);
Calibration read_calibration(const std::string& path);

}  // namespace baechi
