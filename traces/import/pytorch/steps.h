/// Chooses the step of a recording that becomes the graph.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "traces/import/pytorch/execution_trace.h"

namespace baechi::pytorch {

/// The outermost calls inside the user's and the profiler's frames of one step. A recording has
/// several steps if it has several calls ProfilerStep#...; `wanted` counts them from 1, and 0 is
/// the last whole one. A step is whole if it has nine in ten of the calls of the longest step, and
/// a backward pass and an optimizer if the longest step has them. The profiler may begin a step
/// that it does not record to the end. Adds the taken step and the steps that were not whole to
/// `notes`.
/// Throws InputError if there is no such step, or if it is not whole.
std::vector<Call*> one_step(ExecutionTrace& trace, const std::string& path, std::int64_t wanted,
                            std::vector<std::string>& notes);

}  // namespace baechi::pytorch
