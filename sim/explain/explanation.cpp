#include "sim/explain/explanation.h"

#include "sim/engine/channels.h"
#include "sim/error.h"

namespace baechi {
namespace {

constexpr std::uint32_t none = ~std::uint32_t{0};

/// Appends the part of `part` after `from`. `back` is in reverse chronological order.
void add(std::vector<PathPart>& back, PathPart part, TimePoint from, bool also_empty = false) {
  part.start = std::max(part.start, from);
  if (part.end > part.start || (also_empty && part.end == part.start)) back.push_back(part);
}

}  // namespace

Causes::Causes(const Problem& problem, const Placement& placement, const Timeline& timeline)
    : problem_(problem),
      placement_(placement),
      transfers_(timeline.transfers()),
      start_(problem.graph.num_ops()),
      end_(problem.graph.num_ops()),
      ran_(problem.cluster.num_devices(),
           std::vector<std::vector<OpId>>(problem.graph.lanes().size())),
      arrived_by_(problem.graph.num_edges(), none) {
  BAECHI_CHECK(problem.engine.semantics == Semantics::event, "a step of another semantics");
  BAECHI_CHECK(timeline.ops().size() == problem.graph.num_ops(), "a step that did not complete");
  for (const auto& [op, device, start, end] : timeline.ops()) {
    start_[op] = start;
    end_[op] = end;
    ran_[device][index(problem.graph.lane(op))].push_back(op);
  }
  match_transfers(timeline);
}

/// With the cache one transfer serves all readers on a device; without it the transfers of a tensor
/// serve its readers there in the order of their edges.
void Causes::match_transfers(const Timeline& timeline) {
  std::map<std::pair<TensorId, DeviceId>, std::vector<std::uint32_t>> sent;
  for (std::uint32_t i = 0; i < timeline.transfers().size(); ++i)
    sent[{transfers_[i].tensor, transfers_[i].dst}].push_back(i);
  for (auto& [key, all] : sent) {
    std::ranges::stable_sort(all, {}, [&](std::uint32_t i) { return transfers_[i].start; });
    std::size_t next = 0;
    for (const EdgeId e : problem_.graph.readers(key.first)) {
      if (placement_.device[problem_.graph.edge(e).dst] != key.second) continue;
      arrived_by_[e] = all[next];
      if (next + 1 < all.size()) ++next;
    }
  }
}

Causes::Arrival Causes::last_input(OpId v) const {
  Arrival last;
  for (const EdgeId e : problem_.graph.in_edges(v)) {
    Arrival arrival{.producer = problem_.graph.edge(e).src};
    arrival.at = end_[arrival.producer];
    if (arrived_by_[e] != none) {
      arrival.transfer = arrived_by_[e];
      arrival.at = transfers_[*arrival.transfer].end;
    }
    if (last.producer == no_op || arrival.at > last.at) last = arrival;
  }
  return last;
}

PathKind Causes::kind(OpId v) const {
  return problem_.graph.collective_of(v) == no_collective ? PathKind::compute
                                                          : PathKind::collective;
}

PathPart Causes::part_of(OpId v) const {
  const DeviceId d = placement_.device[v];
  return {.kind = kind(v), .op = v, .device = d, .to = d, .start = start_[v], .end = end_[v]};
}

/// The member of the collective of `v` whose inputs arrived last; `v` if it is in none.
OpId Causes::last_member(OpId v) const {
  const CollectiveId c = problem_.graph.collective_of(v);
  if (c == no_collective) return v;
  OpId last = no_op;
  for (const OpId member : problem_.graph.collectives()[c].member_ids())
    if (last == no_op || last_input(member).at > last_input(last).at) last = member;
  return last;
}

/// The op that ran before `v` on its lane; no_op if `v` was the first.
OpId Causes::run_before(OpId v) const {
  const std::vector<OpId>& ran = ran_[placement_.device[v]][index(problem_.graph.lane(v))];
  auto at = std::ranges::lower_bound(ran, start_[v], {}, [&](OpId u) { return start_[u]; });
  at = std::find(at, ran.end(), v);
  return at == ran.begin() ? no_op : *(at - 1);
}

/// A collective waits for the lanes of all its members.
void Causes::add_wait(std::vector<PathPart>& back, OpId v, TimePoint since, TimePoint from) const {
  PathPart wait = part_of(v);
  wait.kind = PathKind::wait_device;
  wait.start = since;
  wait.end = start_[v];
  const auto look_behind = [&](OpId member) {
    const OpId before = run_before(member);
    if (before == no_op || end_[before] <= since) return;
    if (wait.behind != no_op && end_[before] <= end_[wait.behind]) return;
    wait.behind = before;
    wait.device = wait.to = placement_.device[member];
  };
  if (const CollectiveId c = problem_.graph.collective_of(v); c == no_collective) {
    look_behind(v);
  } else {
    for (const OpId member : problem_.graph.collectives()[c].member_ids()) look_behind(member);
  }
  add(back, wait, from);
}

/// Without overlap a transfer may wait for a computing device: such times become wait_device.
void Causes::add_channel_wait(std::vector<PathPart>& back, PathPart part, TimePoint from) const {
  part.kind = PathKind::wait_channel;
  if (problem_.engine.overlap) return add(back, part, from);
  std::vector<Span> computing;
  for (const DeviceId d : {part.device, part.to}) {
    const std::vector<OpId>& ran = ran_[d].front();
    for (auto it = std::ranges::lower_bound(ran, part.start, {}, [&](OpId u) { return end_[u]; });
         it != ran.end() && start_[*it] < part.end; ++it)
      computing.push_back({std::max(start_[*it], part.start), std::min(end_[*it], part.end)});
  }
  std::ranges::sort(computing, std::greater{}, &Span::end);
  TimePoint at = part.end;
  for (const Span& span : computing) {
    if (span.start >= at) continue;
    PathPart free = part, busy = part;
    free.start = std::min(span.end, at);
    free.end = at;
    add(back, free, from);
    busy.kind = PathKind::wait_device;
    busy.start = span.start;
    busy.end = free.start;
    add(back, busy, from);
    at = span.start;
  }
  part.end = at;
  add(back, part, from);
}

void Causes::add_transfer(std::vector<PathPart>& back, const Arrival& arrival,
                          TimePoint from) const {
  const Timeline::TransferSlice& t = transfers_[*arrival.transfer];
  const auto part = [&](PathKind kind, TimePoint start, TimePoint end) {
    return PathPart{.kind = kind,
                    .op = arrival.producer,
                    .tensor = t.tensor,
                    .device = t.src,
                    .to = t.dst,
                    .start = start,
                    .end = end};
  };
  const TimePoint produced = end_[arrival.producer];
  if (problem_.engine.transfers != Transfers::staged) {
    add(back, part(PathKind::transfer, t.start, t.end), from);
    add_channel_wait(back, part(PathKind::wait_channel, produced, t.start), from);
    return;
  }
  const Stages times = stages(problem_.costs, t.tensor, t.src, t.dst);
  add(back, part(PathKind::transfer, t.end - times.in, t.end), from);
  add_channel_wait(back, part(PathKind::wait_channel, t.start + times.out, t.end - times.in), from);
  add(back, part(PathKind::transfer, t.start, t.start + times.out), from);
  add_channel_wait(back, part(PathKind::wait_channel, produced + times.latency, t.start), from);
  add(back, part(PathKind::transfer, produced, produced + times.latency), from);
}

std::vector<PathPart> Causes::before(OpId op, TimePoint from) const {
  std::vector<PathPart> back;
  for (OpId v = op; start_[v] > from;) {
    v = last_member(v);
    const Arrival input = last_input(v);
    add_wait(back, v, input.producer == no_op ? TimePoint{} : input.at, from);
    if (input.producer == no_op) break;
    if (input.transfer) add_transfer(back, input, from);
    v = input.producer;
    if (end_[v] < from) break;
    add(back, part_of(v), from, start_[v] >= from);
  }
  std::ranges::reverse(back);
  return back;
}

std::vector<PathPart> Causes::chain(OpId last, TimePoint from) const {
  std::vector<PathPart> parts = before(last, from);
  parts.push_back(part_of(last));
  parts.back().start = std::max(start_[last], from);
  return parts;
}

OpId Causes::last_op() const {
  OpId last = no_op;
  for (const OpId v : problem_.graph.ops())
    if (last == no_op || end_[v] > end_[last]) last = v;
  return last;
}

std::vector<PathPart> critical_path_of(const Problem& problem, const Placement& placement,
                                       const Timeline& timeline, const StepResult& step) {
  if (step.oom || problem.engine.semantics != Semantics::event) return {};
  const Causes causes(problem, placement, timeline);
  const OpId last = causes.last_op();
  return last == no_op ? std::vector<PathPart>{} : causes.chain(last);
}

UnlimitedPathTimes unlimited_path_times(const Problem& problem, const Placement& placement) {
  Problem unlimited{problem.graph, problem.cluster, problem.costs, problem.engine};
  unlimited.engine.enforce_memory = false;
  Timeline timeline;
  const StepResult result = simulate(unlimited, placement, std::array<StepObserver*, 1>{&timeline});
  UnlimitedPathTimes times{};
  for (const PathPart& part : critical_path_of(unlimited, placement, timeline, result))
    times[static_cast<std::size_t>(part.kind)] += part.length();
  times.back() = result.makespan;
  return times;
}

namespace {

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
