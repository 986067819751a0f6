/// Predicted times of a plan's tasks. Its queues are first in, first out, so lengths, gaps and
/// dependencies decide the times.
#pragma once

#include "sim/cluster/calibration.h"
#include "validate/plan/plan.h"

namespace baechi::validate {

/// The nearest whole number of nanoseconds; numbers below 0 give 0.
Duration rounded(double ns);

/// How the tasks of one plan are timed, resolved from a calibration for its mode and way.
struct Timing {
  struct Transfer {
    Duration latency{};     ///< beside moving the bytes; half of it, at most a hop, on either side
    Duration occupancy{};   ///< of its queue besides the moving
    bool shared = false;    ///< one after the other over all devices
    Duration channel{};     ///< of what they share besides the moving
    bool in_order = false;  ///< in the order of the plan's tasks; else as they are ready
  };
  Duration same_gap{};              ///< between tasks of a compute queue
  Duration cross_gap{};             ///< from one queue to another
  Duration fan_in_more{};           ///< besides, where an op waits for two other queues or more
  std::vector<Duration> gap_after;  ///< [op kinds] in place of same_gap; or empty
  std::vector<Duration> length;     ///< [tasks] undisturbed; of transfers: of the moving
  Transfer transfers[2];            ///< [0] from a device, [1] from the host
  std::vector<std::vector<double>>
      slowdown;                             ///< [op kind][neighbour kind], per neighbour; or empty
  double capacity = 0.0;                    ///< Calibration::Bandwidth; 0: slowdown counts
  std::vector<double> demand, sensitivity;  ///< [tasks], of ops; empty without a capacity
};

/// Throws InputError if the calibration has nothing for the plan's mode, way or bodies, or fewer
/// partitions than the plan has devices. A null calibration knows no overheads.
Timing timing_of(const ReplayPlan& plan, const Calibration* calibration, const Effects& effects);

/// The calibrated transfer of the plan's mode and way; null if there is none.
const Calibration::Transfer* transfer_of(const ReplayPlan& plan, const Calibration& calibration,
                                         const Task& task);

struct Replay {
  std::vector<Duration> start{}, end{};  ///< [tasks], from the first start
  Duration step() const;                 ///< last end; 0 of no tasks
};

/// A task begins once its queue is free, all it waits for has ended, and gaps have passed. Without
/// effects this is exactly the schedule of the engine that the plan was made from. Shared channels
/// serve in order of time, then of submission.
Replay predict(const ReplayPlan& plan, const Timing& timing);

/// Most bytes alive on each device, resident ones included. [devices]
/// At one instant memory is given back before more is taken.
std::vector<Bytes> peaks(const ReplayPlan& plan, const Replay& replay);

}  // namespace baechi::validate
