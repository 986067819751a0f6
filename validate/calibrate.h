/// Fits a calibration to micro-benchmarks.
#pragma once

#include "validate/run_files.h"

namespace baechi::validate {

/// Gaps: trimmed means. Transfers: latency + bytes / speed on relative residuals of the medians per
/// size, or a table if a size is off by more than 10 %; their hold on the queue comes from
/// transfers in a row. Ops: a line, or a table if a size left out is off by more than 3 %. All with
/// 95 % bootstrap intervals. The calibration lacks everything that was not measured.
/// `path` is for messages. Throws InputError if there are no gaps, or a row makes no sense.
Calibration calibrate(const Machine& machine, const std::vector<Measurement>& measurements,
                      const std::string& path);

/// The calibration in `file` or, for "", in calibration.yaml of the run's folder or, if that has
/// none, the one of the run's own measurements.
Calibration calibration_of(const ValidationRun& run, const std::string& folder,
                           const std::string& file);

/// Fits Calibration::Bandwidth to the rows 'interference'. The capacity is the joint speed of
/// passes over memory that slow each other by more than 3 %. A kind's demand is the speed that it
/// takes from them, its sensitivity its slowdown over the pressure. Nothing (capacity 0) unless
/// neighbours were measured in several numbers, one of which saturates the memory. Nothing either
/// if `known`'s numbers per pair are closer to the rows than the fit, by the mean of absolute
/// errors.
Calibration::Bandwidth fit_bandwidth(const std::vector<Measurement>& rows,
                                     const Calibration& known);

}  // namespace baechi::validate
