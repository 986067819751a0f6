#include "validate/timing.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/error.h"

namespace baechi::validate {
namespace {

std::string_view measured_mode(SubmitMode mode) {
  return mode == SubmitMode::graph ? "graph" : "stream";
}

std::string_view direction(const ReplayPlan& plan, const Task& transfer) {
  if (plan.way != Way::host) return "";
  return transfer.device == Task::host ? "h2d" : "d2h";
}

/// Throws InputError unless the calibration knows what the plan is made of.
void check_known(const ReplayPlan& plan, const Calibration& calibration) {
  std::set<std::string> missing;
  const std::string_view mode = measured_mode(plan.mode);
  if (calibration.find_mode(mode) == nullptr) missing.insert(fmt::format("gaps of mode {}", mode));
  if (calibration.partitions.size() < static_cast<std::size_t>(plan.devices))
    missing.insert(
        fmt::format("{} of {} devices (it has {} partitions)",
                    static_cast<std::size_t>(plan.devices) - calibration.partitions.size(),
                    plan.devices, calibration.partitions.size()));
  for (const Task& t : plan.tasks) {
    if (t.transfer && transfer_of(plan, calibration, t) == nullptr)
      missing.insert(fmt::format("transfers of way {}{}{} in mode {}", to_text(plan.way),
                                 plan.way == Way::host ? " " : "", direction(plan, t), mode));
    if (!t.transfer && t.body.kind != BodyKind::spin &&
        calibration.find_op(to_text(t.body.kind)) == nullptr)
      missing.insert(fmt::format("ops of kind {}", to_text(t.body.kind)));
  }
  if (!missing.empty())
    throw InputError(fmt::format("{}: the calibration of '{}' does not have {}", plan.name,
                                 calibration.gpu, fmt::join(missing, ", ")));
}

Duration length_of(const ReplayPlan& plan, const Calibration& calibration, const Task& task) {
  if (!task.transfer) {
    const auto* op = calibration.find_op(to_text(task.body.kind), measured_mode(plan.mode));
    if (task.body.kind == BodyKind::spin && op == nullptr) return task.length;
    return rounded(op->time(task.body.amount()));
  }
  const auto* transfer = transfer_of(plan, calibration, task);
  const Duration moving = rounded(transfer->time(static_cast<double>(task.bytes)));
  return transfer->paced ? std::max(task.length, moving) : moving;
}

std::vector<std::vector<double>> slowdowns(const Calibration& calibration) {
  constexpr std::size_t kinds = all<BodyKind>().size();
  std::vector<std::vector<double>> table(kinds, std::vector<double>(kinds, 0.0));
  bool any = false;
  for (const auto& entry : calibration.interference) {
    const auto op = parse<BodyKind>(entry.op);
    const auto neighbour = parse<BodyKind>(entry.neighbour);
    if (!op || !neighbour) continue;
    double& cell = table[static_cast<std::size_t>(*op)][static_cast<std::size_t>(*neighbour)];
    cell = std::max(entry.per_neighbour.value, 0.0);
    any = any || cell > 0.0;
  }
  return any ? table : std::vector<std::vector<double>>{};
}

/// What the ops of a plan want of the memory, if the calibration knows what it has.
void set_demands(Timing& timing, const ReplayPlan& plan, const Calibration& calibration) {
  timing.capacity = calibration.bandwidth.capacity;
  if (timing.capacity <= 0.0) return;
  timing.demand.assign(plan.tasks.size(), 0.0);
  timing.sensitivity.assign(plan.tasks.size(), 0.0);
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const Task& t = plan.tasks[i];
    if (t.transfer) continue;
    const auto known = std::ranges::find(calibration.bandwidth.demands, to_text(t.body.kind),
                                         &Calibration::Bandwidth::Demand::kind);
    if (known == calibration.bandwidth.demands.end()) continue;
    timing.sensitivity[i] = known->sensitivity;
    timing.demand[i] = known->bytes_per_ns;
    if (t.body.kind == BodyKind::ew && timing.length[i] > Duration::zero())
      timing.demand[i] = t.body.amount() / static_cast<double>(timing.length[i].count());
  }
}

}  // namespace

Duration rounded(double ns) {
  return Duration{std::llround(std::max(ns, 0.0))};
}

const Calibration::Transfer* transfer_of(const ReplayPlan& plan, const Calibration& calibration,
                                         const Task& task) {
  return calibration.find_transfer(measured_mode(plan.mode), to_text(plan.way),
                                   direction(plan, task));
}

Timing timing_of(const ReplayPlan& plan, const Calibration* calibration, const Effects& effects) {
  Timing timing;
  for (const Task& t : plan.tasks) timing.length.push_back(t.length);
  if (calibration == nullptr) return timing;
  check_known(plan, *calibration);
  const Calibration::Mode& mode = *calibration->find_mode(measured_mode(plan.mode));
  if (effects.op_gap) timing.same_gap = rounded(mode.same_ns.value);
  if (effects.op_gap && !mode.after.empty()) {
    timing.gap_after.assign(all<BodyKind>().size(), timing.same_gap);
    for (const auto& after : mode.after)
      if (const auto kind = parse<BodyKind>(after.kind))
        timing.gap_after[static_cast<std::size_t>(*kind)] = rounded(after.same_ns.value);
  }
  if (effects.cross_gap) timing.cross_gap = rounded(mode.cross_ns.value);
  if (effects.cross_gap && mode.fan_in_ns != Estimate{})
    timing.fan_in_more =
        std::max(rounded(mode.fan_in_ns.value) - timing.cross_gap, Duration::zero());
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const Task& t = plan.tasks[i];
    if (effects.costs) timing.length[i] = length_of(plan, *calibration, t);
    if (!t.transfer) continue;
    const auto* known = transfer_of(plan, *calibration, t);
    Timing::Transfer& costs = timing.transfers[t.device == Task::host ? 1 : 0];
    if (effects.latency) costs.latency = rounded(known->latency_ns.value);
    costs.occupancy =
        effects.occupancy && effects.latency ? rounded(known->occupancy_ns.value) : costs.latency;
    costs.shared = effects.sharing && known->shared;
    costs.channel =
        effects.occupancy && effects.latency ? rounded(known->channel_ns.value) : costs.occupancy;
    costs.in_order = known->in_order;
  }
  if (effects.interference) {
    set_demands(timing, plan, *calibration);
    timing.slowdown = slowdowns(*calibration);
  }
  return timing;
}

}  // namespace baechi::validate
