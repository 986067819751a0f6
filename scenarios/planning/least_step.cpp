#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "scenarios/planning/plan_search.h"
#include "sim/cluster/collectives.h"

namespace baechi {
namespace {

/// Times of the three passes of a stage, by phase.
struct PassTimes {
  std::array<Duration, 3> path{};
  std::map<LaneKind, std::array<Duration, 3>> lanes{};  // kernels, collectives, launches

  Duration pass(Phase phase) const {
    const auto i = static_cast<std::size_t>(phase);
    Duration longest = path[i];
    for (const auto& [lane, sums] : lanes) longest = std::max(longest, sums[i]);
    return longest;
  }
};

/// The stages in their order. `gathers`: false takes weights to be there at once.
std::map<DeviceId, PassTimes> times_of(const ParallelStep& step, IdVector<OpId, Duration> times,
                                       bool gathers) {
  const OpGraph& graph = step.graph();
  for (const Collective& c : graph.collectives())
    if (gathers || c.kind != CollectiveKind::all_gather)
      times[c.first] =
          step.cluster().collectives().time(c, std::array{step.device()[c.first]}, step.cluster());
  std::map<DeviceId, PassTimes> stages;
  IdVector<OpId, Duration> end(graph.num_ops(), Duration{});
  for (const OpId v : graph.ops()) {
    const Op& op = graph.op(v);
    Duration start{};
    for (const EdgeId e : graph.in_edges(v)) {
      const OpId src = graph.edge(e).src;
      if (graph.op(src).phase == op.phase && step.device()[src] == step.device()[v])
        start = std::max(start, end[src]);
    }
    end[v] = start + times[v];
    const auto phase = static_cast<std::size_t>(op.phase);
    PassTimes& stage = stages[step.device()[v]];
    stage.path[phase] = std::max(stage.path[phase], end[v]);
    stage.lanes[op.lane][phase] += times[v];
  }
  return stages;
}

/// Bytes of a stage: persistent ones, and those that a micro-batch keeps from its forward to its
/// backward pass.
struct StageBytes {
  Bytes persistent{}, kept{};
};

/// Adds what the outputs of `v` take on stages that read them in both passes, or make them in the
/// first.
void add_kept(const ParallelStep& step, OpId v, std::map<DeviceId, StageBytes>& stages) {
  const OpGraph& graph = step.graph();
  for (const TensorId t : graph.outputs(v)) {
    std::set<DeviceId> forward, backward;  // where it is needed
    if (graph.op(v).phase == Phase::forward) forward.insert(step.device()[v]);
    for (const EdgeId e : graph.readers(t)) {
      const OpId reader = graph.edge(e).dst;
      if (graph.op(reader).phase == Phase::forward) forward.insert(step.device()[reader]);
      if (graph.op(reader).phase == Phase::backward) backward.insert(step.device()[reader]);
    }
    const Tensor& tensor = graph.tensor(t);
    for (const DeviceId d : backward)
      if (forward.contains(d))
        stages[d].kept += d == step.device()[v] ? tensor.held() : tensor.copied();
  }
}

}  // namespace

Bytes least_memory(const ParallelStep& step) {
  const OpGraph& graph = step.graph();
  std::map<DeviceId, StageBytes> stages;  // in their order
  for (const OpId v : graph.ops()) stages[step.device()[v]].persistent += graph.op(v).persistent;
  for (const OpId v : graph.ops()) add_kept(step, v, stages);
  Bytes most{};
  auto behind = static_cast<std::int64_t>(stages.size());  // this stage included
  for (const auto& [d, stage] : stages) {
    const std::int64_t in_flight = std::min(step.micro_batches(), behind--);
    most = std::max(most, stage.persistent + Bytes{in_flight * stage.kept.count});
  }
  return most;
}

Duration least_step(const ParallelStep& step, const DeviceModel& gpu) {
  IdVector<OpId, Duration> times = roofline_times(step.graph(), gpu);
  for (const auto& [op, kernels] : step.launches()) times[op] = gpu.host_op * kernels;
  const auto of_data = times_of(step, times, false);
  Duration forward{}, backward{}, least{};  // the first two: of the stages before
  for (const auto& [device, stage] : times_of(step, times, true)) {
    const PassTimes& after_data = of_data.at(device);
    const Duration f = stage.pass(Phase::forward), b = stage.pass(Phase::backward),
                   f_of_data = after_data.pass(Phase::forward),
                   first = forward == Duration{} ? f : f_of_data;
    least = std::max(least, forward + first + (step.micro_batches() - 1) * f +
                                step.micro_batches() * b +
                                std::max(backward, stage.pass(Phase::update)));
    forward += f_of_data;
    backward += after_data.pass(Phase::backward);
  }
  return least;
}

}  // namespace baechi
