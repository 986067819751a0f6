#pragma once
#include <string>
#include <vector>

#include "traces/import/pytorch/execution_trace.h"

namespace baechi::pytorch {

/// The calls in the subtree of `call` that become ops, in order: the outermost calls with one
/// kernel, those that autograd differentiates as a unit, and those that read a tensor which no
/// inner call takes.
/// - Fills and copies do not count as kernels.
/// - Views, allocations and calls that return Python values do not become ops.
/// - A collective is one op with all inner calls; so is a Triton kernel.
/// - An optimizer's call on lists of tensors is split into one child call per tensor, which are
///   added to `trace`; `split` counts these calls.
std::vector<Call*> cut(ExecutionTrace& trace, Call& call, std::size_t& split);

/// The op's kind: the call's name, or the collective's ("all_reduce").
std::string kind_of(const Call& call);

}  // namespace baechi::pytorch
