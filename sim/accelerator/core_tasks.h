/// The tasks of an accelerator's cores for a graph, from the sizes of its ops.
#pragma once
#include <span>
#include <vector>

#include "sim/accelerator/layer_schedule.h"
#include "sim/graph/op_graph.h"

namespace baechi {

/// The tasks of some ops of a pass, of one phase, and their order among each other. `ops`:
/// ascending. The graph must be of numbers of four bytes, and have an op for each layer (as
/// generators make it with fuse_modules: false).
///
/// A graph states flops, bytes and tensors, not shapes; shapes follow from these:
/// - Linear, y [m, n] = x [m, k] w: k from the flops per number of y, m from x. Its backward op has
///   a product for x and one for w, which nothing in the pass waits for.
/// - Attention of as many keys as queries, [heads, l, d]: from the flops per score, the workspace
///   of two numbers a score (FusedAttention: the sum that is kept per row of scores), and y. It is
///   the products of scores and values with a softmax between; backward four products, of which a
///   fused one computes the scores again.
/// - Any other kernel is a vector op over as many numbers as the largest tensor has that its op
///   reads or writes, of flops / numbers passes, rounded up. If it has fewer flops than these, or
///   there is no tensor (an update writes weights): of as many numbers as flops, one pass.
/// Ops without kernels (sums over ranks) take no time here; order passes through them.
/// Throws InputError, which names the op, for a kernel of more than 16 flops per number of traffic
/// whose shapes are not known, such as a convolution, or if a shape does not come out whole.
std::vector<CoreTask> core_tasks(const OpGraph& graph, std::span<const OpId> ops);

}  // namespace baechi
