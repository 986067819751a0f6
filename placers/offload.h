/// Weights that wait on hosts or disks where GPUs are too small, for every placer.
#pragma once

#include "placers/interface/registry.h"

namespace baechi {

/// Reads the options `offload` and `prefetch`. In a cluster whose devices all compute the result is
/// `placer`. Else `placer` places on those that compute. If that does not fit, the weights of
/// modules wait: of as few as necessary by bisection, the largest first, evenly spread over equal
/// ones; the placer then places the graph without these weights, with room for the copies of
/// prefetch + 1 of them. At last each that need not wait is taken back, or exchanged for a smaller
/// one. They wait on the host, and on the disk when the host is full. A graph without modules has
/// colocation units in their place. Update ops with waiting weights run there.
///
/// A placer of an entry with `homes` chooses itself: it sees one host and one disk. What it places
/// there waits there, and the first GPU that it uses computes it, as accelerate has it.
std::unique_ptr<Placer> with_offload(std::unique_ptr<Placer> placer, const PlacerEntry& entry,
                                     Options& options);

}  // namespace baechi
