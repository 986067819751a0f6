/// The architecture of an accelerator, its chip area, and op times on its cores. Source: Wang et
/// al., "PHAZE", ICML 2024; op times: our closed-form model in place of the mapper (Sunstone) that
/// it uses.
#pragma once
#include <map>

#include "sim/graph/op_graph.h"

namespace baechi {

struct Accelerator {
  std::int64_t tensor_cores = 1;  ///< each an array of width x depth multipliers
  std::int64_t vector_cores = 1;  ///< each of `width` lanes
  std::int64_t width = 1, depth = 1;
  Bytes buffer{};  ///< on-chip, shared by all cores

  friend auto operator<=>(const Accelerator&, const Accelerator&) = default;
};

/// "8 x 128x128 + 2 x 128 + 128 MiB".
std::string to_text(const Accelerator& a);

/// The area of each part, in um2.
struct AreaTable {
  std::map<std::int64_t, double> tensor_core{};  ///< by multipliers: width x depth
  std::map<std::int64_t, double> vector_core{};  ///< by lanes: width
  std::map<Bytes, double> buffer{};

  /// tensor_cores T(width depth) + vector_cores V(width) + B(buffer); nothing if one of these is
  /// not in the table.
  std::optional<double> area(const Accelerator& a) const;
};

/// The work of one op: GEMMs on tensor cores, anything else on vector cores.
struct CoreOp {
  std::int64_t count = 0;  ///< independent GEMMs [m, k] x [k, n]; 0: a vector op
  std::int64_t m = 0, k = 0, n = 0;
  std::int64_t passes = 0;  ///< vector op: passes over `elements` numbers
  std::int64_t elements = 0;
  std::int64_t words = 0;  ///< vector op: numbers read and written

  bool is_gemm() const { return count > 0; }
  friend bool operator==(const CoreOp&, const CoreOp&) = default;
};

/// Rates common to all accelerators of a search.
struct AcceleratorRates {
  double clock = 1e9;  ///< cycles per second
  Bandwidth memory{};  ///< off-chip
  Bytes word{2};       ///< size of one number
};

struct CoreCost {
  std::int64_t cores = 0;   ///< cores used, of its pool
  std::int64_t cycles = 0;  ///< of each of these cores
  Bytes traffic{};          ///< off-chip
  Duration time{};          ///< the longer of compute and traffic, rounded up
};

/// GEMMs are weight-stationary: a core holds a tile of width x depth weights, and m rows stream
/// through it in m + width + depth cycles. The ceil(k / width) ceil(n / depth) tiles of all GEMMs
/// are distributed over the tensor cores in rounds; the fewest cores that need no more rounds are
/// used. Traffic per GEMM is m k + k n + m n numbers if these fit the buffer; else each tile reads
/// its rows and writes its partial sums: m k ceil(n / depth) + k n + m n ceil(k / width).
/// A vector op takes ceil(elements / (width vector_cores)) cycles per pass. Its traffic is `words`.
CoreCost core_cost(const CoreOp& op, const Accelerator& a, const AcceleratorRates& rates);

/// An op of a layer, and the tasks on which it depends.
struct CoreTask {
  CoreOp op;
  std::vector<std::uint32_t> after{};  ///< indices of earlier tasks, ascending

  friend bool operator==(const CoreTask&, const CoreTask&) = default;
};

/// A CoreTask on one accelerator: a number of cores of one pool, for a time.
struct PoolTask {
  bool tensor = false;  ///< runs on tensor cores; else on vector cores
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
