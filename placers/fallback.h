/// The option `fallback`, which every placer has: a placement where the placer finds none.
#pragma once
#include <memory>

#include "placers/interface/placer.h"
#include "placers/interface/registry.h"

namespace baechi {

/// Reads the option `fallback` of a placer of `entry`. Returns `placer` itself if the option is
/// off; otherwise a placer whose answer is that of `placer` if its step fits, and else
///   where only the step behind the graph that placers see (Watcher::step) runs out of memory: what
///     `placer` answers with less memory on the devices that ran out, by the factor by which their
///     peak was above the limit, asked up to eight times;
///   a placement that find_feasible() finds: `placed_by` is then "fallback:", and who found it.
/// `detail` says which. Throws InfeasibleError if there is no such placement, and says why
/// `placer` had none.
std::unique_ptr<Placer> with_fallback(std::unique_ptr<Placer> placer, const PlacerEntry& entry,
                                      Options& options);

}  // namespace baechi
