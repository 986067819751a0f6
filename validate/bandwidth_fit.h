/// The mutual slowdown of ops that run at once, as demands on a memory of limited speed.
#pragma once
#include <vector>

#include "sim/cluster/calibration.h"
#include "validate/run_files.h"

namespace baechi::validate {

/// Fits Calibration::Bandwidth to the rows 'interference'. The capacity is the joint speed of
/// passes over memory that slow each other by more than 3 %. A kind's demand is the speed that it
/// takes from them, its sensitivity its slowdown over the pressure. Nothing (capacity 0) unless
/// neighbours were measured in several numbers, one of which saturates the memory. Nothing either
/// if `known`'s numbers per pair are closer to the rows than the fit, by the mean of absolute
/// errors.
Calibration::Bandwidth fit_bandwidth(const std::vector<Measurement>& rows,
                                     const Calibration& known);

}  // namespace baechi::validate
