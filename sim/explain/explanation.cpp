#include "sim/explain/explanation.h"

#include <algorithm>
#include <map>

namespace baechi {
namespace {

/// Costs with free transfers.
class FreeTransfers final : public CostModel {
 public:
  explicit FreeTransfers(const CostModel& costs) : costs_(costs) {}
  Duration compute(OpId op, DeviceId device) const override { return costs_.compute(op, device); }
  Duration transfer(TensorId, DeviceId, DeviceId) const override { return {}; }
  Duration latency(TensorId, DeviceId, DeviceId) const override { return {}; }
  Duration collective(const Collective& c, std::span<const DeviceId> devices) const override {
    return costs_.collective(c, devices);
  }
  bool same_compute(DeviceId a, DeviceId b) const override { return costs_.same_compute(a, b); }
  bool uniform_transfers() const override { return true; }

 private:
  const CostModel& costs_;
};

/// How long a collective takes on its members' devices.
Duration time_of(const Collective& c, const Problem& problem, const Placement& placement) {
  std::vector<DeviceId> devices;
  for (const OpId v : c.member_ids()) devices.push_back(placement.device[v]);
  return problem.costs.collective(c, devices);
}

/// The longest path with the times of ops and collectives on their devices.
Duration longest_path(const Problem& problem, const Placement& placement) {
  IdVector<OpId, Duration> end(problem.graph.num_ops());
  Duration longest{};
  for (const OpId v : problem.graph.ops()) {
    for (const OpId u : problem.graph.predecessors(v)) end[v] = std::max(end[v], end[u]);
    const CollectiveId c = problem.graph.collective_of(v);
    if (c == no_collective) {
      end[v] += problem.costs.compute(v, placement.device[v]);
    } else if (const Collective& all = problem.graph.collectives()[c];
               v == *(all.member_ids().end() - 1)) {  // members' ids are adjacent
      Duration last{};
      for (const OpId member : all.member_ids()) last = std::max(last, end[member]);
      last += time_of(all, problem, placement);
      for (const OpId member : all.member_ids()) end[member] = last;
    }
    longest = std::max(longest, end[v]);
  }
  return longest;
}

WhatIf what_if(const Problem& problem, const Placement& placement, Duration step_time) {
  const FreeTransfers costs(problem.costs);
  EngineOptions engine = problem.engine;
  engine.transfers = Transfers::parallel;
  engine.overlap = true;
  engine.count_memory = false;
  const Duration free =
      simulate({problem.graph, problem.cluster, costs, engine}, placement).makespan;
  const Duration path = longest_path(problem, placement);
  return {.dependencies = path, .devices = free - path, .transfers = step_time - free};
}

class Idling {
 public:
  Idling(const Causes& causes, TimePoint end) : causes_(causes), end_(end) {}

  DeviceIdle of(DeviceId d) {
    DeviceIdle idle;
    TimePoint since{};
    for (const OpId v : causes_.ran(d)) {
      if (causes_.start(v) > since) {
        for (const PathPart& part : causes_.before(v, since)) {
          idle.waiting[static_cast<std::size_t>(part.kind)] += part.length();
          if (part.tensor) blame(part);
        }
      }
      since = causes_.end(v);
      idle.busy += causes_.end(v) - causes_.start(v);
    }
    idle.nothing_left = end_ - since;
    return idle;
  }

  std::vector<BlockingTensor> blocking() const {
    std::vector<BlockingTensor> all;
    for (const auto& [key, tensor] : tensors_) all.push_back(tensor);
    std::ranges::stable_sort(all, std::greater{},
                             [](const BlockingTensor& t) { return t.moving + t.waiting; });
    return all;
  }

 private:
  void blame(const PathPart& part) {
    BlockingTensor& tensor = tensors_[{*part.tensor, part.to}];
    tensor.tensor = *part.tensor;
    tensor.src = part.device;
    tensor.dst = part.to;
    (part.kind == PathKind::transfer ? tensor.moving : tensor.waiting) += part.length();
  }

  const Causes& causes_;
  TimePoint end_;
  std::map<std::pair<TensorId, DeviceId>, BlockingTensor> tensors_;
};

}  // namespace

Explanation explain(const Problem& problem, const Placement& placement, const Timeline& timeline,
                    const StepResult& step) {
  const Causes causes(problem, placement, timeline);
  Explanation e{.step_time = step.makespan};
  e.critical_path = critical_path_of(problem, placement, timeline, step);
  Idling idling(causes, TimePoint{} + step.makespan);
  for (const DeviceId d : problem.cluster.devices()) e.devices.push_back(idling.of(d));
  e.blocking = idling.blocking();
  e.what_if = what_if(problem, placement, step.makespan);
  return e;
}

}  // namespace baechi
