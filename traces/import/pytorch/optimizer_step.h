/// Makes the optimizer of a recorded step run as PyTorch runs it: after the backward pass, with all
/// gradients in memory until it is done.
#pragma once
#include <cstdint>

#include "sim/names.h"
#include "traces/import/pytorch/dataflow.h"

namespace baechi::pytorch {

/// When an update runs.
enum class UpdateOrder : std::uint8_t { after_backward, as_ready };
constexpr auto names_of(UpdateOrder) {
  return std::to_array<Named<UpdateOrder>>(
      {{UpdateOrder::after_backward, "after_backward"}, {UpdateOrder::as_ready, "as_ready"}});
}

/// Adds the ops and the order that a call of optimizer.step() and the following zero_grad() are:
/// - `backward_end`, without time, waits for the passes before the optimizer; each update waits for
///   it. It waits only for the ops that end last: one whose inputs all come before another's that
///   it waits for is ready no later than that one.
/// - `X_zero_grad`, without time, is on the device of the update of X, reads what the update reads
///   and follows it in id order after all updates. So each gradient stays until its device has done
///   the updates that were ready.
/// - What the optimizer's calls on lists of tensors leave in new memory (RecordedOp::scratch) stays
///   as long, because the lists are of all parameters.
/// - Ops are put in the order of the recording: where there are several optimizers, the updates of
///   the first come before what was called after it.
/// Call it after colocate(); it changes RecordedOp::position.
void update_after_backward(Dataflow& flow);

}  // namespace baechi::pytorch
