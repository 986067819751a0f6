/// Fits a calibration to micro-benchmarks.
#pragma once
#include <string>
#include <vector>

#include "sim/cluster/calibration.h"
#include "validate/run_files.h"

namespace baechi::validate {

/// Gaps: trimmed means. Transfers: latency + bytes / speed on relative residuals of the medians per
/// size, or a table if a size is off by more than 10 %; their hold on the queue comes from
/// transfers in a row. Ops: a line, or a table if a size left out is off by more than 3 %. All with
/// 95 % bootstrap intervals. The calibration lacks everything that was not measured.
/// `path` is for messages. Throws InputError if there are no gaps, or a row makes no sense.
Calibration calibrate(const Machine& machine, const std::vector<Measurement>& measurements,
                      const std::string& path);

}  // namespace baechi::validate
