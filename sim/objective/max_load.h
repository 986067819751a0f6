/// The load of each device per sample while a pipeline runs.
#pragma once
#include "sim/problem/problem.h"

namespace baechi {

struct DeviceLoad {
  Duration forward{};   ///< time of forward ops, and of moving the tensors they write
  Duration backward{};  ///< time of all other ops and tensors
  Duration total() const { return forward + backward; }
};

/// A core's load is the time of its ops. An accelerator's is the time of its ops and, through host
/// memory, of each tensor it writes that is read elsewhere (once, however many readers) and each it
/// reads that is written elsewhere (once); computing and moving do not overlap. A tensor's time is
/// mean_transfer's. [num_devices]
/// Source: Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators",
/// NeurIPS 2020. Differs: links need not be equal; an op may write several tensors.
IdVector<DeviceId, DeviceLoad> device_loads(const Problem& problem, const Placement& placement);

}  // namespace baechi
