/// How long a recorded step's tensors stay: as long as the memory that the recording saw allocated
/// for them.
#pragma once
#include "traces/import/pytorch/dataflow.h"
#include "traces/import/pytorch/step_times.h"

namespace baechi::pytorch {

/// A write in place takes no memory of its own.
/// - An op that writes all of a storage reads the contents before as a reference. They stay until
/// the op
///   before it in its module, and the op takes over.
/// - Parts written into contents are references; the contents stay until nobody reads any part.
/// Only where modules are known: one device runs the ops of a module.
void share_in_place(Dataflow& flow);

/// An op that the recording saw free a tensor's memory becomes its reader: what Python's variables
/// and functions of autograd hold beyond the op that reads it last. Memory that outlives the
/// outermost call around the op that allocates it, and is no tensor's, becomes one more output. The
/// new reader is the last op of the modules that have the tensor anyway, so that nothing moves.
void hold_until_freed(Dataflow& flow, const Times& times);

}  // namespace baechi::pytorch
