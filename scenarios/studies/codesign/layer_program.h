/// The shortest schedule of a layer on two pools of cores, as a mixed integer program.
#pragma once
#include <optional>

#include "placers/solver/cbc.h"
#include "sim/accelerator/layer_schedule.h"

namespace baechi {

/// A schedule shorter than list_schedule()'s, or list_schedule()'s: it shows the loss of the list
/// schedule.
struct ShortestSchedule {
  Duration makespan{};
  bool proved = false;  ///< no schedule is shorter
};

/// Columns: the start of each task; for each two tasks of a pool that nothing orders, whether the
/// one ends before the other begins; the cores that a task hands on to a later one. A task's cores
/// come from the pool or from tasks that have ended. Times to a nanosecond. For small layers: the
/// columns grow with the square of the tasks.
/// Source: Artigues, Michelon, Reusser, "Insertion techniques for static and dynamic
/// resource-constrained project scheduling", EJOR 2003, the flow of resources.
ShortestSchedule shortest_schedule(std::span<const PoolTask> tasks, const Accelerator& a,
                                   const AcceleratorRates& rates,
                                   const solver::MixedLimits& limits);

}  // namespace baechi
