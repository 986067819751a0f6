/// Checks whether a run keeps the contract of Semantics::event, from the run's reports to its
/// observer. Shares no code with the engine; written for simplicity, not for speed.
#pragma once

#include "sim/engine/simulation.h"

namespace baechi::testing {

/// An op that ran, or a tensor that was transferred.
struct Work {
  bool is_transfer = false;
  OpId op{};          ///< the op that ran; for a transfer, the producer of the tensor
  TensorId tensor{};  ///< the tensor (transfers only)
  DeviceId src{};     ///< the sender; for an op, the device where it ran
  DeviceId dst{};     ///< the receiver; for an op, the device where it ran
  TimePoint start{}, end{};
};

/// A memory report to the observer.
struct MemoryReport {
  DeviceId device{};
  MemoryUse use{};
  TimePoint at{};
};

/// All reports of a run to its observer, in order, and the result of the run.
struct RecordedRun {
  std::vector<Work> work;
  std::vector<MemoryReport> memory;
  StepResult result;
};

/// Runs simulate(problem, placement) and records it.
RecordedRun record(const Problem& problem, const Placement& placement);

/// The faults of `run` as the outcome of simulate(problem, placement); empty if there are none.
/// Later checks rely on earlier ones, so the list ends with the first kind of check that found
/// faults:
///
/// 1. Single ops and transfers: every op runs once, on its device, for its time (a member for its
///    collective's). Every transfer is between the right devices and takes its time; one per
///    (tensor, reading device) with cache, one per edge without.
/// 2. Pairs: ops start after their inputs, transfers after their producers. A lane runs one op at a
///    time and a channel moves one tensor; without overlap, a device that moves a tensor runs no
///    op.
/// 3. Order: in every round of an instant, exactly the work that must start has started, in the
///    order of the reports.
/// 4. Memory: the memory in use at every instant, by kind, is the sum of the lifetimes that cover
///    the instant. It equals the reports, the peaks, and the OOM report if there is one. At the end
///    only weights are left.
/// 5. Totals: busy + idle = makespan; bytes and counts; the makespan is at least the work of each
///    device and the longest path.
std::vector<std::string> faults(const Problem& problem, const Placement& placement,
                                const RecordedRun& run);

}  // namespace baechi::testing
