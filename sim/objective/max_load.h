/// The load of each device per sample of a pipeline.
#pragma once
#include "sim/problem/problem.h"

namespace baechi {

struct DeviceLoad {
  Duration forward{};   ///< forward ops and transfers of the tensors that they write
  Duration backward{};  ///< all other ops and transfers
  Duration total() const { return forward + backward; }
};

/// A core's load is the time of its ops. An accelerator's load also includes one transfer, through
/// host memory, of each tensor that it writes and others read, and of each tensor that it reads and
/// others write; computation and transfers do not overlap. Transfer times: mean_transfer().
/// [num_devices]
/// Source: Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators",
/// NeurIPS 2020. Differs: links need not be equal; an op may write several tensors.
IdVector<DeviceId, DeviceLoad> device_loads(const Problem& problem, const Placement& placement);

}  // namespace baechi
