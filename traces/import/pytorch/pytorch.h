/// Imports a training or inference step recorded by PyTorch.
#pragma once
#include "traces/import/pytorch/step_times.h"

namespace baechi::pytorch {

/// The time of an op on a CPU.
enum class OpTime : std::uint8_t {
  call,  ///< includes the overhead of the enclosing operator or autograd function
  op,    ///< its calls alone
};
constexpr auto names_of(OpTime) {
  return std::to_array<Named<OpTime>>({{OpTime::call, "call"}, {OpTime::op, "op"}});
}

struct Settings {
  Colocate colocate = Colocate::readers;
  UpdateOrder optimizer = UpdateOrder::after_backward;
  Workspace workspace = Workspace::call;
  OpTime time = OpTime::call;
  std::int64_t step = 0;   ///< number of the step, from 1; 0: the last complete one
  std::int64_t batch = 0;  ///< samples per step; 0: the first dimension of the first input
  Precision convolutions = Precision::tf32;  ///< of fp32 convolutions whose times are unknown
  Untimed untimed{};                         ///< the user's choice for ops without a time
  Duration step_time{};                      ///< of a step without a profiler; 0: unknown
};

/// Imports the calls of `execution` with times of `kineto`: medians if that has several files.
/// Throws InputError.
Trace import_step(TextFile& execution, std::span<TextFile* const> kineto, const Settings& settings);

/// The outermost calls of one step, without frames of the user and the profiler. Steps are the
/// calls ProfilerStep#...; `wanted` is a number from 1, or 0 for the last complete one: the
/// profiler may stop within a step. A step is complete if it has at least 90 % of the longest
/// step's calls, and a backward pass and an optimizer if the longest step has them. Adds the chosen
/// step and the incomplete steps after it to `notes`. Throws InputError if there is no such step,
/// or if it is incomplete.
std::vector<Call*> one_step(ExecutionTrace& trace, const std::string& path, std::int64_t wanted,
                            std::vector<std::string>& notes);

}  // namespace baechi::pytorch
