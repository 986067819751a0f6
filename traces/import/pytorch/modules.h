#pragma once
#include <string>

#include "traces/import/pytorch/dataflow.h"

namespace baechi::pytorch {

/// The module path of the op's first call, "layer1.0.conv1"; "" if unknown. A backward op has its
/// forward op's module, an update that of the op that holds the parameter. Modules are frames of
/// torch.profiler.record_function, such as `with record_function("layer1.0.conv1")` around a
/// forward call. A name that begins with that of the enclosing frame replaces it ("layer1.0.conv1"
/// in "layer1.0"); others are appended ("conv1" in "layer1.0").
std::string module_of(const RecordedOp& op);

}  // namespace baechi::pytorch
