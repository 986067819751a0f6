/// Costs averaged over a cluster, for placers that rank ops before they know their devices.
#pragma once
#include "sim/problem/problem.h"

namespace baechi {

/// The mean of each op's time over the devices that can run it, rounded down. [num_ops]
IdVector<OpId, Duration> mean_compute(const Problem& problem);

/// The mean over the ordered pairs of devices of each tensor's transfer, rounded down; 0 if there
/// is one device. Pairs with equal links are taken to have equal transfers. [num_tensors]
IdVector<TensorId, Duration> mean_transfer(const Problem& problem);

}  // namespace baechi
