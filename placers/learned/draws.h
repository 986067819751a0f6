/// Placements drawn from a policy that is not trained any more.
#pragma once
#include <atomic>
#include <span>

#include "placers/learned/found.h"

namespace baechi::learned {

/// Improves `found`, or, if it has no devices, begins it: by the likeliest placement of the policy,
/// then by `samples` draws. Each begins with the best so far and draws a stretch of the list order
/// anew (Episode::redraw()); lengths are as likely on each scale, from one bundle to all. One draw
/// in four is taken as it is; else there are Evaluator::estimates(), and the one with the least
/// estimate is taken. What is taken is simulated: one evaluation each. It becomes the
/// best unless it is worse. Estimates know values alone, so there are none as long as the best does
/// not fit. More samples are never worse. `stop`: as Watcher::stop, or null.
void draw_placements(const Environment& environment, std::span<const double> weights,
                     std::size_t samples, std::uint64_t seed, const std::atomic<bool>* stop,
                     Found& found);

}  // namespace baechi::learned
