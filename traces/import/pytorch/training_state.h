/// Finds the state that a training step keeps, and the relations of its passes: parameters,
/// optimizer state, inputs, forward ops of backward ops, names, colocation groups, and the waits of
/// updates.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sim/names.h"
#include "traces/import/pytorch/dataflow.h"

namespace baechi::pytorch {

/// Which ops share a colocation group; see colocate().
enum class Colocate : std::uint8_t { readers, updates, forward };
constexpr auto names_of(Colocate) {
  return std::to_array<Named<Colocate>>({{Colocate::readers, "readers"},
                                         {Colocate::updates, "updates"},
                                         {Colocate::forward, "forward"}});
}

/// The memory that existed before the step, by use.
struct StepState {
  struct Parameter {
    Storage* storage = nullptr;
    std::vector<RecordedOp*> readers;  ///< in order, without the update; never empty
    RecordedOp* update = nullptr;
  };
  std::vector<Parameter> parameters;  ///< the weights that an update writes
  std::int64_t parameter_bytes = 0, optimizer_bytes = 0;
  /// Running statistics and frozen weights; all weights if the step has no update.
  std::int64_t other_bytes = 0;
  std::size_t inputs = 0;  ///< number of inputs
  std::int64_t input_bytes = 0;
  std::int64_t batch = 0;  ///< the first dimension of the first input; 0 if there is none
};

/// Replaces the optimizer's chain of small ops on each parameter by one op, whose kind names the
/// optimizer ("adam_update"). A chain is the ops within one call of step() that are connected by
/// storages which one of them writes. Chains that read no gradient, such as a count of steps, are
/// dropped.
void join_updates(Dataflow& flow);

/// Gives each storage that existed before the step an op:
/// - a parameter, which an update and an earlier op read, and its optimizer state: persistent
///   bytes of the op that reads the parameter first;
/// - other weights and statistics, told by argument names or by being written: persistent bytes of
///   the op that reads them first;
/// - an input, which is any other storage: a new op in front of its readers.
/// Call it after drop_unread().
StepState place_state(Dataflow& flow);

/// Sets RecordedOp::forward of each backward op by autograd's sequence number: a backward node has
/// the number of the forward call that made it. A sum of gradients has no number: it takes the
/// forward op of its first reader, else of an op whose output it reads.
void link_forward(Dataflow& flow);

/// Names each op by kind and running number: conv2d_12, conv2d_12_grad, conv2d_12_update.
void name_ops(Dataflow& flow);

/// Makes each update wait for the readers of its parameter that its gradient does not wait for.
void order_updates(const StepState& state);

/// Makes colocation groups. Ops that share a device with the first reader of a parameter:
/// - readers: all other readers and the update, because no edge carries weights;
/// - updates: the update;
/// - forward: as readers, and each backward op shares a device with its forward op.
void colocate(Dataflow& flow, const StepState& state, Colocate mode);

}  // namespace baechi::pytorch
