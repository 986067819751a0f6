/// The bound of each op that rules may select: compute, memory or host.
#pragma once
#include "sim/cluster/bound.h"
#include "sim/transform/what_if/step.h"

namespace baechi::what_if {

/// [num_ops] By work on the first device whose model is known (sim/cluster/bound.h). Ops without
/// work or without a model: host in a lane of the host, else by the kind. A kind that names a
/// convolution, a matrix product or the like is compute, any other memory.
IdVector<OpId, Bound> bounds_of(const Scope& scope);

}  // namespace baechi::what_if
