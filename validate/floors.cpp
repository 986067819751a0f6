#include "validate/floors.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "validate/statistics.h"

namespace baechi::validate {
namespace {

using Key = std::pair<std::uint64_t, std::string>;  // hash of the plan, mode

std::map<Key, Samples> steps_of(const ValidationRun& run) {
  std::map<std::string, std::uint64_t> hash;
  for (const ReplayPlan& plan : run.plans)
    if (!plan.live_memory) hash[plan.name] = plan.hash;
  std::map<Key, Samples> steps;
  for (const StepRow& row : run.steps)
    if (const auto plan = hash.find(row.plan);
        plan != hash.end() && row.verdict == Verdict::ok && row.step)
      steps[{plan->second, row.mode}].push_back(static_cast<double>(row.step->count()));
  return steps;
}

std::string card(const ValidationRun& run) {
  if (!run.machine) return "";
  const auto& more = run.machine->more;
  const auto found = std::ranges::find(more, "card", &std::pair<std::string, std::string>::first);
  return found == more.end() ? "" : found->second;
}

}  // namespace

Floor floor_between(const ValidationRun& here, const ValidationRun& there) {
  const std::string ours = card(here), theirs = card(there);
  Floor floor{.between = ours.empty() || theirs.empty() ? "runs"
                         : ours == theirs               ? "visits"
                                                        : "cards",
              .path = there.path};
  const auto before = steps_of(here), after = steps_of(there);
  Samples off;
  for (const auto& [key, steps] : before)
    if (const auto again = after.find(key); again != after.end())
      off.push_back(std::abs(median(again->second) / median(steps) - 1.0));
  floor.plans = off.size();
  if (off.empty()) return floor;
  floor.median = median(off);
  floor.p95 = quantile(off, 0.95);
  return floor;
}

}  // namespace baechi::validate
