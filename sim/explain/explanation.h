/// Why each op of a simulated step started when it did, causes of the step's time, and, after out
/// of memory, the contents of the memory.
#pragma once
#include "sim/report/timeline.h"

namespace baechi {

/// Derives causes from the timeline of one completed step under Semantics::event. Memory is never a
/// cause: a request that does not fit ends the step.
class Causes {
 public:
  /// All must outlive this; `timeline` covers the whole step.
  Causes(const Problem& problem, const Placement& placement, const Timeline& timeline);

  /// The chain that ends with `last`, from the time `from` on, in chronological order without gaps:
  /// `last`, its input that arrived last, the cause of this input, and so on. For a collective: the
  /// last input of all members. Ties: the first member, the input of the smallest edge. Parts of
  /// zero length are omitted, except ops.
  std::vector<PathPart> chain(OpId last, TimePoint from = {}) const;

  /// chain() up to the start of `op`.
  std::vector<PathPart> before(OpId op, TimePoint from) const;

  /// The op that ends last; ties: the smallest. no_op if there are no ops.
  OpId last_op() const;
  /// The ops of lane "compute" of `d`, in the order in which they ran.
  const std::vector<OpId>& ran(DeviceId d) const { return ran_[d].front(); }
  PathKind kind(OpId v) const;  ///< compute or collective
  TimePoint start(OpId v) const { return start_[v]; }
  TimePoint end(OpId v) const { return end_[v]; }

 private:
  /// How an input came to its reader's device.
  struct Arrival {
    TimePoint at{};
    OpId producer = no_op;                    ///< no_op: there is no input
    std::optional<std::uint32_t> transfer{};  ///< into timeline.transfers(); nothing: no transfer
  };
  void match_transfers(const Timeline& timeline);
  Arrival last_input(OpId v) const;
  OpId last_member(OpId v) const;
  OpId run_before(OpId v) const;
  PathPart part_of(OpId v) const;
  void add_wait(std::vector<PathPart>& back, OpId v, TimePoint since, TimePoint from) const;
  void add_transfer(std::vector<PathPart>& back, const Arrival& arrival, TimePoint from) const;
  void add_channel_wait(std::vector<PathPart>& back, PathPart part, TimePoint from) const;

  const Problem& problem_;
  const Placement& placement_;
  const std::vector<Timeline::TransferSlice>& transfers_;
  IdVector<OpId, TimePoint> start_, end_;
  IdVector<DeviceId, std::vector<std::vector<OpId>>> ran_;  // [num_devices, lanes]
  IdVector<EdgeId, std::uint32_t> arrived_by_;              // into transfers_, or none
};

/// The chain of the op that ends last; empty if the step did not complete, or under another
/// semantics.
std::vector<PathPart> critical_path_of(const Problem& problem, const Placement& placement,
                                       const Timeline& timeline, const StepResult& step);

/// The critical path of a step without memory limits, by PathKind; last the step time, which these
/// add up to.
using UnlimitedPathTimes = std::array<Duration, num_path_kinds + 1>;
UnlimitedPathTimes unlimited_path_times(const Problem& problem, const Placement& placement);

/// Idle time of a device by cause. All times add up to the step.
struct DeviceIdle {
  Duration busy{};
  /// By PathKind: the concurrent activity in the chain before the device's next op. `compute` is an
  /// op on another device, `wait_device` an op that waited for its device.
  std::array<Duration, num_path_kinds> waiting{};
  Duration nothing_left{};  ///< after its last op
};

/// Idle time of devices due to one tensor.
struct BlockingTensor {
  TensorId tensor{};
  DeviceId src{}, dst{};
  Duration moving{}, waiting{};  ///< during its transfer; while it waited for a channel
};

/// The step time as a sum of contributions.
struct WhatIf {
  Duration dependencies{};  ///< step time with unlimited devices and free transfers
  Duration devices{};       ///< increase due to the limited devices, transfers free
  Duration transfers{};     ///< increase due to transfers; negative if they improve the order
};

struct Explanation {
  Duration step_time{};
  std::vector<PathPart> critical_path{};     ///< from 0 to step_time, without gaps
  IdVector<DeviceId, DeviceIdle> devices{};  ///< [num_devices]
  std::vector<BlockingTensor> blocking{};    ///< the most time first; ties by tensor, receiver
  WhatIf what_if{};
};

/// Explains a completed step under Semantics::event. `timeline` is of that step.
Explanation explain(const Problem& problem, const Placement& placement, const Timeline& timeline,
                    const StepResult& step);

/// An allocation in the memory of a device.
struct LiveTensor {
  MemoryKind kind{};
  OpId op{};  ///< the op that owns the weights, output or workspace
  Bytes size{};
  std::vector<OpId> kept_by{};      ///< unfinished readers; none for weights and workspace
  std::vector<DeviceId> leaving{};  ///< receivers of unfinished transfers
};

/// The contents of the device's memory when it ran out, the largest first; ties by kind, then op.
/// Copies that are in host memory (Transfers::staged) are omitted. `timeline` ends at the failure.
std::vector<LiveTensor> live_tensors(const Problem& problem, const Placement& placement,
                                     const Timeline& timeline, const OutOfMemory& oom);

}  // namespace baechi
