/// Plans of equal stages in data, tensor and pipeline parallelism: the part that does not depend on
/// the architecture.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "scenarios/studies/codesign/design_plans.h"

namespace baechi {

/// The times of a block's passes on one architecture, including reductions over ranks.
struct LayerSeconds {
  double forward = 0.0, backward = 0.0, update = 0.0;
};

class FlushPlans {
 public:
  /// Enumerates the plans of `works` that fit.
  FlushPlans(std::span<const TrainingWork> works, std::int64_t batch, const Cluster& cluster);
  bool empty() const { return plans_.empty(); }

  /// `seconds` [works][kinds]
  std::optional<DesignPlan> best(const std::vector<std::vector<LayerSeconds>>& seconds) const;

  /// A lower bound on all plans if all blocks of a work together take at least `sums` [works]: the
  /// longest stage takes at least an even part, and the time of its link. Infinite if there is no
  /// plan.
  double least(const std::vector<LayerSeconds>& sums) const;

 private:
  /// Blocks [begin, end) of a work.
  struct Stage {
    std::size_t begin = 0, end = 0;
    double send = 0.0;  // seconds per micro-batch
    double sum = 0.0;   // seconds per step: gradient reduction
  };
  struct Candidate {
    std::size_t work = 0;
    std::int64_t data = 1, micro_batches = 1;
    bool recompute = false;
    std::vector<Stage> stages;
    double longest_send = 0.0, longest_sum = 0.0;  // of the stages
  };
  bool fits(const Candidate& plan, Bytes memory) const;

  std::span<const TrainingWork> works_;
  std::vector<Candidate> plans_;
};

}  // namespace baechi
