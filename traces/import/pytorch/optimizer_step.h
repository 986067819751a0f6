/// The order of a recorded step's optimizer: as in PyTorch, after the backward pass, with all
/// gradients in memory until it is done.
#pragma once
#include <cstdint>

#include "sim/names.h"
#include "traces/import/pytorch/dataflow.h"

namespace baechi::pytorch {

enum class UpdateOrder : std::uint8_t { after_backward, as_ready };
constexpr auto names_of(UpdateOrder) {
  return std::to_array<Named<UpdateOrder>>(
      {{UpdateOrder::after_backward, "after_backward"}, {UpdateOrder::as_ready, "as_ready"}});
}

/// Adds the ops and control edges of optimizer.step() and the following zero_grad():
/// - `backward_end`, without time, waits for the sinks of the passes before the optimizer that can
///   end last; each update waits for it.
/// - `X_zero_grad`, without time, is on the device of the update of X, reads the update's inputs
///   and comes after all updates in id order. Each gradient is therefore live until its device has
///   done the ready updates.
/// - Memory that the optimizer's calls on lists of tensors allocate (RecordedOp::scratch) is live
///   as long, because the lists are of all parameters.
/// - Ops are in recorded order. With several optimizers, the updates of the first come before the
///   calls after it.
/// Call it after colocate(); it changes RecordedOp::position.
void update_after_backward(Dataflow& flow);

}  // namespace baechi::pytorch
