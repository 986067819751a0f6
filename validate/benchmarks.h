/// The micro-benchmarks that a calibration is made of.
#pragma once
#include <vector>

#include "validate/executor.h"

namespace baechi::validate {

/// All micro-benchmarks of FORMATS.md on as many devices as the machine has partitions, each
/// `rounds` times.
std::vector<Measurement> run_benchmarks(Executor& executor, int rounds);

}  // namespace baechi::validate
