/// A bit-exact reimplementation of the original's simulator, its "virtual scheduler".
#pragma once
#include <memory>
#include <span>

#include "sim/original/channels.h"
#include "sim/original/graph.h"
#include "sim/problem/step.h"

namespace baechi::original {

/// The result of a step, and the memory in use on each device afterwards.
struct Step {
  StepResult result;
  IdVector<DeviceId, Bytes> final_memory;  ///< [num_devices]
};

/// One step of `graph` on `devices` devices. Ops are popped from one queue in order of (ready,
/// Op::topo). Each starts when it is ready and its device is free. Its tensors are booked when it
/// is popped, for its readers in out-edge order (Q8, Q23: not in order of time). Memory changes
/// when ops are popped (Q23). Outputs and workspace are allocated when an op starts, and workspace
/// is freed at once. Outputs, except their persistent part, are freed when the last reader is
/// popped (Q6). Received copies take no memory (Q7). `placement` covers the graph. `held`: memory
/// in use on each device before the step; may be negative (Q12: left by the original's adjusters).
/// [num_devices], or empty for none.
Step simulate(const Graph& graph, const IdVector<OpId, DeviceId>& placement, std::size_t devices,
              Log* log = nullptr, const IdVector<DeviceId, Bytes>& held = {});

/// simulate() for many placements of one graph. Not thread-safe.
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
