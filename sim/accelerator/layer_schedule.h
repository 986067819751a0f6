/// The ops of a layer on an accelerator's two pools of cores.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sim/accelerator/core_costs.h"

namespace baechi {

/// An op of a layer, and the tasks before it.
struct CoreTask {
  CoreOp op;
  std::vector<std::uint32_t> after{};  ///< tasks of the layer, ascending, all before it

  friend bool operator==(const CoreTask&, const CoreTask&) = default;
};

/// The same on one accelerator: so many cores of a pool, for a time.
struct PoolTask {
  bool tensor = false;  ///< of the tensor cores; else of the vector cores
  std::int64_t cores = 1;
  Duration time{};
  Bytes traffic{};
  std::span<const std::uint32_t> after{};
};
/// Views `layer`, which outlives it.
std::vector<PoolTask> pool_tasks(std::span<const CoreTask> layer, const Accelerator& a,
                                 const AcceleratorRates& rates);

struct LayerSchedule {
  Duration makespan{};
  std::vector<Duration> start{};  ///< [tasks]
};

/// List scheduling in HEFT's order: of the ready tasks, the one with the longest path to the end
/// goes first (ties: the lower index). A later task may begin before it if cores are free for that
/// task alone. The makespan is at least the time of the memory for the traffic of all tasks.
/// Source: Topcuoglu et al., TPDS 2002, the order; pools of cores are ours.
LayerSchedule list_schedule(std::span<const PoolTask> tasks, const Accelerator& a,
                            const AcceleratorRates& rates);

/// No schedule is shorter: the longest path, the work of either pool, the traffic.
Duration least_makespan(std::span<const PoolTask> tasks, const Accelerator& a,
                        const AcceleratorRates& rates);

}  // namespace baechi
