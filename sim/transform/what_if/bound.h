/// The bound of each op, for selection in rules: compute, memory or host.
#pragma once
#include "sim/cluster/bound.h"
#include "sim/transform/what_if/step.h"

namespace baechi::what_if {

/// [num_ops] By work on the first device with a known model (sim/cluster/bound.h). Without work or
/// model: host in a lane of the host, compute for compute_bound_kinds(), else memory.
IdVector<OpId, Bound> bounds_of(const Scope& scope);

}  // namespace baechi::what_if
