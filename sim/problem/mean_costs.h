/// Costs averaged over a cluster, for placers that rank ops before placing them.
#pragma once
#include "sim/problem/problem.h"

namespace baechi {

/// The mean of each op's time over the devices that can run it, rounded down. [num_ops]
IdVector<OpId, Duration> mean_compute(const Problem& problem);

/// The mean of each tensor's transfer time over the ordered pairs of devices, rounded down; 0 with
/// one device. Pairs with equal links are assumed to have equal times. [num_tensors]
IdVector<TensorId, Duration> mean_transfer(const Problem& problem);

}  // namespace baechi
