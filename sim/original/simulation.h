/// The original's simulator of a placed graph, its "virtual scheduler", bit for bit.
#pragma once
#include <memory>
#include <span>

#include "sim/original/channels.h"
#include "sim/original/graph.h"
#include "sim/problem/step.h"

namespace baechi::original {

/// StepResult's counts, and what is left on each device when all is done.
struct Step {
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
Step simulate(const Graph& graph, const IdVector<OpId, DeviceId>& placement, std::size_t devices,
              Log* log = nullptr, const IdVector<DeviceId, Bytes>& held = {});

/// The same for one placement of a graph after another. For one thread.
class Simulator {
 public:
  Simulator(const Graph& graph, std::size_t devices);  ///< `graph` outlives it
  ~Simulator();
  Simulator(Simulator&&) noexcept;

  /// Good until the next call. Observers see a transfer last from the start of its sending to the
  /// end of its receiving, and a tensor found on a device not at all.
  const Step& run(const IdVector<OpId, DeviceId>& placement, Log* log,
                  std::span<StepObserver* const> observers,
                  const IdVector<DeviceId, Bytes>& held = {});

  class Simulation;

 private:
  std::unique_ptr<Simulation> simulation_;
};

}  // namespace baechi::original
