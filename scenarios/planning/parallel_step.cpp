#include "scenarios/planning/parallel_step.h"

#include <algorithm>

#include "scenarios/planning/stage_additions.h"
#include "sim/error.h"
#include "sim/transform/training/segments.h"
#include "sim/transform/transform.h"
#include "traces/generator.h"

namespace baechi {
namespace {

Options::Value text(std::string value) {
  return {std::move(value), {}, {}};
}

IdVector<OpId, DeviceId> devices_of(const OpGraph& graph, const ParallelPlan& plan) {
  const std::int64_t layers = std::max<std::int64_t>(1, layers_of(graph));
  IdVector<OpId, DeviceId> device;
  for (const std::int64_t layer : layer_of_ops(graph, layers)) {
    const std::int64_t in_a_stage = std::clamp<std::int64_t>(layer, 0, layers - 1);
    device.push_back(plan.device(in_a_stage * plan.pipeline / layers));
  }
  return device;
}

std::int64_t devices_of_a_node(const Cluster& cluster) {
  std::int64_t all = static_cast<std::int64_t>(cluster.num_devices());
  return cluster.num_nodes() == 0 ? all : all / static_cast<std::int64_t>(cluster.num_nodes());
}

}  // namespace

OpGraph rank_graph(const TrainingJob& job, const ParallelPlan& plan) {
  Options options = job.options;
  Options given = job.options;  // raw() declares: a generator must declare these options itself
  for (const auto& [key, value] : {std::pair{"batch", plan.micro_batch}, {"tensor", plan.tensor}}) {
    if (given.raw(key, "") != nullptr)
      throw InputError(fmt::format("{}.{}: plans choose it", job.generator, key));
    if (key != std::string_view("tensor") || value > 1)
      options.set(key, text(std::to_string(value)));
  }
  OpGraph graph = generate_trace(job.generator, options).graph;
  if (plan.precision != "fp32")
    graph = make_transform("precision", Options("precision", {{"to", text(plan.precision)}}))
                ->apply(graph)
                .graph;
  if (plan.recompute) graph = make_transform("recompute", Options("recompute"))->apply(graph).graph;
  return graph.without_groups();
}

IdVector<OpId, std::int64_t> layer_of_ops(const OpGraph& graph, std::int64_t layers) {
  const Segments segments = segments_by_layer(graph);
  IdVector<OpId, std::int64_t> layer(graph.num_ops(), -1);
  for (const OpId v : graph.ops()) {
    const Op& op = graph.op(v);
    if (op.phase == Phase::forward && segments[v] != no_segment) {
      layer[v] = segments[v];
      continue;
    }
    if (op.phase == Phase::backward && op.forward != no_op) {
      layer[v] = layer[op.forward];
      continue;
    }
    for (const EdgeId e : graph.in_edges(v)) {
      const std::int64_t before = layer[graph.edge(e).src];
      const bool behind = op.phase == Phase::forward && before >= 0;
      layer[v] = std::max(layer[v], behind ? layers : before);
    }
  }
  return layer;
}

std::int64_t layers_of(const OpGraph& graph) {
  std::int64_t layers = 0;
  for (const std::uint32_t s : segments_by_layer(graph))
    if (s != no_segment) layers = std::max<std::int64_t>(layers, s + 1);
  return layers;
}

struct ParallelStep::Parts {
  StageAdditions::Result made;
  Cluster cluster;
  pipeline::PipelineOptions options;
  std::string kind;  // of the devices, for the times
  mutable std::optional<pipeline::Unrolled> unrolled{};

  OpGraph timed(const DeviceModel& gpu) const {
    IdVector<OpId, Duration> times = roofline_times(made.graph, gpu);
    for (const auto& [op, kernels] : made.launches) times[op] = gpu.host_op * kernels;
    return made.graph.with_times(kind, times);
  }
};

ParallelStep::ParallelStep(const OpGraph& graph, const TrainingJob& job, const ParallelPlan& plan,
                           Cluster cluster) {
  const std::int64_t micro_batches = plan.micro_batches(job.batch);
  if (micro_batches == 0)
    throw InputError(fmt::format("a batch of {} cannot be divided among {} replicas in parts of {}",
                                 job.batch, plan.data, plan.micro_batch));
  if (static_cast<std::int64_t>(cluster.num_devices()) < plan.ranks())
    throw InputError(fmt::format("{} ranks on {} devices", plan.ranks(), cluster.num_devices()));
  if (plan.pipeline > 1 && layers_of(graph) < plan.pipeline)
    throw InputError(fmt::format("{} stages of {} layers", plan.pipeline, layers_of(graph)));
  const IdVector<OpId, DeviceId> device = devices_of(graph, plan);
  parts_ = std::make_unique<Parts>(Parts{
      .made =
          StageAdditions(plan, micro_batches, devices_of_a_node(cluster), graph, device).result(),
      .cluster = std::move(cluster),
      .options = {.schedule = "1f1b_flush",
                  .micro_batches = static_cast<std::size_t>(micro_batches)},
      .kind = {}});
  parts_->kind = parts_->cluster.device(DeviceId{}).kind;
}
ParallelStep::~ParallelStep() = default;
ParallelStep::ParallelStep(ParallelStep&&) noexcept = default;

const OpGraph& ParallelStep::graph() const {
  return parts_->made.graph;
}
const IdVector<OpId, DeviceId>& ParallelStep::device() const {
  return parts_->made.device;
}
const Cluster& ParallelStep::cluster() const {
  return parts_->cluster;
}
const ParallelStep::Launches& ParallelStep::launches() const {
  return parts_->made.launches;
}
std::int64_t ParallelStep::micro_batches() const {
  return static_cast<std::int64_t>(parts_->options.micro_batches);
}

pipeline::PipelineResult ParallelStep::simulated(const DeviceModel& gpu, bool memory) const {
  const OpGraph timed = parts_->timed(gpu);
  const ProfiledCosts costs(timed, parts_->cluster);
  const Problem problem{
      timed,
      parts_->cluster,
      costs,
      {.transfers = Transfers::duplex, .enforce_memory = memory, .count_memory = memory}};
  const Placement placement{.device = parts_->made.device};
  if (!parts_->unrolled) parts_->unrolled = pipeline::unroll(problem, placement, parts_->options);
  return simulate_pipeline(problem, placement, parts_->options, *parts_->unrolled, {});
}

}  // namespace baechi
