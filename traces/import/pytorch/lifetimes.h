/// Memory of a recorded step, from recorded allocations: temporary bytes of ops, and lifetimes of
/// tensors.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/names.h"
#include "traces/import/pytorch/dataflow.h"
#include "traces/import/pytorch/step_times.h"
#include "traces/import/pytorch/training_state.h"

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

/// Makes writes in place share memory, where modules are known (a module's ops run on one device).
/// - An op that writes a whole storage reads its previous contents as a reference. The previous
///   contents are live until the op before it in its module or in theirs.
/// - Writes of parts are references; the whole contents are live until the last read of any part.
void share_in_place(Dataflow& flow);

/// The op during which a tensor's memory was freed becomes a reader of the tensor, which Python
/// variables or autograd functions kept alive after its last read. Memory that is not a tensor's
/// and outlives the outermost call of its op becomes an extra output. The new reader is in a module
/// that already uses the tensor, so that no transfer is added.
void hold_until_freed(Dataflow& flow, const Times& times);

}  // namespace baechi::pytorch
