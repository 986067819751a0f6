#include "scenarios/planning/parallel_step.h"

#include "sim/transform/training/gradients.h"
#include "traces/generate/layers/attention.h"
#include "traces/generator.h"

namespace baechi {
namespace {

Options::Value text(std::string value) { return {std::move(value), {}, {}}; }

/// Patterns of the layers that have a router.
Options::Value layers_of_experts(const OpGraph& graph) {
  Options::Value names;
  for (const OpId v : graph.ops()) {
    const std::string_view name = graph.name(v);
    constexpr std::string_view router = "/router";
    if (graph.op(v).phase == Phase::forward && name.ends_with(router))
      names.children.emplace_back(
          "", text(fmt::format("{}/*", name.substr(0, name.size() - router.size()))));
  }
  return names;
}

/// Patterns of so many layers of each part, the first.
Options::Value first_layers(const OpGraph& graph, const ParallelPlan& plan, std::int64_t count) {
  const IdVector<OpId, std::int64_t> part = parts_of_ops(graph, plan);
  std::map<std::int64_t, std::set<std::string_view>> seen;
  Options::Value names;
  for (const OpId v : graph.ops()) {
    const std::string_view layer = layer_of(graph.name(v));
    std::set<std::string_view>& of_part = seen[part[v]];
    if (graph.op(v).phase != Phase::forward || layer.empty() || of_part.contains(layer)) continue;
    of_part.insert(layer);
    if (std::cmp_less_equal(of_part.size(), count))
      names.children.emplace_back("", text(fmt::format("{}/*", layer)));
  }
  return names;
}

constexpr std::string_view module_of_experts = "moe";

bool recomputes_experts(const TrainingJob& job) {
  return std::ranges::find(job.framework.recompute_modules, module_of_experts) !=
         job.framework.recompute_modules.end();
}

/// What the backward pass recomputes, as the generators' option `recompute`.
std::string recomputed(const TrainingJob& job, const ParallelPlan& plan) {
  std::string names;
  if (plan.recompute == Recomputing::selective)
    names = job.framework.selective_recompute_operators ? "operators" : "core_attn";
  for (const std::string& module : job.framework.recompute_modules)
    if (module != module_of_experts) names += (names.empty() ? "" : "+") + module;
  return names;
}

NamedTransform precision_of(const TrainingJob& job, const ParallelPlan& plan) {
  const Framework& f = job.framework;
  NamedTransform format{"precision", {}};
  format.set("to", text(plan.precision));
  if (reduces_in_fp32(f, plan.precision)) format.set("gradients", text("whole"));
  if (f.master_weights == MasterWeights::remainders) format.set("remainders", text("true"));
  if (f.master_weights == MasterWeights::none) format.set("master_weights", text("false"));
  if (f.fp8_attention) format.set("attention", text("fp8"));
  Options::Value whole;
  for (const std::string& kind : f.gemms_in_16_bits) whole.children.emplace_back("", text(kind));
  if (!whole.children.empty()) format.set("whole", std::move(whole));
  if (f.dynamic_scaling) format.set("conversions", text("dynamic"));
  if (f.norms_in_16_bits)
    format.set("except", {{}, {}, {{"", text("softmax")}, {"", text("loss")}}});
  return format;
}

std::int64_t layers_of(const Segments& segments) {
  std::int64_t layers = 0;
  for (const std::uint32_t s : segments)
    if (s != no_segment) layers = std::max<std::int64_t>(layers, s + 1);
  return layers;
}

IdVector<OpId, std::int64_t> layer_of_ops(const OpGraph& graph, const Segments& segments,
                                          std::int64_t layers) {
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

/// A rank of each stage: the transforms of a step in the order in which a scenario has them.
PlacedStep build_rank_step(const OpGraph& rank, const IdVector<OpId, DeviceId>& device,
                           const TrainingJob& job, const ParallelPlan& plan, bool accumulates,
                           std::int64_t per_node) {
  static const std::unique_ptr<Transform> accumulate =
      make_transform("accumulate", Options("accumulate"));
  static const std::unique_ptr<Transform> accumulate_short =
      make_transform("accumulate", Options("accumulate", {{"moved", text("6")}}));
  // 1 ns for each kernel, so that the launches' times count kernels.
  static const std::unique_ptr<Transform> host =
      make_transform("host", Options("host", {{"per", text("pass")}, {"launch", text("1 ns")}}));
  DataParallelOptions options = plan.data_parallel(per_node);
  add_moves(job.framework, plan.precision, options);
  PlacedStep step = host->after_placing(
      options.replicas > 1 && plan.zero > 0 ? with_shares(rank, options) : rank, device);
  if (accumulates)
    step = (job.framework.fp32_accumulation_traffic && !job.framework.grad_reduce_in_fp32
                ? accumulate_short
                : accumulate)
               ->after_placing(step.graph, step.device);
  if (options.replicas == 1) return step;
  std::vector<OpId> joined;
  return synchronised(step.graph, step.device, options, joined);
}

/// The peak is while all gradients are there in 32 bits, too, and no activation is left, where that
/// is more. Optimizer state is 12 bytes a parameter: two moments and a copy of the weights. Where
/// weights are sharded, or would be if there were a second replica, PyTorch's AdamW updates all
/// parameters at once, with two more numbers of 32 bits for each. Source: PyTorch 2.0,
/// optim/adamw.py, _multi_tensor_adamw (exp_avg_sq_sqrt, denom), the first that InternEvo's FSDP
/// runs with (use_orig_params).
void cast_all_gradients(pipeline::StageUse& stage, bool at_once) {
  PeakMemory updating{.weights = stage.by_kind.weights,
                      .gradients = stage.by_kind.gradients,
                      .optimizer_state = stage.by_kind.optimizer_state};
  updating.workspace = {(at_once ? 3 : 1) * updating.optimizer_state.count / 3};
  if (updating.total() <= stage.peak) return;
  stage.by_kind = updating;
  stage.peak = updating.total();
}

}  // namespace

std::int64_t devices_of_a_node(const Cluster& cluster) {
  const auto all = static_cast<std::int64_t>(cluster.num_devices());
  return cluster.num_nodes() == 0 ? all : all / static_cast<std::int64_t>(cluster.num_nodes());
}

bool copies_embeddings(const TrainingJob& job, const ParallelPlan& plan) {
  constexpr std::array<std::string_view, 4> with_option{"gpt", "gpt2", "bert", "hybrid"};
  Options options = job.options;
  const Options::Value* tied = options.raw("tie_word_embeddings", "");
  const bool by_default = job.generator != "hybrid";
  return plan.pipeline > 1 && (tied == nullptr ? by_default : tied->text != "false") &&
         std::ranges::find(with_option, job.generator) != with_option.end();
}

std::vector<std::pair<std::string, Options::Value>> rank_options(const TrainingJob& job,
                                                                 const ParallelPlan& plan) {
  std::vector<std::pair<std::string, Options::Value>> options{
      {"batch", text(std::to_string(plan.micro_batch))}};
  Options given = job.options;  // raw() declares: a generator must declare these options itself
  const auto add = [&](const char* key, std::string value, bool needed) {
    if (given.raw(key, "") != nullptr)
      throw InputError(fmt::format("{}.{}: plans choose it", job.generator, key));
    if (needed) options.emplace_back(key, text(std::move(value)));
  };
  const std::string names = recomputed(job, plan);
  // The plan's precision is a transform.
  if (given.raw("dtype", "") != nullptr) options.emplace_back("dtype", text("fp32"));
  add("batch", "", false);
  add("tensor", std::to_string(plan.tensor), plan.tensor > 1);
  add("context", std::to_string(plan.context), plan.context > 1);
  add("expert", std::to_string(plan.expert), plan.expert > 1);
  add("sequence_parallel", "true", plan.sequence);
  add("recompute", names, !names.empty());
  const Options::Value* own = given.raw("kernels", "");
  Options::Value kernels = kernels_of(job.framework, plan.precision, plan.sequence, own);
  if (!kernels.text.empty() || !kernels.children.empty())
    options.emplace_back("kernels", std::move(kernels));
  return options;
}

OpGraph rank_graph(const TrainingJob& job, const ParallelPlan& plan,
                   std::vector<NamedTransform>* applied) {
  Options options = job.options;
  for (const auto& [key, value] : rank_options(job, plan)) options.set(key, value);
  if (copies_embeddings(job, plan)) options.set("tie_word_embeddings", text("false"));
  OpGraph graph = generate_trace(job.generator, options).graph;
  if (std::ranges::none_of(graph.ops(),
                           [&](OpId v) { return graph.op(v).phase == Phase::backward; }))
    throw InputError(fmt::format(
        "{}: a plan is of a training, and this graph has no backward op: training=true makes them",
        job.generator));
  const auto apply = [&](NamedTransform transform) {
    graph = transform.make()->apply(graph).graph;
    if (applied != nullptr) applied->push_back(std::move(transform));
  };
  if (plan.precision == "fp32" && job.framework.master_weights != MasterWeights::fp32)
    throw InputError("master_weights: fp32 has no copy of its weights in 16 bits");
  if (plan.precision != "fp32") apply(precision_of(job, plan));
  if (!job.frozen.empty())
    apply({"quantize", {{}, {}, {{"weights", text(job.frozen)}, {"kernels", text("separate")}}}});
  if (plan.recompute == Recomputing::full) {
    NamedTransform again{"recompute", {}};
    if (plan.recompute_layers > 0)
      again.set("names", first_layers(graph, plan, plan.recompute_layers));
    apply(std::move(again));
  } else if (recomputes_experts(job)) {
    Options::Value experts = layers_of_experts(graph);
    if (experts.children.empty())
      throw InputError("recompute_modules: 'moe': the model has no layers of experts alone");
    apply({"recompute", {{}, {}, {{"names", std::move(experts)}}}});
  }
  if (plan.offload_layers > 0)
    apply({"recompute",
           {{},
            {},
            {{"from_host", text("true")},
             {"names", first_layers(graph, plan, plan.offload_layers)}}}});
  if (plan.overlap || plan.overlap_experts)
    apply({"overlap_exchanges",
           {{},
            {},
            {{"tokens", text(plan.overlap ? "true" : "false")},
             {"experts", text(plan.overlap_experts ? "true" : "false")}}}});
  return graph;
}

std::unique_ptr<Transform> NamedTransform::make() const {
  return make_transform(name, Options(name, {options.children.begin(), options.children.end()}));
}

ParallelPlan ParallelPlan::of_rank() const {
  ParallelPlan rank = *this;
  rank.data = 1;
  if (recompute_layers == 0 && offload_layers == 0) {
    rank.pipeline = rank.chunks = 1;
    rank.count_ends = false;
  }
  rank.zero = 0;
  rank.group = 0;
  rank.send = Sending::by_mode;
  rank.schedule = ParallelPlan{}.schedule;
  return rank;
}

const pipeline::ScheduleEntry& ParallelPlan::passes() const {
  const auto* entry = pipeline::find_schedule(chunks > 1 ? "interleaved" : schedule);
  BAECHI_CHECK(entry != nullptr, "no schedule '{}'", schedule);
  return *entry;
}

DeviceId ParallelPlan::device(std::int64_t stage, std::int64_t per_node) const {
  const std::int64_t rank = stage * ranks_of_stage();
  return static_cast<DeviceId>(ranks_of_stage() < per_node ? rank
                                                           : stage * per_node + rank % per_node);
}

bool can_plan(const pipeline::ScheduleEntry& schedule) {
  return schedule.training && schedule.flushes && !schedule.splits &&
         schedule.layout == pipeline::Layout::line;
}

std::string ParallelPlan::mistake(std::int64_t batch) const {
  const std::int64_t count = micro_batches(batch);
  if (recompute_layers > 0 && recompute != Recomputing::full)
    return "recompute_layers needs --recompute full";
  if (offload_layers > 0 && recompute == Recomputing::full)
    return "recomputed layers keep no activations to offload";
  if (count == 0)
    return fmt::format("a batch of {} cannot be divided among {} replicas in parts of {}", batch,
                       data, micro_batch);
  if (chunks > 1 && pipeline == 1) return "one stage has nothing to interleave: drop its chunks";
  if (chunks > 1 && count < pipeline)
    return fmt::format("{} interleaved stages need as many micro-batches, not {}", pipeline, count);
  if (sequence && tensor == 1) return "tokens are shared by ranks of tensor parallelism: 1 is none";
  if (overlap && !sequence)
    return "exchanges are beside products only where ranks share the tokens between these";
  if (overlap_experts && expert == 1) return "no ranks share experts: there is nothing to overlap";
  if (expert > 1 && (expert % tensor != 0 || ranks_of_stage() % expert != 0))
    return fmt::format(
        "{} ranks share experts: they are the {} ranks of tensor parallelism once or more, and a "
        "part of the {} ranks of a stage",
        expert, tensor, ranks_of_stage());
  if (expert > tensor && group > 0) return "experts are not divided in groups of replicas";
  if (zero > 0 && data * context == 1) return "ZeRO divides among replicas, and there is one";
  if (group > 0 && zero == 0) return "a group shares what ZeRO divides: ZeRO 0 divides nothing";
  if (group > 0 && (data * context) % group != 0)
    return fmt::format("{} replicas cannot be divided into groups of {}", data * context, group);
  if (chunks == 1 && !can_plan(passes()))
    return fmt::format(
        "plans cannot run {}: its stages are no line, or split their backward passes", schedule);
  return "";
}

DataParallelOptions ParallelPlan::data_parallel(std::int64_t per_node) const {
  constexpr std::array modes{Synchronisation::after, Synchronisation::zero1, Synchronisation::zero2,
                             Synchronisation::zero3};
  const std::int64_t replicas = data * context;
  std::int64_t nodes = std::min(replicas, (replicas * tensor + per_node - 1) / per_node);
  while (replicas % nodes != 0) ++nodes;  // as many on each
  DataParallelOptions options{.replicas = replicas,
                              .nodes = nodes,
                              .mode = modes.at(static_cast<std::size_t>(zero)),
                              .send = send,
                              .sharing = tensor,
                              .group = group};
  // Experts are whole: ranks of tensor parallelism have some of them, too.
  if (expert > 1) options.expert = expert / tensor;
  if (zero == 0 && send == Sending::beside) options.mode = Synchronisation::ddp;
  return options;
}

IdVector<OpId, std::int64_t> layer_of_ops(const OpGraph& graph, std::int64_t layers) {
  return layer_of_ops(graph, segments_by_layer(graph), layers);
}

IdVector<OpId, std::int64_t> parts_of_ops(const OpGraph& graph, const ParallelPlan& plan) {
  const Segments segments = segments_by_layer(graph);
  const std::int64_t layers = std::max<std::int64_t>(1, layers_of(segments)),
                     parts = plan.pipeline * plan.chunks;
  const IdVector<OpId, std::int64_t> layer = layer_of_ops(graph, segments, layers);
  const auto [least, greatest] = std::ranges::minmax(layer);
  const bool ends = plan.count_ends || parts > layers;
  const std::int64_t first = ends ? least : 0, last = ends ? greatest : layers - 1;
  IdVector<OpId, std::int64_t> part;
  for (const std::int64_t one : layer)
    part.push_back((std::clamp(one, first, last) - first) * parts / (last - first + 1));
  return part;
}

IdVector<OpId, DeviceId> devices_of_stages(const OpGraph& graph, const ParallelPlan& plan,
                                           std::int64_t per_node) {
  IdVector<OpId, DeviceId> device;
  for (const std::int64_t part : parts_of_ops(graph, plan))
    device.push_back(plan.device(part % plan.pipeline, per_node));
  return device;
}

std::int64_t layers_of(const OpGraph& graph) { return layers_of(segments_by_layer(graph)); }

std::int64_t most_parts(const OpGraph& graph) {
  const Segments segments = segments_by_layer(graph);
  const std::int64_t layers = layers_of(segments);
  if (layers == 0) return 1;
  const auto [least, greatest] = std::ranges::minmax(layer_of_ops(graph, segments, layers));
  return greatest - least + 1;
}

ParallelStep::ParallelStep(const OpGraph& graph, const TrainingJob& job, const ParallelPlan& plan,
                           std::shared_ptr<const Cluster> on)
    : cluster_(std::move(on)),
      framework_(job.framework),
      at_once_(plan.zero == 3 || job.framework.multi_tensor_update) {
  if (const std::string why = plan.mistake(job.batch); !why.empty()) throw InputError(why);
  const std::int64_t per_node = devices_of_a_node(cluster());
  if (index(plan.device(plan.pipeline - 1, per_node)) >= cluster().num_devices() ||
      (cluster().num_nodes() == 0 && plan.ranks() > per_node))
    throw InputError(fmt::format("{} ranks on {} devices", plan.ranks(), cluster().num_devices()));
  if (const std::int64_t parts = plan.pipeline * plan.chunks; parts > most_parts(graph))
    throw InputError(fmt::format("{} stages of {} layers", parts, layers_of(graph)));
  options_.schedule = plan.passes().name;
  options_.micro_batches = static_cast<std::size_t>(plan.micro_batches(job.batch));
  step_ = build_rank_step(graph, devices_of_stages(graph, plan, per_node), job, plan,
                          micro_batches() > 1, per_node);
  for (const OpId v : step_.graph.ops())
    if (step_.graph.kind(v) == "Launch")
      launches_.emplace_back(v, step_.graph.op(v).compute.count());
}

bool ParallelStep::plain() const { return can_plan(*pipeline::find_schedule(options_.schedule)); }

IdVector<OpId, Duration> ParallelStep::times(const DeviceModel& gpu) const {
  IdVector<OpId, Duration> times = roofline_times(graph(), gpu);
  for (const auto& [op, kernels] : launches_) times[op] = gpu.host_op * kernels;
  return times;
}

pipeline::PipelineResult ParallelStep::simulated(const DeviceModel& gpu, bool memory) const {
  const OpGraph timed = step_.graph.with_times(cluster().device(DeviceId{}).kind, times(gpu));
  const Bytes held = workspace_of(framework_, gpu);
  std::optional<Cluster> smaller;
  if (held > Bytes{}) {
    smaller = *cluster_;
    for (const DeviceId d : smaller->devices())
      smaller->set_memory(d, smaller->device(d).memory - std::min(held, smaller->device(d).memory));
  }
  const Cluster& used = smaller ? *smaller : *cluster_;
  const ProfiledCosts costs(timed, used);
  const Problem problem{timed,
                        used,
                        costs,
                        {.transfers = Transfers::duplex,
                         .overlap = !framework_.blocking_p2p,
                         .enforce_memory = memory,
                         .overlapped = framework_.overlapped_collectives_slowdown,
                         .disturbed = framework_.overlapped_compute_slowdown,
                         .count_memory = memory}};
  const Placement placement{.device = step_.device};
  pipeline::PipelineResult result = simulate_few(problem, placement, options_, unrolled_);
  for (pipeline::StageUse& stage : result.stages) {
    if (framework_.fp32_gradients_before_update) cast_all_gradients(stage, at_once_);
    stage.peak += held;
  }
  return result;
}

}  // namespace baechi
