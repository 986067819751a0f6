#include <algorithm>
#include <array>
#include <map>

#include "scenarios/planning/plan_search.h"
#include "sim/cluster/collectives.h"

namespace baechi {
namespace {

/// Times of the three passes of a stage, by phase.
struct StageTimes {
  std::array<Duration, 3> path{}, kernels{}, launches{};

  Duration pass(Phase phase) const {
    const auto i = static_cast<std::size_t>(phase);
    return std::max({path[i], kernels[i], launches[i]});
  }
};

/// The stages in their order.
std::map<DeviceId, StageTimes> times_of(const ParallelStep& step, const DeviceModel& gpu) {
  const OpGraph& graph = step.graph();
  IdVector<OpId, Duration> times = roofline_times(graph, gpu);
  for (const auto& [op, kernels] : step.launches()) times[op] = gpu.host_op * kernels;
  for (const Collective& c : graph.collectives())
    times[c.first] =
        step.cluster().collectives().time(c, std::array{step.device()[c.first]}, step.cluster());
  std::map<DeviceId, StageTimes> stages;
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
    StageTimes& stage = stages[step.device()[v]];
    stage.path[phase] = std::max(stage.path[phase], end[v]);
    if (op.lane == compute_lane) stage.kernels[phase] += times[v];
  }
  return stages;
}

}  // namespace

Duration least_step(const ParallelStep& step, const DeviceModel& gpu) {
  Duration forward{}, backward{}, least{};  // the first two: of the stages before
  for (const auto& [device, stage] : times_of(step, gpu)) {
    const Duration f = stage.pass(Phase::forward), b = stage.pass(Phase::backward);
    least = std::max(least, forward + step.micro_batches() * (f + b) +
                                std::max(backward, stage.pass(Phase::update)));
    forward += f;
    backward += b;
  }
  return least;
}

}  // namespace baechi
