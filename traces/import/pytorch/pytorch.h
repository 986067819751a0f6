/// Makes a trace from a training or inference step that PyTorch recorded.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "traces/import/pytorch/optimizer_step.h"
#include "traces/import/pytorch/training_state.h"
#include "traces/import/pytorch/workspaces.h"
#include "traces/importer.h"

namespace baechi::pytorch {

/// What an op takes on a processor.
enum class OpTime : std::uint8_t {
  call,  ///< also what the operator or function of autograd around it takes
  op,    ///< its own calls
};
constexpr auto names_of(OpTime) {
  return std::to_array<Named<OpTime>>({{OpTime::call, "call"}, {OpTime::op, "op"}});
}

struct Settings {
  Colocate colocate = Colocate::readers;
  UpdateOrder optimizer = UpdateOrder::after_backward;
  Workspace workspace = Workspace::call;
  OpTime time = OpTime::call;
  std::int64_t step = 0;   ///< which step of the recording, from 1; 0: the last whole one
  std::int64_t batch = 0;  ///< samples per step; 0: the first dimension of the first input
  Untimed untimed{};       ///< none yet: what the user says of ops without a time
  Duration step_time{};    ///< of a step without a profiler; 0: not known
};

/// The recorded step: its calls from `execution`, its times from `kineto`: medians where that has
/// several steps. Throws InputError, with path:line:column where that helps.
Trace import_step(TextFile& execution, std::span<TextFile* const> kineto, const Settings& settings);

}  // namespace baechi::pytorch
