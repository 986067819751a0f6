#include "scenarios/planning/step_formulas.h"

#include <algorithm>

namespace baechi {

double flushed_step(std::span<const StageSeconds> stages, std::int64_t micro_batches) {
  double all = 0.0, longest = 0.0, last = 0.0;
  for (const StageSeconds& stage : stages) {
    all += stage.passes;
    longest = std::max(longest, stage.passes);
    last = std::max(last, stage.last);
  }
  return all + static_cast<double>(micro_batches - 1) * longest + last;
}

}  // namespace baechi
