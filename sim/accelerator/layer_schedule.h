/// The tasks that a graph's ops give an accelerator's cores, and their schedule on its two pools.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sim/accelerator/accelerator.h"
#include "sim/graph/op_graph.h"

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

/// The tasks of `ops`, which are ascending and of one phase, with their dependencies. The graph
/// must have fp32 tensors and one op per layer (generators: fuse_modules: false).
///
/// A graph states flops, bytes and tensors, not shapes; shapes are derived:
/// - Linear, y [m, n] = x [m, k] w: k from the flops per number of y, m from x. Its backward op has
///   a GEMM for the gradient of x and one for that of w, on which nothing in the pass depends.
/// - Self-attention, [heads, l, d]: from the flops per score, the workspace of two numbers a score
///   (FusedAttention: the statistic kept per row of scores), and y. Forward: QK^T, softmax, PV;
///   backward: four GEMMs, and QK^T recomputed by a fused kernel.
/// - Any other kernel is a vector op over as many numbers as its op's largest input or output has,
///   with ceil(flops / numbers) passes. With fewer flops than numbers, or no tensor (an update
///   writes weights): as many numbers as flops, one pass.
/// Ops without kernels (collectives) take no time; dependencies pass through them.
/// Throws InputError, which names the op, for a kernel of more than 16 flops per number of traffic
/// whose shape is unknown, such as a convolution, or if a derived shape is not integral.
std::vector<CoreTask> core_tasks(const OpGraph& graph, std::span<const OpId> ops);

}  // namespace baechi
