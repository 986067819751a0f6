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

/// Adds the ops and the order of a call of optimizer.step() and the following zero_grad():
/// - `backward_end`, without time, waits for the passes before the optimizer; each update waits for
///   it. It waits only for the ops that end last. If all inputs of an op come before inputs of
///   another op in the list, the former is ready no later and is left out.
/// - `X_zero_grad`, without time, is on the device of the update of X, reads the inputs of the
///   update and follows it in id order after all updates. Each gradient therefore stays until its
///   device has done the ready updates.
/// - New memory of the optimizer's calls on lists of tensors (RecordedOp::scratch) stays as long,
///   because the lists are of all parameters.
/// - Ops are put in the order of the recording. With several optimizers, the updates of the first
///   come before the calls after it.
/// Call it after colocate(); it changes RecordedOp::position.
void update_after_backward(Dataflow& flow);

}  // namespace baechi::pytorch
