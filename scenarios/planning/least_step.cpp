#include "scenarios/planning/plan_search.h"

namespace baechi {
namespace {

struct PassTimes {
  std::array<Duration, 3> path{};
  std::map<LaneKind, std::array<Duration, 3>> lanes{};  // kernels, collectives, launches
  std::map<LaneKind, std::array<Duration, 3>> ahead{};  // and what runs ahead of its pass
  std::array<std::optional<Duration>, 3> sent{};        // when the pass of another stage may begin
  Duration last{};  // longest path through the backward pass and the update together

  Duration pass(Phase phase) const {
    const auto i = static_cast<std::size_t>(phase);
    Duration longest = path[i];
    for (const auto& [lane, sums] : lanes) longest = std::max(longest, sums[i]);
    return longest;
  }
  /// The last backward pass and the update, whose sums of gradients may begin before it ends.
  Duration end() const {
    Duration longest =
        std::max(last, pass(Phase::backward) + lanes.at(compute_lane)[std::size_t{2}]);
    for (const auto& [lane, sums] : lanes) longest = std::max(longest, sums[1] + sums[2]);
    return longest;
  }
};

/// The ops of one micro-batch on their stages.
struct PlacedOps {
  const OpGraph& graph;
  const IdVector<OpId, DeviceId>& device;
  const Cluster& cluster;
  std::int64_t micro_batches = 1;
  bool plain = false;
};

/// Whether the all_gather `v` of a pass may run ahead of the pass.
bool runs_ahead(const PlacedOps& placed, OpId v) {
  const OpGraph& graph = placed.graph;
  return graph.op(v).phase != Phase::update &&
         std::ranges::none_of(graph.predecessors(v), [&](OpId u) {
           return graph.op(u).phase == graph.op(v).phase && placed.device[u] == placed.device[v];
         });
}

/// The stages in their order.
std::map<DeviceId, PassTimes> times_of(const PlacedOps& placed, IdVector<OpId, Duration> times) {
  const auto& [graph, device, cluster, micro_batches, plain] = placed;
  std::map<DeviceId, PassTimes> stages;
  for (const Collective& c : graph.collectives()) {
    const DeviceId d = device[c.first];
    const Duration time = cluster.collectives().time(c, std::array{d}, cluster);
    if (c.kind != CollectiveKind::all_gather || !runs_ahead(placed, c.first))
      times[c.first] = time;
    else
      stages[d].ahead[graph.lane(c.first)][static_cast<std::size_t>(graph.op(c.first).phase)] +=
          time;
  }
  IdVector<OpId, Duration> end(graph.num_ops(), Duration{}), last = end;
  for (const OpId v : graph.ops()) {
    const Op& op = graph.op(v);
    Duration start{}, since_backward{};
    for (const EdgeId e : graph.in_edges(v)) {
      const OpId src = graph.edge(e).src;
      if (device[src] != device[v]) continue;
      if (graph.op(src).phase == op.phase) start = std::max(start, end[src]);
      since_backward = std::max(since_backward, last[src]);
    }
    end[v] = start + times[v];
    const auto of = static_cast<std::size_t>(op.phase);
    const bool sends = std::ranges::any_of(graph.out_edges(v), [&](EdgeId e) {
      const OpId reader = graph.edge(e).dst;
      return graph.op(reader).phase == op.phase && device[reader] != device[v];
    });
    PassTimes& stage = stages[device[v]];
    if (sends) stage.sent[of] = std::min(stage.sent[of].value_or(end[v]), end[v]);
    stage.path[of] = std::max(stage.path[of], end[v]);
    stage.lanes[op.lane][of] += times[v];
    if (op.phase == Phase::forward) continue;
    last[v] = since_backward + times[v];
    stage.last = std::max(stage.last, last[v]);
  }
  return stages;
}

Duration least(const PlacedOps& placed, IdVector<OpId, Duration> times) {
  Duration forward{}, tail{}, least{};
  const std::int64_t micro_batches = placed.micro_batches;
  for (const auto& [device, stage] : times_of(placed, std::move(times))) {
    for (auto [lane, sums] : stage.lanes) {
      const auto ahead = stage.ahead.find(lane);
      for (std::size_t i = 0; ahead != stage.ahead.end() && i < sums.size(); ++i)
        sums[i] += ahead->second[i];
      least = std::max(least, micro_batches * (sums[0] + sums[1]) + sums[2]);
    }
    if (!placed.plain) continue;
    const Duration f = stage.pass(Phase::forward), b = stage.pass(Phase::backward);
    // From the start of the stage's last backward pass: its own end, or that of the stages before.
    tail = std::max(stage.end(), stage.sent[std::size_t{1}].value_or(Duration{}) + tail);
    least = std::max(least, forward + micro_batches * f + (micro_batches - 1) * b + tail);
    forward += stage.sent[std::size_t{0}].value_or(f);
  }
  return least;
}

/// Bytes of a stage: persistent ones, and those that a micro-batch keeps from its forward to its
/// backward pass.
struct StageBytes {
  Bytes persistent{}, kept{};
};

/// Where an output is needed.
struct Readers {
  std::vector<DeviceId> forward{}, backward{};
};

/// Adds what the outputs of `v` take on stages that read them in both passes, or make them in the
/// first. `readers` is used again from op to op.
void add_kept(const OpGraph& graph, const IdVector<OpId, DeviceId>& device, OpId v,
              Readers& readers, IdVector<DeviceId, StageBytes>& stages) {
  auto& [forward, backward] = readers;
  for (const TensorId t : graph.outputs(v)) {
    forward.clear(), backward.clear();
    if (graph.op(v).phase == Phase::forward) forward.push_back(device[v]);
    for (const EdgeId e : graph.readers(t)) {
      const OpId reader = graph.edge(e).dst;
      if (graph.op(reader).phase == Phase::forward) forward.push_back(device[reader]);
      if (graph.op(reader).phase == Phase::backward) backward.push_back(device[reader]);
    }
    std::ranges::sort(backward);
    backward.erase(std::ranges::unique(backward).begin(), backward.end());
    const Tensor& tensor = graph.tensor(t);
    for (const DeviceId d : backward)
      if (std::ranges::find(forward, d) != forward.end())
        stages[d].kept += d == device[v] ? tensor.held() : tensor.copied();
  }
}

}  // namespace

Bytes least_memory(const OpGraph& rank, const TrainingJob& job, const ParallelPlan& plan) {
  const auto stages = static_cast<std::size_t>(plan.pipeline);
  IdVector<OpId, DeviceId> part;
  for (const std::int64_t p : parts_of_ops(rank, plan)) part.push_back(static_cast<DeviceId>(p));
  const DataParallelOptions shares = plan.data_parallel(1);
  IdVector<DeviceId, StageBytes> parts(static_cast<std::size_t>(plan.pipeline * plan.chunks));
  Readers readers;
  for (const OpId v : rank.ops()) {
    add_kept(rank, part, v, readers, parts);
    const Bytes own = rank.op(v).persistent;
    if (own == Bytes{}) continue;
    const std::int64_t of = shares.shares(rank.op(v).phase, is_expert(rank, v));
    parts[part[v]].persistent += Bytes{(own.count + of - 1) / of};
  }
  // As many passes as a stage begins before its first backward pass; with more micro-batches these
  // are as many, or more.
  const pipeline::Schedule schedule = plan.passes().make(
      {.stages = stages,
       .laps = static_cast<std::size_t>(plan.chunks),
       .micro_batches = std::min(static_cast<std::size_t>(plan.micro_batches(job.batch)),
                                 2 * stages * static_cast<std::size_t>(plan.chunks))});
  Bytes most{};
  for (std::size_t s = 0; s < stages; ++s) {
    Bytes bytes{};
    for (const DeviceId p : parts.ids())
      if (index(p) % stages == s) bytes += parts[p].persistent;
    for (const pipeline::Pass& pass : schedule.passes[s]) {
      if (pass.kind != pipeline::PassKind::forward) break;
      bytes += parts[DeviceId{pass.chunk}].kept;
    }
    most = std::max(most, bytes);
  }
  return most;
}

Duration least_step(const ParallelStep& step, const DeviceModel& gpu) {
  return least({.graph = step.graph(),
                .device = step.device(),
                .cluster = step.cluster(),
                .micro_batches = step.micro_batches(),
                .plain = step.plain()},
               step.times(gpu));
}

Duration early_least_step(const OpGraph& rank, IdVector<OpId, Duration> times,
                          const TrainingJob& job, const ParallelPlan& plan,
                          const Cluster& cluster) {
  for (const OpId v : rank.ops())
    if (rank.op(v).phase == Phase::update) times[v] = {};  // ZeRO divides it
  const auto device = devices_of_stages(rank, plan, devices_of_a_node(cluster));
  return least({.graph = rank,
                .device = device,
                .cluster = cluster,
                .micro_batches = plan.micro_batches(job.batch),
                .plain = can_plan(plan.passes())},
               std::move(times));
}

}  // namespace baechi
