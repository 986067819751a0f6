#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "traces/import/pytorch/execution_trace.h"

namespace baechi::pytorch {

/// The outermost calls of one step, without frames of the user and the profiler. Steps are the
/// calls ProfilerStep#...; `wanted` is a number from 1, or 0 for the last complete one: the
/// profiler may stop within a step. A step is complete if it has at least 90 % of the longest
/// step's calls, and a backward pass and an optimizer if the longest step has them. Adds the chosen
/// step and the incomplete steps after it to `notes`. Throws InputError if there is no such step,
/// or if it is incomplete.
std::vector<Call*> one_step(ExecutionTrace& trace, const std::string& path, std::int64_t wanted,
                            std::vector<std::string>& notes);

}  // namespace baechi::pytorch
