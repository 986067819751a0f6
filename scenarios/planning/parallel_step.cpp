#include "scenarios/planning/parallel_step.h"

#include <algorithm>
#include <array>

#include "sim/error.h"
#include "sim/transform/training/segments.h"
#include "sim/transform/transform.h"
#include "traces/generator.h"

namespace baechi {
namespace {

Options::Value text(std::string value) {
  return {std::move(value), {}, {}};
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
  return graph;
}

DataParallelOptions ParallelPlan::data_parallel(std::int64_t per_node) const {
  constexpr std::array modes{Synchronisation::after, Synchronisation::zero1, Synchronisation::zero2,
                             Synchronisation::zero3};
  DataParallelOptions options{.replicas = data,
                              .nodes = (data * tensor + per_node - 1) / per_node,
                              .mode = modes.at(static_cast<std::size_t>(zero)),
                              .send = send,
                              .sharing = tensor};
  if (zero == 0 && send == Sending::beside) options.mode = Synchronisation::ddp;
  return options;
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

IdVector<OpId, DeviceId> devices_of_stages(const OpGraph& graph, const ParallelPlan& plan) {
  const std::int64_t layers = std::max<std::int64_t>(1, layers_of(graph));
  IdVector<OpId, DeviceId> device;
  for (const std::int64_t layer : layer_of_ops(graph, layers)) {
    const std::int64_t in_a_stage = std::clamp<std::int64_t>(layer, 0, layers - 1);
    device.push_back(plan.device(in_a_stage * plan.pipeline / layers));
  }
  return device;
}

std::int64_t layers_of(const OpGraph& graph) {
  std::int64_t layers = 0;
  for (const std::uint32_t s : segments_by_layer(graph))
    if (s != no_segment) layers = std::max<std::int64_t>(layers, s + 1);
  return layers;
}

namespace {

/// A rank of each stage: the transforms of a step in the order in which a scenario has them.
PlacedStep made(const OpGraph& rank, const IdVector<OpId, DeviceId>& device,
                const ParallelPlan& plan, bool accumulates, std::int64_t per_node) {
  static const std::unique_ptr<Transform> accumulate =
      make_transform("accumulate", Options("accumulate"));
  // 1 ns for each kernel, so that the launches' times count kernels.
  static const std::unique_ptr<Transform> host =
      make_transform("host", Options("host", {{"per", text("pass")}, {"launch", text("1 ns")}}));
  const DataParallelOptions options = plan.data_parallel(per_node);
  PlacedStep step = host->after_placing(
      plan.data > 1 && plan.zero > 0 ? with_shares(rank, options) : rank, device);
  if (accumulates) step = accumulate->after_placing(step.graph, step.device);
  if (plan.data == 1) return step;
  std::vector<OpId> joined;
  return synchronised(step.graph, step.device, options, joined);
}

}  // namespace

struct ParallelStep::Parts {
  PlacedStep made;
  Launches launches;
  Cluster cluster;
  pipeline::PipelineOptions options;
  std::string kind;  // of the devices, for the times
  mutable std::optional<pipeline::Unrolled> unrolled{};
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
  PlacedStep step = made(graph, devices_of_stages(graph, plan), plan, micro_batches > 1,
                         devices_of_a_node(cluster));
  Launches launches;
  for (const OpId v : step.graph.ops())
    if (step.graph.kind(v) == "Launch") launches.emplace_back(v, step.graph.op(v).compute.count());
  parts_ = std::make_unique<Parts>(
      Parts{.made = std::move(step),
            .launches = std::move(launches),
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
  return parts_->launches;
}
std::int64_t ParallelStep::micro_batches() const {
  return static_cast<std::int64_t>(parts_->options.micro_batches);
}

IdVector<OpId, Duration> ParallelStep::times(const DeviceModel& gpu) const {
  IdVector<OpId, Duration> times = roofline_times(graph(), gpu);
  for (const auto& [op, kernels] : parts_->launches) times[op] = gpu.host_op * kernels;
  return times;
}

pipeline::PipelineResult ParallelStep::simulated(const DeviceModel& gpu, bool memory) const {
  const OpGraph timed = parts_->made.graph.with_times(parts_->kind, times(gpu));
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
