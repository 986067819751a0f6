/// The ops of a layer on an accelerator's two pools of cores.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sim/accelerator/core_costs.h"

namespace baechi {

/// An op of a layer, and the tasks on which it depends.
struct CoreTask {
  CoreOp op;
  std::vector<std::uint32_t> after{};  ///< indices of earlier tasks, ascending

  friend bool operator==(const CoreTask&, const CoreTask&) = default;
};

/// A CoreTask on one accelerator: a number of cores of one pool, for a time.
struct PoolTask {
  bool tensor = false;  ///< tensor cores; else vector cores
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

/// List scheduling by upward rank: of the ready tasks, the one with the longest path to the end
/// first (ties: the lower index), with backfilling if too few cores are free for it. The makespan
/// is at least the time of all off-chip traffic. Source: Topcuoglu et al., TPDS 2002; pools are
/// ours.
LayerSchedule list_schedule(std::span<const PoolTask> tasks, const Accelerator& a,
                            const AcceleratorRates& rates);

/// A lower bound of the makespan: the longest path, the work of either pool, the traffic.
Duration least_makespan(std::span<const PoolTask> tasks, const Accelerator& a,
                        const AcceleratorRates& rates);

}  // namespace baechi
