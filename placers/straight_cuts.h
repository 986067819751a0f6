/// Placements that cut the order of a graph's forward ops into one stretch per device, as people
/// split models by hand.
#pragma once
#include <vector>

#include "sim/problem/problem.h"

namespace baechi {

/// Tries one placement: whether its step fits, and else the peaks of a step without limits.
class CutTrial {
 public:
  virtual ~CutTrial() = default;
  /// [num_devices] Nothing if the step fits.
  virtual IdVector<DeviceId, Bytes> excess_peaks(Placement placement) = 0;
};

/// Gives `trial` all placements of contiguous stretches, on devices in any order, if those have at
/// most `most` ops in total. Else those of the least sum of op and transfer times, by dynamic
/// programming over stretches and numbers of devices of each class, for three measures of memory;
/// where the step does not fit, again with less memory, in proportion to the peaks. An op of
/// another phase goes with its forward op.
void try_straight_cuts(const Problem& problem, std::size_t most, CutTrial& trial);

}  // namespace baechi
