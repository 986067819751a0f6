/// What learning does without a network: chances for each block, learned for one graph.
#pragma once
#include <atomic>

#include "placers/learned/found.h"
#include "placers/learned/training.h"

namespace baechi::learned {

/// Free scores for each block and device, by REINFORCE as Training does it: what the network adds
/// is what this lacks. `stop`: as Watcher::stop, or null.
Found learn_scores(const Environment& environment, const TrainingPlan& plan,
                   const std::atomic<bool>* stop);

/// The cross-entropy method: draws 100 placements, takes the 10 best, moves the chances 70 % of the
/// way to their shares. Source: Rubinstein, "The cross-entropy method for combinatorial and
/// continuous optimization", 1999; as a placer: Post (Gao et al., NeurIPS 2018).
Found cross_entropy(const Environment& environment, const TrainingPlan& plan,
                    const std::atomic<bool>* stop);

}  // namespace baechi::learned
