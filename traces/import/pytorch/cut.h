/// Which calls of an execution trace become ops.
#pragma once
#include <string>
#include <vector>

#include "traces/import/pytorch/execution_trace.h"

namespace baechi::pytorch {

/// The calls in the subtree of `call` that become ops, in order: the outermost ones with one kernel
/// inside, or that autograd differentiates as one. Filling and copying count as no kernel; views,
/// allocations and calls whose results only Python sees are no ops. A collective is one, with all
/// inside it; so is a Triton kernel. An optimizer's call on lists of tensors is split in `trace`,
/// into one per tensor below it, and counted in `split`.
std::vector<Call*> cut(ExecutionTrace& trace, Call& call, std::size_t& split);

/// What the op is called that `call` becomes: its name, or of a collective its own.
std::string kind_of(const Call& call);

}  // namespace baechi::pytorch
