/// The original's simulator of a placed graph, its "virtual scheduler", bit for bit.
#pragma once
#include <memory>
#include <span>

#include "sim/original/channels.h"
#include "sim/original/graph.h"
#include "sim/problem/step.h"

namespace baechi::original {

/// The result of a step, and the memory still in use on each device afterwards.
struct Step {
  StepResult result;
  IdVector<DeviceId, Bytes> final_memory;  ///< [num_devices]
};

/// One step of `graph` on `devices` devices. Ops are taken in order of (ready, Op::topo) from one
/// queue. Each starts when it is ready and its device is free. Its tensors are booked as it is
/// taken, for its readers in out-edge order (Q8, Q23: not in order of time).
/// Memory moves as ops are taken (Q23). Outputs and workspace come as an op starts, and workspace
/// goes at once. Outputs, except their persistent part, go as the last reader is taken (Q6).
/// Received copies take none (Q7).
/// `placement` covers the graph. `held`: memory in use on each device before the step; may be
/// negative (Q12: left there by the original's adjusters). [num_devices], or empty for none.
Step simulate(const Graph& graph, const IdVector<OpId, DeviceId>& placement, std::size_t devices,
              Log* log = nullptr, const IdVector<DeviceId, Bytes>& held = {});

/// simulate() for many placements of one graph. For one thread.
class Simulator {
 public:
  Simulator(const Graph& graph, std::size_t devices);  ///< `graph` outlives it
  ~Simulator();
  Simulator(Simulator&&) noexcept;

  /// The result is valid until the next call. Observers see a transfer from the start of its
  /// sending to the end of its receiving; a tensor that the device already has is not reported.
  const Step& run(const IdVector<OpId, DeviceId>& placement, Log* log,
                  std::span<StepObserver* const> observers,
                  const IdVector<DeviceId, Bytes>& held = {});

  class Simulation;

 private:
  std::unique_ptr<Simulation> simulation_;
};

}  // namespace baechi::original
