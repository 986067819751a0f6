#include "validate/set_worth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "validate/plan/timeline.h"

namespace baechi::validate {

namespace {

Duration step_with(const ReplayPlan& plan, const Calibration& calibration, const Effects& effects) {
  return predict(plan, timing_of(plan, &calibration, effects)).step();
}

/// Parts of the step in which no op runs, and in which two run.
PlanWorth busy_shares(const ReplayPlan& plan, const Replay& replay) {
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
  return {.none = static_cast<double>(none.count()) / whole,
          .two = static_cast<double>(two.count()) / whole};
}

}  // namespace

LayerTarget target_of(Layer layer) {
  switch (layer) {
    case Layer::queues:
      return {0.01, 0.02};
    case Layer::real:
      return {0.025, 0.06};
    case Layer::contended:
      return {0.05, 0.12};
  }
  return {};
}

Layer layer_of(const ReplayPlan& plan, const Calibration& calibration, Duration step) {
  const bool exact = plan.way == Way::link && std::ranges::all_of(plan.tasks, [](const Task& t) {
                       return t.transfer || t.body.kind == BodyKind::spin;
                     });
  if (exact) return Layer::queues;
  Effects alone;
  alone.interference = false;
  const auto undisturbed = static_cast<double>(step_with(plan, calibration, alone).count());
  return static_cast<double>(step.count()) > 1.01 * undisturbed ? Layer::contended : Layer::real;
}

PlanWorth worth_of(const ReplayPlan& plan, const Replay& replay, const Calibration* calibration) {
  PlanWorth worth = busy_shares(plan, replay);
  const Duration step = replay.step();
  if (calibration == nullptr || step == Duration::zero()) return worth;
  const auto bare = static_cast<double>(step_with(plan, *calibration, Effects::bare()).count());
  const double error = std::abs(bare / static_cast<double>(step.count()) - 1.0);
  worth.overheads = error / target_of(layer_of(plan, *calibration, step)).median;
  return worth;
}

void SetWorth::add(const std::string& graph, PlanWorth worth, std::uint64_t placement) {
  Graph& g = graphs_[graph];
  g.none.push_back(worth.none);
  g.two.push_back(worth.two);
  g.overheads.push_back(worth.overheads);
  g.placements.insert(placement);
}

std::vector<std::string> SetWorth::lines() const {
  std::vector<std::string> all;
  for (const auto& [name, g] : graphs_)
    all.push_back(fmt::format(
        "{}: {} placements, {} distinct; in the median no op runs in {:.0f} % of the step, two "
        "devices or more are busy in {:.0f} %, and a model without overheads is off by {:.1f} "
        "times the target",
        name, g.two.size(), g.placements.size(), 100.0 * median(g.none), 100.0 * median(g.two),
        median(g.overheads)));
  return all;
}

std::string SetWorth::lacking(const LeastWorth& least) const {
  std::string text;
  const auto add = [&](const std::string& line) { text += (text.empty() ? "" : "\n") + line; };
  for (const auto& [name, g] : graphs_) {
    const auto enough =
        std::ranges::count_if(g.two, [&](double share) { return share >= least.busy; });
    if (least.busy > 0.0 && 2 * static_cast<std::size_t>(enough) < g.two.size())
      add(fmt::format("{}: only {} of {} placements keep two devices busy for {:.0f} % of the step",
                      name, enough, g.two.size(), 100.0 * least.busy));
    if (median(g.overheads) < least.overheads)
      add(fmt::format(
          "{}: a model without overheads is off by {:.1f} times the target in the median, not by "
          "{:g} times: these plans cannot tell it from ours",
          name, median(g.overheads), least.overheads));
    if (g.placements.size() < least.distinct)
      add(fmt::format("{}: only {} distinct placements, not {}", name, g.placements.size(),
                      least.distinct));
  }
  return text;
}

}  // namespace baechi::validate
