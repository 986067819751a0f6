/// The tasks that a graph's ops give an accelerator's cores; GEMM shapes are derived from op sizes.
#pragma once
#include <span>
#include <vector>

#include "sim/accelerator/layer_schedule.h"
#include "sim/graph/op_graph.h"

namespace baechi {

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
