/// Chooses which calls of an execution trace become ops.
#pragma once
#include <string>
#include <vector>

#include "traces/import/pytorch/execution_trace.h"

namespace baechi::pytorch {

/// The calls in the subtree of `call` that become ops, in order: the outermost calls that have one
/// kernel inside, that autograd differentiates as one, or that read a tensor which no call inside
/// takes.
/// - Calls that fill or copy do not count as kernels.
/// - Views, allocations and calls whose results only Python sees do not become ops.
/// - A collective becomes one op, with everything inside it; so does a Triton kernel.
/// - An optimizer's call on lists of tensors is split into one child call per tensor, which are
///   added to `trace`; `split` counts the calls that were split.
std::vector<Call*> cut(ExecutionTrace& trace, Call& call, std::size_t& split);

/// The kind of the op that `call` becomes: the call's name, or the collective's ("all_reduce").
std::string kind_of(const Call& call);

}  // namespace baechi::pytorch
