/// The option `fallback`, which every placer has: a placement of another algorithm where the placer
/// finds none.
#pragma once
#include <memory>

#include "placers/interface/placer.h"
#include "placers/interface/registry.h"

namespace baechi {

/// Reads the option `fallback` of a placer of `entry`. Returns `placer` itself if the option is
/// off; otherwise a placer that returns the placement of `placer` if its step fits, and else
/// - if only the executed step (Watcher::step) runs out of memory: the placement that `placer`
///   finds with less memory on the devices that ran out, reduced by the factor by which their peak
///   exceeds the limit, in at most eight attempts;
/// - a placement of find_feasible(): `placed_by` is then "fallback:" and the name of its placer.
/// `detail` says which. Throws InfeasibleError if there is no such placement, with the reason why
/// `placer` had none.
std::unique_ptr<Placer> with_fallback(std::unique_ptr<Placer> placer, const PlacerEntry& entry,
                                      Options& options);

}  // namespace baechi
