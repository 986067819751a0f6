/// Temporary bytes of a recorded step's ops, from recorded allocations.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/names.h"
#include "traces/import/pytorch/dataflow.h"
#include "traces/import/pytorch/optimizer_step.h"
#include "traces/import/pytorch/step_times.h"

namespace baechi::pytorch {

/// What is included in an op's workspace.
enum class Workspace : std::uint8_t {
  call,  ///< also memory that the enclosing calls hold and the graph has freed
  op,    ///< what the op allocates
};
constexpr auto names_of(Workspace) {
  return std::to_array<Named<Workspace>>({{Workspace::call, "call"}, {Workspace::op, "op"}});
}

/// PyTorch frees a storage as a whole: if ops wrote parts of a storage, such as the gates of a
/// recurrent cell, the last reader of any part becomes a reader of each part.
void hold_parts(Dataflow& flow);

/// Temporary bytes. [flow.ops] Workspace::op: peak while the op runs, minus the bytes before it,
/// minus its outputs. Workspace::call: peak while the op runs, minus the bytes before the outermost
/// operator or autograd function that encloses it, minus the growth of the graph's own tensors
/// since then. (PyTorch holds the inputs and outputs of an operator or autograd function until it
/// ends; the graph holds a tensor until its last reader ends.)
/// If updates run after the backward pass, an update's memory is counted from the start of the
/// optimizer's call, because Python variables hold its allocations until a later update.
std::vector<std::int64_t> workspaces(const Dataflow& flow, const Times& times, Workspace workspace,
                                     UpdateOrder optimizer);

/// The op's outputs that are read, with the results of its call first. If none is read (at the end
/// of the step): all outputs except those in persistent memory, or none for an update.
std::vector<const Contents*> outputs(const RecordedOp& op);

/// The outermost operator or autograd function that encloses `call`; `call` itself if there is
/// none.
const Call& outermost(const Call& call);

/// Whether the step allocates the bytes: not external, and not a reference.
bool is_new(const Contents& c);

}  // namespace baechi::pytorch
