/// Tells which module of the model a recorded call belongs to.
#pragma once
#include <string>

#include "traces/import/pytorch/dataflow.h"

namespace baechi::pytorch {

/// The module of `op`, outermost first: "layer1.0.conv1"; "" if no frame says. It is that of the
/// op's first call; a backward op's is its forward op's, an update's is that of the op that holds
/// the parameter.
/// The frames are those of torch.profiler.record_function whose names look like a module's, such
/// as `with record_function("layer1.0.conv1")` around its forward call. A name that begins with the
/// name of the frame around it, as "layer1.0.conv1" in "layer1.0", replaces it; any other is part
/// of it, as "conv1" in "layer1.0".
std::string module_of(const RecordedOp& op);

}  // namespace baechi::pytorch
