/// Imports a training or inference step recorded by PyTorch.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "traces/import/pytorch/optimizer_step.h"
#include "traces/import/pytorch/training_state.h"
#include "traces/import/pytorch/workspaces.h"
#include "traces/importer.h"

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

}  // namespace baechi::pytorch
