/// A training or inference step that PyTorch recorded, as a graph.
#pragma once
#include <cstdint>
#include <string>

#include "traces/importer.h"
#include "traces/import/pytorch/training_state.h"

namespace baechi::pytorch {

struct Settings {
  Colocate colocate = Colocate::readers;
  std::int64_t step = 0;   ///< counted from 1; 0: the last
  std::int64_t batch = 0;  ///< 0: the first side of the first input
};

/// The step that `execution` holds the calls of, and `kineto`, if not null, the times.
/// Throws InputError, with path:line:column where that helps.
Trace import_step(TextFile& execution, TextFile* kineto, const Settings& settings);

}  // namespace baechi::pytorch
