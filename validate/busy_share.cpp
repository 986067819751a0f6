#include "validate/busy_share.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "validate/plan/quantiles.h"

namespace baechi::validate {

BusyShare busy_share(const ReplayPlan& plan, const Replay& replay) {
  std::vector<std::pair<Duration, int>> changes;  // a device's lane 0 runs one op at a time
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    if (plan.tasks[i].transfer || plan.tasks[i].queue > 0) continue;
    changes.emplace_back(replay.start[i], 1);
    changes.emplace_back(replay.end[i], -1);
  }
  std::ranges::sort(changes);
  Duration before{}, none{}, two{};
  int running = 0;
  for (const auto& [at, change] : changes) {
    if (running == 0) none += at - before;
    if (running >= 2) two += at - before;
    before = at;
    running += change;
  }
  const Duration step = replay.step();
  if (step == Duration::zero()) return {};
  none += step - before;
  const auto whole = static_cast<double>(step.count());
  return {static_cast<double>(none.count()) / whole, static_cast<double>(two.count()) / whole};
}

void BusyShares::add(const std::string& graph, BusyShare share, std::uint64_t placement) {
  Graph& g = graphs_[graph];
  g.none.push_back(share.none);
  g.two.push_back(share.two);
  g.placements.insert(placement);
}

std::vector<std::string> BusyShares::lines() const {
  std::vector<std::string> all;
  for (const auto& [name, g] : graphs_)
    all.push_back(fmt::format(
        "{}: {} placements, {} distinct; in the median no op runs in {:.0f} % of the step, two "
        "devices or more are busy in {:.0f} %",
        name, g.two.size(), g.placements.size(), 100.0 * median(g.none), 100.0 * median(g.two)));
  return all;
}

std::string BusyShares::lacking(double least, std::size_t distinct) const {
  std::string text;
  const auto add = [&](const std::string& line) { text += (text.empty() ? "" : "\n") + line; };
  for (const auto& [name, g] : graphs_) {
    const auto enough = std::ranges::count_if(g.two, [&](double share) { return share >= least; });
    if (least > 0.0 && 2 * static_cast<std::size_t>(enough) < g.two.size())
      add(fmt::format("{}: only {} of {} placements keep two devices busy for {:.0f} % of the step",
                      name, enough, g.two.size(), 100.0 * least));
    if (g.placements.size() < distinct)
      add(fmt::format("{}: only {} distinct placements, not {}", name, g.placements.size(),
                      distinct));
  }
  return text;
}

}  // namespace baechi::validate
