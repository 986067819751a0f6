#include "validate/published/vtrain.h"

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <map>

#include "scenarios/read/device_table.h"
#include "sim/cluster/device_model.h"
#include "sim/error.h"
#include "sim/pipeline/pipeline.h"
#include "sim/transform/graph_copy.h"
#include "sim/transform/transform.h"
#include "traces/generator.h"
#include "validate/published/measured_files.h"
#include "validate/published/published.h"

namespace baechi::validate {
namespace {

constexpr const char* gpu_kind = "a100_megatron";
constexpr const char* node_gpu = "a100";  // the kind of a dgx_a100
constexpr std::int64_t per_node = 8;
constexpr std::int64_t vocabulary = 51'200;  // 50 257, padded

std::vector<GptStep> read_steps(const CsvTable& table, std::size_t first) {
  std::vector<GptStep> steps;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const auto whole = [&](std::size_t i) { return table.whole(row, first + i, 1); };
    steps.push_back({.gpus = whole(0),
                     .batch = whole(1),
                     .micro_batch = whole(2),
                     .hidden = whole(3),
                     .heads = whole(4),
                     .layers = whole(5),
                     .length = whole(6),
                     .tensor = whole(7),
                     .data = whole(8),
                     .pipeline = whole(9),
                     .ms = table.number(row, first + 10)});
    const GptStep& s = steps.back();
    if (s.tensor * s.data * s.pipeline > s.gpus || s.micro_batches() < 1)
      throw InputError(table.where(row, first) + "no such step: " + s.what());
  }
  return steps;
}

/// What one rank of tensor parallelism computes with a micro-batch.
OpGraph graph_of(const GptStep& s, const DeviceModel& gpu) {
  const auto text = [](std::int64_t n) { return Options::Value{std::to_string(n), {}, {}}; };
  OpGraph graph = generate_trace("gpt", Options("gpt", {{"batch", text(s.micro_batch)},
                                                        {"layers", text(s.layers)},
                                                        {"hidden", text(s.hidden)},
                                                        {"heads", text(s.heads)},
                                                        {"length", text(s.length)},
                                                        {"vocabulary", text(vocabulary)},
                                                        {"tensor", text(s.tensor)},
                                                        {"tied", {"false", {}, {}}}}))
                      .graph;
  graph = make_transform("precision", Options("precision", {{"to", {"fp16", {}, {}}}}))
              ->apply(graph)
              .graph;
  graph = make_transform("recompute", Options("recompute"))->apply(graph).graph;
  return graph.without_groups().with_times(node_gpu, roofline_times(graph, gpu));
}

/// The block of an op: "h_7/attn" is of 7; what is before the blocks is of -1, what is behind them
/// of `layers`.
IdVector<OpId, DeviceId> devices_of(const GptStep& s, const OpGraph& graph) {
  IdVector<OpId, DeviceId> device;
  for (const OpId v : graph.ops()) {
    const std::string_view name = graph.name(v);
    std::int64_t block = name.starts_with("embeddings") ? 0 : s.layers - 1;
    if (name.starts_with("h_")) block = std::stoll(std::string(name.substr(2)));
    device.push_back(s.device(block * s.pipeline / s.layers));
  }
  return device;
}

/// Adds to each stage what the replicas do together, the sum of the gradients before the updates;
/// and the host's time to launch the kernels of each pass, in a lane of its own, so that a pass
/// takes at least as long.
PlacedStep with_replicas_and_host(const GptStep& s, const OpGraph& graph,
                                  const IdVector<OpId, DeviceId>& device, const DeviceModel& gpu) {
  struct Stage {
    std::array<std::int64_t, 3> kernels{};  // by phase
    Bytes gradients{};
    OpId sum = no_op;
  };
  std::map<DeviceId, Stage> stages;
  GraphCopy copy(graph);
  IdVector<TensorId, TensorId> tensors(graph.num_tensors());
  for (const OpId v : graph.ops()) {
    const OpId made = copy.add(v, copy.spec(v));
    Stage& stage = stages[device[v]];
    const Phase phase = graph.op(v).phase;
    stage.kernels[static_cast<std::size_t>(phase)] +=
        static_cast<std::int64_t>(graph.kernels(v).size());
    if (phase == Phase::backward) stage.gradients += graph.op(v).persistent;
    for (const TensorId t : graph.outputs(v))
      if (!graph.tensor(t).control) tensors[t] = copy.add_tensor(t, made, graph.tensor(t).size);
  }
  copy.add_edges(tensors);
  std::vector<DeviceId> added;
  for (auto& [d, stage] : stages) {
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      copy.builder().add_op(
          {.name = fmt::format("launches/{}/{}", index(d), static_cast<int>(phase)),
           .compute = gpu.host_op * stage.kernels[static_cast<std::size_t>(phase)],
           .phase = phase,
           .lane = "host"});
      added.push_back(d);
    }
    if (s.data == 1) continue;
    stage.sum = copy.builder().add_op(
        {.name = fmt::format("gradients/{}", index(d)), .phase = Phase::update});
    added.push_back(d);
    copy.builder().add_collective(
        {.kind = CollectiveKind::all_reduce,
         .bytes = stage.gradients,
         .ranks = static_cast<std::uint32_t>(s.data),
         .nodes = static_cast<std::uint32_t>((s.data * s.tensor + per_node - 1) / per_node),
         .sharing = static_cast<std::uint32_t>(s.tensor)},
        {{stage.sum}});
  }
  for (const OpId v : graph.ops()) {
    const OpId sum = stages[device[v]].sum;
    if (sum == no_op) continue;
    if (graph.op(v).phase == Phase::backward && graph.op(v).persistent > Bytes{})
      copy.builder().add_control(copy.copy_of(v), sum);
    if (graph.op(v).phase == Phase::update) copy.builder().add_control(sum, copy.copy_of(v));
  }
  IdVector<OpId, OpId> renumbered;
  Transformed made = std::move(copy).built(&renumbered);
  PlacedStep step{.graph = made.graph.with_free_controls(), .device = {}};
  step.device.assign(step.graph.num_ops(), DeviceId{});
  for (const OpId v : graph.ops()) step.device[made.stands_for[v]] = device[v];
  for (std::size_t i = 0; i < added.size(); ++i)
    step.device[renumbered[static_cast<OpId>(graph.num_ops() + i)]] = added[i];
  return step;
}

}  // namespace

double simulated_ms(const GptStep& s, const DeviceModel& gpu) {
  const OpGraph graph = graph_of(s, gpu);
  const PlacedStep step = with_replicas_and_host(s, graph, devices_of(s, graph), gpu);
  const std::int64_t nodes = (s.tensor * s.data * s.pipeline + per_node - 1) / per_node;
  const Cluster cluster =
      cluster_of(fmt::format("nodes: {{kind: dgx_a100, nics: 4, count: {}}}", nodes));
  const ProfiledCosts costs(step.graph, cluster);
  const Problem problem{
      step.graph,
      cluster,
      costs,
      {.transfers = Transfers::duplex, .enforce_memory = false, .count_memory = false}};
  const pipeline::PipelineOptions options{
      .schedule = "1f1b_flush", .micro_batches = static_cast<std::size_t>(s.micro_batches())};
  return to_us(simulate_pipeline(problem, {.device = step.device}, options).makespan) / 1e3;
}

const DeviceModel& megatron_gpu() {
  return *built_in_devices().devices.at(gpu_kind);
}

std::optional<std::vector<GptStep>> vtrain_single_node(const std::string& folder) {
  const auto table = read_measured(folder, "vtrain/measured_single_node.csv");
  if (!table) return std::nullopt;
  return read_steps(*table, table->column("# GPUs"));
}

std::optional<std::vector<GptStep>> vtrain_multi_node(const std::string& folder) {
  const auto table = read_measured(folder, "vtrain/measured_multi_node.csv");
  if (!table) return std::nullopt;
  return read_steps(*table, table->column("# GPUs"));
}

namespace {

std::optional<std::vector<PublishedRow>> compared(
    const std::optional<std::vector<GptStep>>& steps) {
  if (!steps) return std::nullopt;
  std::vector<PublishedRow> rows(steps->size());
  tbb::parallel_for(std::size_t{0}, rows.size(), [&](std::size_t i) {
    const GptStep& step = (*steps)[i];
    rows[i] = {.what = step.what(),
               .group = fmt::format("{} GPUs", step.gpus),
               .measured = step.ms,
               .simulated = simulated_ms(step, megatron_gpu())};
  });
  return rows;
}

}  // namespace

std::optional<std::vector<PublishedRow>> compare_vtrain_single_node(const std::string& folder) {
  return compared(vtrain_single_node(folder));
}

std::optional<std::vector<PublishedRow>> compare_vtrain_multi_node(const std::string& folder) {
  return compared(vtrain_multi_node(folder));
}

}  // namespace baechi::validate
