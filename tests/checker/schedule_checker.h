/// Checks whether a run keeps the promises of Semantics::event, from what the run told its
/// observer. Shares no code with the engine; written to be easy to trust, not to be fast.
#pragma once
#include <string>
#include <vector>

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

/// The memory use of a device at one time, as told to the observer.
struct MemoryReport {
  DeviceId device{};
  MemoryUse use{};
  TimePoint at{};
};

/// All that a run told its observer, in order, and the result that it returned.
struct RecordedRun {
  std::vector<Work> work;
  std::vector<MemoryReport> memory;
  StepResult result;
};

/// Runs simulate(problem, placement) and records it.
RecordedRun record(const Problem& problem, const Placement& placement);

/// What is wrong with `run` as the outcome of simulate(problem, placement); empty if nothing. Later
/// checks rely on earlier checks, so the list ends with the first kind of check that found faults:
///
/// 1. Each piece of work: every op runs once, on its device, for its time, which is its
/// collective's
///    for a member. Every transfer is
///    between the right devices and takes its time; one per (tensor, reading device) with cache,
///    one per edge without.
/// 2. Together: ops start after their inputs, transfers after their producers. At one time, a
///    lane runs one op and a channel moves one tensor; without overlap, a device that moves a
///    tensor runs no op.
/// 3. Order: in every round of an instant, exactly the work that must start has started, in the
///    order told.
/// 4. Memory: the memory in use at every instant, by kind, is the sum of the lifetimes that cover
///    the instant. It equals the reports, the peaks, and the verdict if there is one. At the end
///    only weights are left.
/// 5. Totals: busy + idle = makespan; bytes and counts; the makespan is at least the work of each
///    device and the longest path.
std::vector<std::string> faults(const Problem& problem, const Placement& placement,
                                const RecordedRun& run);

}  // namespace baechi::testing
