/// Says whether a run is what Semantics::event promises, from what it told its observer. Shares no
/// code with the engine, and is written to be believed rather than to be fast.
#pragma once
#include <string>
#include <vector>

#include "sim/engine/simulation.h"

namespace baechi::testing {

/// An op that ran, or a tensor that crossed.
struct Work {
  bool is_transfer = false;
  OpId op{};          ///< that ran; of a transfer: the tensor's producer
  TensorId tensor{};  ///< of a transfer
  DeviceId src{};     ///< of an op: where it ran, as dst
  DeviceId dst{};
  TimePoint start{}, end{};
};

struct MemoryReport {
  DeviceId device{};
  MemoryUse use{};
  TimePoint at{};
};

/// All that a run told, in its order, and what it returned.
struct RecordedRun {
  std::vector<Work> work;
  std::vector<MemoryReport> memory;
  StepResult result;
};

RecordedRun record(const Problem& problem, const Placement& placement);

/// What is wrong with `run` as the outcome of simulate(problem, placement); empty if nothing. Later
/// checks presuppose earlier ones, so the list ends with the first kind of check that found faults:
///
/// Each piece of work: every op once, on its device, for its time; every transfer between the right
///   devices, for its time, one per (tensor, reading device) with cache, one per edge without.
/// Together: ops after their inputs, transfers after their producers; no two ops on a device, no
///   two transfers on a channel, without overlap no op while its device moves a tensor.
/// Order: in every round of an instant exactly that starts what must, in the order told.
/// Memory: at every instant the sum of the lifetimes that cover it, by kind; equal to what was
///   told, to the peaks, and to the verdict if there is one; nothing but weights at the end.
/// Totals: busy + idle = makespan, bytes, counts; makespan no less than work and longest path.
std::vector<std::string> faults(const Problem& problem, const Placement& placement,
                                const RecordedRun& run);

}  // namespace baechi::testing
