/// Extends the lifetimes of a recorded step's tensors to those of their recorded allocations.
#pragma once
#include "traces/import/pytorch/dataflow.h"
#include "traces/import/pytorch/step_times.h"

namespace baechi::pytorch {

/// Makes writes in place share memory, where modules are known (a module's ops run on one device).
/// - An op that writes a whole storage reads its previous contents as a reference. The previous
///   contents are live until the op before it in its module.
/// - Writes of parts are references; the whole contents are live until the last read of any part.
void share_in_place(Dataflow& flow);

/// The op during which a tensor's memory was freed becomes a reader of the tensor, which Python
/// variables or autograd functions kept alive after its last read. Memory that is not a tensor's
/// and outlives the outermost call of its op becomes an extra output. The new reader is in a module
/// that already uses the tensor, so that no transfer is added.
void hold_until_freed(Dataflow& flow, const Times& times);

}  // namespace baechi::pytorch
