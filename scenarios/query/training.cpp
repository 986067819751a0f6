#include "scenarios/planning/machines.h"
#include "scenarios/query/query.h"
#include "scenarios/read/sections.h"
#include "scenarios/run/build.h"

namespace baechi::query {
namespace {

/// More devices' memory than any step takes, and few enough bytes that a problem may have them.
constexpr std::int64_t many_memories = 64;

ClusterChoice read_machines(Options& o, std::int64_t devices) {
  const Options::Value* nodes =
      o.raw("nodes", "a node type, or a section `cluster.nodes` with the number of nodes");
  if (nodes == nullptr) throw InputError("the question has no 'nodes'");
  if (nodes->children.empty()) return cluster_of_nodes(nodes->text, devices);
  Options::Value section;
  section.children.emplace_back("nodes", *nodes);
  Mistakes mistakes;
  ClusterChoice choice = read_cluster(section, "", built_in_devices(), mistakes);
  mistakes.throw_if_any();
  return choice;
}

/// What the question leaves out is as the framework's file has it, as in 'baechi plan'.
ParallelPlan read_plan(Options& o, std::int64_t devices, const Framework& framework) {
  const auto whole = [&](const char* key, std::int64_t fallback, std::int64_t least) {
    return o.get(key, fallback, "as in 'baechi plan'", least);
  };
  const auto yes = [&](const char* key, bool fallback) {
    return o.get(key, fallback, "as in 'baechi plan'");
  };
  ParallelPlan p;
  p.tensor = whole("tensor", 1, 1);
  p.context = whole("context", 1, 1);
  p.expert = whole("expert", 1, 1);
  p.pipeline = whole("pipeline", 1, 1);
  p.chunks = whole("virtual", 1, 1);
  p.micro_batch = whole("micro_batch", 1, 1);
  p.sequence = yes("sequence", false) && p.tensor > 1;
  p.overlap = yes("overlap", framework.tp_comm_overlap) && p.sequence;
  p.overlap_experts = yes("overlap_experts", framework.overlap_expert_dispatch) && p.expert > 1;
  p.recompute = read_enum(o, "recompute", Recomputing::off, "what is recomputed");
  p.recompute_layers = whole("recompute_layers", framework.recompute_layers, 0);
  p.offload_layers = whole("offload_layers", framework.offload_layers, 0);
  p.count_ends = yes("count_ends", framework.account_for_embedding_and_loss);
  p.precision = o.get("precision", "fp16", "dtype of the weights");
  p.zero = static_cast<int>(o.get("zero", std::int64_t{0}, "stage of ZeRO", 0, 3));
  p.group = whole("fsdp", 0, 0);
  p.send = read_enum(
      o, "send", framework.overlap_grad_reduce.value_or(false) ? Sending::beside : Sending::by_mode,
      "when gradients are sent");
  const std::int64_t of_a_replica = p.tensor * p.context * p.pipeline;
  if (devices % of_a_replica != 0)
    throw InputError(fmt::format("{} devices in replicas of {}", devices, of_a_replica));
  p.data = devices / of_a_replica;
  return p;
}

TrainingJob read_job(Options& o, ParallelPlan& plan, Framework framework) {
  TrainingJob job;
  job.framework = std::move(framework);
  job.framework.multi_tensor_update |= plan.zero == 3;
  if (plan.data * plan.context == 1) plan.zero = 0;
  job.batch = o.get("batch", std::int64_t{1}, "samples of a step, over all replicas", 1);
  job.generator = o.get("generator", "", "the model's");
  job.options = Options(job.generator);
  if (const Options::Value* options = o.raw("options", "of the generator"))
    for (const auto& [key, value] : options->children) job.options.set(key, value);
  return job;
}

double sum_of(const OpGraph& graph, auto&& of_op) {
  double sum = 0.0;
  for (const OpId v : graph.ops()) sum += of_op(v);
  return sum;
}

/// FLOPs of the forward and backward ops of a graph.
double model_flops(const OpGraph& graph) {
  return sum_of(graph, [&](OpId v) {
    return graph.op(v).phase != Phase::update ? static_cast<double>(graph.work(v).flops) : 0.0;
  });
}

double weight_bytes(const OpGraph& graph) {
  return sum_of(graph, [&](OpId v) {
    return graph.op(v).phase == Phase::forward ? static_cast<double>(graph.op(v).persistent.count)
                                               : 0.0;
  });
}

/// What forward ops write and backward ops read.
std::int64_t kept_bytes(const OpGraph& graph) {
  std::int64_t bytes = 0;
  for (const TensorId id : graph.tensors()) {
    const auto waits = [&](EdgeId e) {
      return graph.op(graph.edge(e).dst).phase == Phase::backward;
    };
    if (graph.op(graph.tensor(id).producer).phase == Phase::forward &&
        std::ranges::any_of(graph.readers(id), waits))
      bytes += graph.tensor(id).held().count;
  }
  return bytes;
}

double flops_without_recomputing(const OpGraph& graph, TrainingJob job, ParallelPlan plan) {
  if (plan.recompute == Recomputing::off && job.framework.recompute_modules.empty() &&
      plan.offload_layers == 0)
    return model_flops(graph);
  plan.recompute = Recomputing::off;
  plan.recompute_layers = plan.offload_layers = 0;
  job.framework.recompute_modules.clear();
  return model_flops(rank_graph(job, plan));
}

/// The passes of a micro-batch, one kernel after the other, in two parts: layers, and what precedes
/// and follows them. Collectives of layers count, updates do not.
Json pieces_of(const ParallelStep& step, const DeviceModel& gpu) {
  struct Piece {
    Duration time{};
    std::int64_t kernels = 0;
  } layer, head;
  const OpGraph& graph = step.graph();
  const IdVector<OpId, Duration> times = roofline_times(graph, gpu);
  const IdVector<OpId, std::int64_t> layers = layer_of_ops(graph, 1);
  for (const OpId v : graph.ops()) {
    if (graph.op(v).phase == Phase::update || graph.op(v).lane != compute_lane) continue;
    Piece& piece = layers[v] == 0 ? layer : head;
    piece.time += times[v];
    piece.kernels += std::ssize(graph.kernels(v));
  }
  for (const Collective& c : graph.collectives())
    if (layers[c.first] == 0 && graph.op(c.first).phase != Phase::update)
      layer.time +=
          step.cluster().collectives().time(c, std::array{step.device()[c.first]}, step.cluster());
  const auto json = [](const Piece& piece) {
    return Json{{"time_us", to_us(piece.time)}, {"kernels", piece.kernels}};
  };
  return {{"layers", json(layer)}, {"ends", json(head)}, {"host_op_us", to_us(gpu.host_op)}};
}

}  // namespace

Json answer_training(Options& o) {
  const std::int64_t devices = o.get("devices", std::int64_t{1}, "of all nodes", 1);
  ClusterChoice choice = read_machines(o, devices);
  const Options::Value* as = o.raw("as", "a device type, or its numbers, in place of the nodes'");
  DeviceModel gpu = *device_of(
      as != nullptr ? *as : Options::Value{.text = choice.devices.front().kind, .where = ""}, "as");
  Framework framework;
  if (const Options::Value* given =
          o.raw("framework", "a name, FILE.yaml or {like: NAME, key: value}"))
    framework = read_framework(*given);
  gpu = launched_by(framework, std::move(gpu));
  gpu.host_op = o.get("host_op", gpu.host_op, "of a kernel's launch, in place of the device's");
  const Bytes memory = as == nullptr ? choice.devices.front().memory : gpu.memory;
  ParallelPlan plan = read_plan(o, devices, framework);
  const TrainingJob job = read_job(o, plan, std::move(framework));
  const bool pieces = o.get("pieces", false, "also the times of the layers and of the rest");
  o.finish();
  if (const std::string why = plan.mistake(job.batch); !why.empty()) throw InputError(why);
  for (DeviceChoice& group : choice.devices) group.memory = Bytes{many_memories * memory.count};
  const OpGraph graph = rank_graph(job, plan);
  const ParallelStep step(graph, job, plan, std::make_shared<const Cluster>(make_cluster(choice)));
  if (pieces) return pieces_of(step, gpu);
  const pipeline::PipelineResult result = step.simulated(gpu, true);
  if (result.oom) throw InputError(fmt::format("more memory than {} devices have", many_memories));
  const Bytes peak = std::ranges::max(result.stages, {}, &pipeline::StageUse::peak).peak;
  const auto stages = static_cast<double>(plan.pipeline);
  return {{"step_time_us", to_us(result.makespan)},
          {"peak_bytes", peak.count},
          {"last_peak_bytes", result.stages.back().peak.count},
          {"memory_bytes", memory.count},
          {"fits", peak <= memory},
          {"flops", flops_without_recomputing(graph, job, plan) *
                        static_cast<double>(plan.micro_batches(job.batch)) / stages},
          {"weight_bytes", weight_bytes(graph) / stages},
          {"kept_bytes", kept_bytes(graph)}};
}

}  // namespace baechi::query
