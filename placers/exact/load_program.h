/// The largest device load as a mixed integer program.
#pragma once
#include "placers/exact/placement_program.h"

namespace baechi::exact {

/// The splits that are allowed, and the load to minimise.
struct LoadRules {
  bool contiguous = false;  ///< a device's forward ops: no path leaves it and comes back
  bool apart = false;       ///< minimise the largest forward load plus the largest other load
};

/// Splits of `bundles` whose busiest device has a load of at most `below` - `step`. The objective
/// is that load (or, `apart`, the sum of the two largest), in thousandths of `below`.
///
/// A whole column x[bundle, device] in 0..1; y[net, accelerator], 1 if some but not all pins of the
/// net are there. If `contiguous`, z[op, device] for ops of Phase::forward is 0 once a path has
/// left the device, so that no path comes back. Rows that are not in the paper hold for every
/// wanted split and tighten the relaxation:
/// - a bundle too long or too heavy for a device is not there;
/// - of the n longest bundles a device takes at most the number that the shortest of them allow;
/// - of bundles on one path, each two with too much work between them, a device takes one;
/// - of equal devices, each begins (by bundle id) after the one before it.
/// Source: Tarnawski et al., NeurIPS 2020, integer program for throughput.
struct LoadProgram : PlacementProgram {};
LoadProgram load_program(const Problem& problem, const Bundles& bundles,
                         const std::vector<DeviceClass>& classes, Duration below, Duration step,
                         LoadRules rules);

/// Whether on each device no path between two ops of Phase::forward leaves the device. Paths go
/// through ops of Phase::forward.
bool is_contiguous(const Problem& problem, const Placement& placement);

}  // namespace baechi::exact
