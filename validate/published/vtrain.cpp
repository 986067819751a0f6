#include "validate/published/vtrain.h"

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <map>

#include "scenarios/read/device_table.h"
#include "sim/cluster/device_model.h"
#include "sim/error.h"
#include "sim/graph/phase_names.h"
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
      throw InputError(table.where(row, first) + ": no such step: " + s.what());
  }
  return steps;
}

/// What one rank of tensor parallelism computes with a micro-batch.
OpGraph graph_of(const GptStep& s) {
  const auto text = [](std::int64_t n) { return Options::Value{std::to_string(n), {}, {}}; };
  OpGraph graph = generate_trace("gpt", Options("gpt", {{"batch", text(s.micro_batch)},
                                                        {"layers", text(s.layers)},
                                                        {"hidden", text(s.hidden)},
                                                        {"heads", text(s.heads)},
                                                        {"length", text(s.length)},
                                                        {"vocabulary", text(vocabulary)},
                                                        {"tensor", text(s.tensor)},
                                                        {"tied", {"false", {}, {}}},
                                                        {"loss", {"separate", {}, {}}}}))
                      .graph;
  graph = make_transform("precision", Options("precision", {{"to", {"fp16", {}, {}}}}))
              ->apply(graph)
              .graph;
  graph = make_transform("recompute", Options("recompute"))->apply(graph).graph;
  return graph.without_groups();
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

/// The step's graph with what replicas and hosts add.
class Additions {
 public:
  Additions(const GptStep& s, const OpGraph& graph, const IdVector<OpId, DeviceId>& device)
      : step_(s), graph_(graph), device_(device), copy_(graph) {
    copy_graph();
    for (auto& [d, stage] : stages_) {
      add_launches(d, stage);
      if (s.data > 1) stage.sum = add_sum(d, stage);
    }
    for (const OpId v : graph.ops()) join_sum(v);
  }

  using Launches = PreparedGptStep::Launches;
  struct Result {
    PlacedStep step;
    Launches launches;
  };
  Result result() && {
    IdVector<OpId, OpId> renumbered;
    Transformed made = std::move(copy_).built(&renumbered);
    Result result{.step = {.graph = made.graph.with_free_controls(), .device = {}}, .launches = {}};
    IdVector<OpId, DeviceId>& device = result.step.device;
    device.assign(made.graph.num_ops(), DeviceId{});
    for (const OpId v : graph_.ops()) device[made.stands_for[v]] = device_[v];
    for (const auto& [op, d] : added_) device[renumbered[op]] = d;
    for (const auto& [op, kernels] : launches_)
      result.launches.emplace_back(renumbered[op], kernels);
    return result;
  }

 private:
  struct Stage {
    std::array<std::int64_t, 3> kernels{};  // by phase
    Bytes gradients{};
    OpId sum = no_op;
  };

  void copy_graph() {
    IdVector<TensorId, TensorId> tensors(graph_.num_tensors());
    for (const OpId v : graph_.ops()) {
      const OpId made = copy_.add(v, copy_.spec(v));
      copy_.add_kernels(v, made);
      if (step_.micro_batches() > 1) add_to_gradients(v, made);
      for (const TensorId t : graph_.outputs(v))
        if (!graph_.tensor(t).control)
          tensors[t] = copy_.add_tensor(t, made, graph_.tensor(t).size);
      Stage& stage = stages_[device_[v]];
      const Phase phase = graph_.op(v).phase;
      stage.kernels[static_cast<std::size_t>(phase)] +=
          static_cast<std::int64_t>(graph_.kernels(v).size());
      if (phase == Phase::backward) stage.gradients += graph_.op(v).persistent;
    }
    copy_.add_edges(tensors);
  }

  /// Each micro-batch adds its gradients of the weights to those before: it reads two, writes one.
  void add_to_gradients(OpId v, OpId made) {
    const Op& op = graph_.op(v);
    if (op.phase != Phase::backward || op.persistent == Bytes{}) return;
    copy_.builder().add_kernel(made, {.traffic = 3 * op.persistent});
  }

  /// The host launches the kernels of a pass in a lane of its own, once the pass has received what
  /// the stage before sent (Megatron-LM waits there for the GPU). The last ops of the pass wait for
  /// the launches: a pass takes at least as long, and hands on what it made no sooner.
  void add_launches(DeviceId d, const Stage& stage) {
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      const OpId op =
          copy_.builder().add_op({.name = fmt::format("launches/{}/{}", index(d), to_text(phase)),
                                  .phase = phase,
                                  .lane = "host"});
      launches_.emplace_back(op, stage.kernels[static_cast<std::size_t>(phase)]);
      added_.emplace_back(op, d);
      for (const OpId v : graph_.ops()) {
        if (device_[v] != d || graph_.op(v).phase != phase) continue;
        if (is_last(v))
          copy_.builder().add_control(op, copy_.copy_of(v));
        else if (receives(v))
          copy_.builder().add_control(copy_.copy_of(v), op);
      }
    }
  }
  /// Whether `v` is a first op of its pass and reads what another stage sent.
  bool receives(OpId v) const {
    const auto in_pass = [&](EdgeId e) {
      const OpId src = graph_.edge(e).src;
      return device_[src] == device_[v] && graph_.op(src).phase == graph_.op(v).phase;
    };
    const auto sent = [&](EdgeId e) { return device_[graph_.edge(e).src] != device_[v]; };
    return std::ranges::any_of(graph_.in_edges(v), sent) &&
           std::ranges::none_of(graph_.in_edges(v), in_pass);
  }
  /// Whether no other op of its pass reads what `v` writes.
  bool is_last(OpId v) const {
    for (const TensorId t : graph_.outputs(v))
      for (const EdgeId e : graph_.readers(t)) {
        const OpId reader = graph_.edge(e).dst;
        if (device_[reader] == device_[v] && graph_.op(reader).phase == graph_.op(v).phase)
          return false;
      }
    return true;
  }

  /// The replicas add up the gradients of a stage, once, before its updates.
  OpId add_sum(DeviceId d, const Stage& stage) {
    const OpId op = copy_.builder().add_op(
        {.name = fmt::format("gradients/{}", index(d)), .phase = Phase::update});
    added_.emplace_back(op, d);
    copy_.builder().add_collective(
        {.kind = CollectiveKind::all_reduce,
         .bytes = stage.gradients,
         .ranks = static_cast<std::uint32_t>(step_.data),
         .nodes = static_cast<std::uint32_t>((step_.data * step_.tensor + per_node - 1) / per_node),
         .sharing = static_cast<std::uint32_t>(step_.tensor)},
        {{op}});
    return op;
  }

  void join_sum(OpId v) {
    const OpId sum = stages_[device_[v]].sum;
    if (sum == no_op) return;
    if (graph_.op(v).phase == Phase::backward && graph_.op(v).persistent > Bytes{})
      copy_.builder().add_control(copy_.copy_of(v), sum);
    if (graph_.op(v).phase == Phase::update) copy_.builder().add_control(sum, copy_.copy_of(v));
  }

  const GptStep& step_;
  const OpGraph& graph_;
  const IdVector<OpId, DeviceId>& device_;
  GraphCopy copy_;
  std::map<DeviceId, Stage> stages_;
  std::vector<std::pair<OpId, DeviceId>> added_;
  Launches launches_;
};

Cluster cluster_for(const GptStep& s) {
  const std::int64_t nodes = (s.tensor * s.data * s.pipeline + per_node - 1) / per_node;
  return cluster_of(fmt::format("nodes: {{kind: dgx_a100, nics: 4, count: {}}}", nodes));
}

}  // namespace

struct PreparedGptStep::Parts {
  Additions::Result added;
  Cluster cluster;
  pipeline::PipelineOptions options;
  std::optional<pipeline::Unrolled> unrolled{};

  OpGraph timed(const DeviceModel& gpu) const {
    IdVector<OpId, Duration> times = roofline_times(added.step.graph, gpu);
    for (const auto& [op, kernels] : added.launches) times[op] = gpu.host_op * kernels;
    return added.step.graph.with_times(node_gpu, times);
  }
  static Problem problem(const OpGraph& graph, const Cluster& cluster, const CostModel& costs) {
    return {graph,
            cluster,
            costs,
            {.transfers = Transfers::duplex, .enforce_memory = false, .count_memory = false}};
  }
};

PreparedGptStep::PreparedGptStep(const GptStep& s) {
  const OpGraph graph = graph_of(s);
  parts_ = std::make_unique<Parts>(
      Parts{.added = Additions(s, graph, devices_of(s, graph)).result(),
            .cluster = cluster_for(s),
            .options = {.schedule = "1f1b_flush",
                        .micro_batches = static_cast<std::size_t>(s.micro_batches())}});
  const OpGraph timed = parts_->timed(megatron_gpu());
  const ProfiledCosts costs(timed, parts_->cluster);
  parts_->unrolled = pipeline::unroll(Parts::problem(timed, parts_->cluster, costs),
                                      {.device = parts_->added.step.device}, parts_->options);
}
PreparedGptStep::~PreparedGptStep() = default;
PreparedGptStep::PreparedGptStep(PreparedGptStep&&) noexcept = default;

const OpGraph& PreparedGptStep::graph() const {
  return parts_->added.step.graph;
}
const IdVector<OpId, DeviceId>& PreparedGptStep::device() const {
  return parts_->added.step.device;
}
const Cluster& PreparedGptStep::cluster() const {
  return parts_->cluster;
}
const PreparedGptStep::Launches& PreparedGptStep::launches() const {
  return parts_->added.launches;
}
std::int64_t PreparedGptStep::micro_batches() const {
  return static_cast<std::int64_t>(parts_->options.micro_batches);
}

double PreparedGptStep::simulated_ms(const DeviceModel& gpu) const {
  const OpGraph timed = parts_->timed(gpu);
  const ProfiledCosts costs(timed, parts_->cluster);
  const Problem problem = Parts::problem(timed, parts_->cluster, costs);
  const Placement placement{.device = parts_->added.step.device};
  return to_us(simulate_pipeline(problem, placement, parts_->options, *parts_->unrolled, {})
                   .makespan) /
         1e3;
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
               .simulated = PreparedGptStep(step).simulated_ms(megatron_gpu())};
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
