/// Parameters, gradients and updates of a recorded step, and the order of its optimizer.
#pragma once
#include "traces/import/pytorch/dataflow.h"

namespace baechi::pytorch {

enum class Colocate : std::uint8_t { readers, updates, forward };
constexpr auto names_of(Colocate) { return enumerators<Colocate::forward>(); }

/// The memory from before the step, by use.
struct StepState {
  struct Parameter {
    Storage* storage = nullptr;
    std::vector<RecordedOp*> readers;  ///< in order, without the update; never empty
    RecordedOp* update = nullptr;
  };
  std::vector<Parameter> parameters;  ///< weights that an update writes
  std::int64_t parameter_bytes = 0, optimizer_bytes = 0;
  /// Running statistics and frozen weights; all weights if the step has no update.
  std::int64_t other_bytes = 0;
  std::size_t inputs = 0;  ///< number
  std::int64_t input_bytes = 0;
  std::int64_t batch = 0;  ///< the first dimension of the first input; 0 if there is none
};

/// Replaces the optimizer's chain of small ops on each parameter by one op with the optimizer's
/// name ("adam_update"). A chain is the ops of one step() call that are connected by storages which
/// one of them writes. Chains that read no gradient, such as a count of steps, are removed.
void join_updates(Dataflow& flow);

/// Assigns each storage from before the step to an op:
/// - a parameter, which an update and an earlier op read, and its optimizer state: persistent bytes
///   of the parameter's first reader;
/// - other weights and statistics, recognised by argument names or because they are written:
///   persistent bytes of their first reader;
/// - other storages are inputs: a new op before their readers.
/// Call it after drop_unread().
StepState place_state(Dataflow& flow);

/// Sets RecordedOp::forward of each backward op by autograd's sequence number, which is that of the
/// forward call that created the node. Accumulation of gradients has no number: it gets the forward
/// op of its first reader, else of an op that it reads.
void link_forward(Dataflow& flow);

/// Names ops conv2d_12, conv2d_12_grad, conv2d_12_update.
void name_ops(Dataflow& flow);

/// Adds control edges to each update from the readers of its parameter that do not precede it.
void order_updates(const StepState& state);

/// Sets colocation groups: the first reader of a parameter is colocated with
/// - readers: all other readers and the update, because no edge carries weights;
/// - updates: the update;
/// - forward: as readers, and each backward op with its forward op.
void colocate(Dataflow& flow, const StepState& state, Colocate mode);

enum class UpdateOrder : std::uint8_t { after_backward, as_ready };
constexpr auto names_of(UpdateOrder) { return enumerators<UpdateOrder::as_ready>(); }

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
