/// What a calibration was fitted to, how well, and which of its numbers no machine can have.
#pragma once
#include <string>
#include <vector>

#include "sim/cluster/calibration.h"

namespace baechi::validate {

/// A fitted number, or a fitted line or table.
struct Fit {
  std::string what;   ///< "graph link: occupancy"
  std::string value;  ///< "310 ns (290 to 330)", "4 sizes, 16384 to 1048576, a line"
  std::string
      error;  ///< "worst residual 2.1 %, size left out 3.0 %"; "" where the interval says it
  std::string wrong;  ///< why it makes no sense; "" if it does
};

/// A number makes no sense if its whole interval is below 0; a line, if it falls; a table, if an
/// entry is 1 ns or less; ops, if a size that was left out is off by more than a quarter.
std::vector<Fit> fits_of(const Calibration& calibration);

}  // namespace baechi::validate
