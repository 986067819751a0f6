/// Predictions of other models from the same measurements: calibrations to compare ours with.
#pragma once
#include <optional>
#include <vector>

#include "sim/cluster/calibration.h"
#include "validate/run_files.h"

namespace baechi::validate {

/// Baechi's procedure (SoCC'20, section 4.1) on these measurements: ops as profiled, transfers by
/// ordinary least squares of time on bytes, nothing else. A paced link's length is stated; its
/// latency is then the intercept of the time beyond this length. A transfer that was not measured
/// stays.
Calibration as_baechi(Calibration ours, const std::vector<Measurement>& rows);

/// A roofline by the datasheet: flops at the dense half-precision peak times the partition's part
/// of the multiprocessors, bytes at the whole memory's speed. Transfers take their stated time, or
/// as little as measured. Nothing for a GPU whose datasheet is not known: H100 (SXM), H200, A100
/// (80 GB) are known.
std::optional<Calibration> as_datasheet(Calibration ours);

}  // namespace baechi::validate
