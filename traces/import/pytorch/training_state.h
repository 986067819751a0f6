/// What a step keeps and how its passes belong together: parameters, optimizer state, inputs,
/// forward ops of backward ops, names, groups, and what an update waits for.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sim/names.h"
#include "traces/import/pytorch/dataflow.h"

namespace baechi::pytorch {

enum class Colocate : std::uint8_t { readers, updates, forward };
constexpr auto names_of(Colocate) {
  return std::to_array<Named<Colocate>>({{Colocate::readers, "readers"},
                                         {Colocate::updates, "updates"},
                                         {Colocate::forward, "forward"}});
}

/// Bytes that stood before the step, and how they are told apart.
struct StepState {
  struct Parameter {
    Storage* storage = nullptr;
    std::vector<RecordedOp*> readers;  ///< in order, the update left out; never empty
    RecordedOp* update = nullptr;
  };
  std::vector<Parameter> parameters;  ///< those that are updated
  std::int64_t parameter_bytes = 0, optimizer_bytes = 0;
  std::int64_t other_bytes =
      0;  ///< running statistics, frozen weights; all weights if none is updated
  std::size_t inputs = 0;
  std::int64_t input_bytes = 0;
  std::int64_t batch = 0;  ///< the first side of the first input; 0 if there is none
};

/// One op per parameter in place of the optimizer's chain of small ones on it: those of one call of
/// step() that share a storage which one of them writes. Its kind is that of the optimizer. Chains
/// that read no gradient, such as a count of steps, are left out.
void join_updates(Dataflow& flow);

/// Gives each parameter with its optimizer state, and each buffer, to the op that reads it first,
/// and puts an op before the readers of each input. A parameter is what an update and a forward op
/// read. Of what else stood before the step, weights and statistics are told from inputs by the
/// names of the arguments that take them, and by being written. To be called after drop_unread().
StepState place_state(Dataflow& flow);

/// Sets RecordedOp::forward of each backward op through autograd's sequence number: a backward node
/// has that of the forward call which made it. Sums of gradients, which have none, take the forward
/// op of their first reader, or else of what they read.
void link_forward(Dataflow& flow);

/// Kind and running number: conv2d_12, conv2d_12_grad, conv2d_12_update.
void name_ops(Dataflow& flow);

/// An update waits for those readers of its parameter that its gradient does not wait for.
void order_updates(const StepState& state);

/// readers: with its first reader go all readers of a parameter and its update, for no edge carries
/// weights; updates: the update alone; forward: as readers, and each backward op with its forward
/// op.
void colocate(Dataflow& flow, const StepState& state, Colocate mode);

}  // namespace baechi::pytorch
