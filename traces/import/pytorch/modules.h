/// Tells which module of the model a recorded call belongs to.
#pragma once
#include <string>

#include "traces/import/pytorch/dataflow.h"

namespace baechi::pytorch {

/// The module of `op`, outermost first: "layer1.0.conv1"; "" if no frame names it. It is the module
/// of the op's first call. A backward op has its forward op's module, an update the module of the
/// op that holds the parameter.
/// The frames are frames of torch.profiler.record_function whose names look like a module's, such
/// as `with record_function("layer1.0.conv1")` around its forward call. A name that begins with the
/// name of the enclosing frame, as "layer1.0.conv1" in "layer1.0", replaces it. Any other name is
/// appended, as "conv1" in "layer1.0".
std::string module_of(const RecordedOp& op);

}  // namespace baechi::pytorch
