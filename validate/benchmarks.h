/// The micro-benchmarks that a calibration is made of.
#pragma once
#include <vector>

#include "sim/watch.h"
#include "validate/executor.h"

namespace baechi::validate {

/// All micro-benchmarks of FORMATS.md on as many devices as the machine has partitions, each
/// `rounds` times. `watch` counts rounds.
std::vector<Measurement> run_benchmarks(Executor& executor, int rounds, const Watch& watch = {});

}  // namespace baechi::validate
