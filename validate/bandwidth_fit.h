/// What ops that run at once cost each other, as demands on a memory of limited speed.
#pragma once
#include <vector>

#include "sim/cluster/calibration.h"
#include "validate/run_files.h"

namespace baechi::validate {

/// Fits Calibration::Bandwidth to the rows 'interference'. The capacity is what passes over memory
/// move together where they slow each other by more than 3 %; a kind's demand is what it takes from
/// them, its sensitivity how much of the pressure it feels. Nothing (capacity 0) unless neighbours
/// were measured in several numbers, one of which saturates the memory, or if `known`'s numbers per
/// pair are closer to the rows than the fit, by the mean of absolute errors.
Calibration::Bandwidth fit_bandwidth(const std::vector<Measurement>& rows,
                                     const Calibration& known);

}  // namespace baechi::validate
