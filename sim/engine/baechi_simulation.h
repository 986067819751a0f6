/// The original's simulator of a placed graph, its "virtual scheduler", bit for bit.
#pragma once
#include <span>

#include "sim/engine/baechi_channels.h"
#include "sim/engine/baechi_graph.h"
#include "sim/engine/simulation.h"

namespace baechi {

/// StepResult's counts, and what is left on each device when all is done.
struct BaechiStep {
  StepResult result;
  IdVector<DeviceId, Bytes> final_memory;  ///< [num_devices]
};

/// One step of `graph` on `devices` devices. Ops are taken in order of (ready, Op::topo) from one
/// queue; each starts when it is ready and its device is free, and its tensors are booked as it is
/// taken, for its readers in out-edge order (Q8, Q23: not in order of time). Memory moves as ops
/// are taken (Q23): outputs and workspace come as an op starts, workspace goes at once, outputs but
/// for their persistent part go as the last reader is taken (Q6); received copies take none (Q7).
/// `placement` covers the graph. `held`: what is on each device before the step, perhaps less than
/// nothing (Q12: what the original's adjusters leave there); [num_devices], or empty for nothing.
BaechiStep simulate_baechi(const BaechiGraph& graph, const IdVector<OpId, DeviceId>& placement,
                           std::size_t devices, BaechiLog* log = nullptr,
                           const IdVector<DeviceId, Bytes>& held = {});

/// The same of a Problem: what simulate() does under Semantics::baechi. Of engine options none but
/// `semantics` matters; no memory limit is enforced. Observers see a transfer last from the start
/// of its sending to the end of its receiving, and a tensor found on a device not at all. Throws
/// InputError if the cluster is not uniform (BaechiGraph::from).
StepResult simulate_baechi(const Problem& problem, const Placement& placement,
                           std::span<StepObserver* const> observers);

}  // namespace baechi
