/// A prompt that a model reads in several passes: one step of them all.
#pragma once
#include <span>

#include "sim/graph/op_graph.h"

namespace baechi {

/// The graphs of passes over the same ops, which may differ in their work, as one graph. An op with
/// a cache reads what its op of the pass before wrote. Ops of later passes are micro-batches of
/// those of the first, which holds weights and cache, the largest of any pass. `in_flight`: a pass
/// begins when the one so many before it has ended; 0: when devices are free. A device runs passes
/// one after the other with `queue: program`, and interleaves them without. Throws InputError if
/// the passes have different ops.
OpGraph joined_passes(std::span<const OpGraph> passes, std::size_t in_flight = 0);

}  // namespace baechi
