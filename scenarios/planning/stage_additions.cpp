#include "scenarios/planning/stage_additions.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/graph/phase_names.h"
#include "sim/transform/training/gradients.h"
#include "sim/transform/training/weight_gathers.h"

namespace baechi {
namespace {

// What ZeRO 2 and 3 send at once, at least: the default of PyTorch's DistributedDataParallel.
constexpr Bytes bucket{25 << 20};

Bytes share(Bytes whole, std::int64_t of) {
  return {(whole.count + of - 1) / of};
}

}  // namespace

StageAdditions::StageAdditions(const ParallelPlan& plan, std::int64_t micro_batches,
                               std::int64_t per_node, const OpGraph& graph,
                               const IdVector<OpId, DeviceId>& device)
    : plan_(plan), per_node_(per_node), graph_(graph), device_(device), copy_(graph) {
  copy_graph(micro_batches > 1);
  for (const auto& [d, stage] : stages_) add_launches(d, stage);
  if (plan.data == 1) return;
  if (plan.zero >= 2) scatter_gradients();
  if (plan.zero == 3) {
    gather_weights();
    return;
  }
  for (auto& [d, stage] : stages_)
    stage.sum = plan.zero == 2
                    ? add_collective(d, CollectiveKind::all_gather, stage.weights, Phase::update,
                                     fmt::format("weights/{}", index(d)))
                    : add_collective(d, CollectiveKind::all_reduce, stage.gradients, Phase::update,
                                     fmt::format("gradients/{}", index(d)));
  for (const OpId v : graph.ops()) join_sum(v);
}

StageAdditions::Result StageAdditions::result() && {
  IdVector<OpId, OpId> renumbered;
  Transformed made = std::move(copy_).built(&renumbered);
  Result result{.graph = made.graph.with_free_controls(), .device = {}, .launches = {}};
  result.device.assign(made.graph.num_ops(), DeviceId{});
  for (const OpId v : graph_.ops()) result.device[made.stands_for[v]] = device_[v];
  for (const auto& [op, d] : added_) result.device[renumbered[op]] = d;
  for (const auto& [op, kernels] : launches_) result.launches.emplace_back(renumbered[op], kernels);
  return result;
}

void StageAdditions::copy_graph(bool accumulates) {
  IdVector<TensorId, TensorId> tensors(graph_.num_tensors());
  for (const OpId v : graph_.ops()) {
    const Phase phase = graph_.op(v).phase;
    OpSpec spec = copy_.spec(v);
    spec.persistent = kept_bytes(v);
    const OpId made = copy_.add(v, spec);
    const std::int64_t work_of = phase == Phase::update && plan_.zero >= 1 ? plan_.data : 1;
    copy_.add_kernels(v, made, [&](OpWork work) {
      work.flops = (work.flops + work_of - 1) / work_of;
      work.traffic = share(work.traffic, work_of);
      return work;
    });
    if (accumulates) add_to_gradients(v, made, spec.persistent);
    for (const TensorId t : graph_.outputs(v))
      if (!graph_.tensor(t).control) tensors[t] = copy_.add_tensor(t, made, graph_.tensor(t).size);
    Stage& stage = stages_[device_[v]];
    stage.kernels[static_cast<std::size_t>(phase)] +=
        static_cast<std::int64_t>(graph_.kernels(v).size());
    if (phase == Phase::forward) stage.weights += graph_.op(v).persistent;
    if (phase == Phase::backward) stage.gradients += graph_.op(v).persistent;
  }
  copy_.add_edges(tensors);
}

// What one replica keeps of an op's persistent bytes.
Bytes StageAdditions::kept_bytes(OpId v) const {
  const Op& op = graph_.op(v);
  const int divided_from = op.phase == Phase::forward ? 3 : op.phase == Phase::backward ? 2 : 1;
  return share(op.persistent, plan_.zero >= divided_from ? plan_.data : 1);
}

// Each micro-batch adds its gradients of the weights to those before, of which `kept` bytes are
// here: it reads two, writes one.
void StageAdditions::add_to_gradients(OpId v, OpId made, Bytes kept) {
  if (graph_.op(v).phase != Phase::backward || kept == Bytes{}) return;
  copy_.builder().add_kernel(made, {.traffic = 3 * kept});
}

// The host launches the kernels of a pass in a lane of its own, once the pass has received what
// the stage before sent (Megatron-LM waits there for the GPU). The last ops of the pass wait for
// the launches: a pass takes at least as long, and hands on what it made no sooner.
void StageAdditions::add_launches(DeviceId d, const Stage& stage) {
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
// Whether `v` is a first op of its pass and reads what another stage sent.
bool StageAdditions::receives(OpId v) const {
  const auto in_pass = [&](EdgeId e) {
    const OpId src = graph_.edge(e).src;
    return device_[src] == device_[v] && graph_.op(src).phase == graph_.op(v).phase;
  };
  const auto sent = [&](EdgeId e) { return device_[graph_.edge(e).src] != device_[v]; };
  return std::ranges::any_of(graph_.in_edges(v), sent) &&
         std::ranges::none_of(graph_.in_edges(v), in_pass);
}
// Whether no other op of its pass reads what `v` writes.
bool StageAdditions::is_last(OpId v) const {
  for (const TensorId t : graph_.outputs(v))
    for (const EdgeId e : graph_.readers(t)) {
      const OpId reader = graph_.edge(e).dst;
      if (device_[reader] == device_[v] && graph_.op(reader).phase == graph_.op(v).phase)
        return false;
    }
  return true;
}

// A collective of the replicas of a rank.
OpId StageAdditions::add_collective(DeviceId d, CollectiveKind kind, Bytes bytes, Phase phase,
                                    std::string_view name) {
  const OpId op = copy_.builder().add_op({.name = name, .phase = phase});
  added_.emplace_back(op, d);
  copy_.builder().add_collective(
      {.kind = kind,
       .bytes = bytes,
       .ranks = static_cast<std::uint32_t>(plan_.data),
       .nodes = static_cast<std::uint32_t>((plan_.data * plan_.tensor + per_node_ - 1) / per_node_),
       .sharing = static_cast<std::uint32_t>(plan_.tensor)},
      {{op}});
  return op;
}

// Each backward pass: a gradient is whole from the start of its op to the end of its bucket's
// reduce_scatter; then its share is added to those before.
void StageAdditions::scatter_gradients() {
  std::size_t number = 0;
  for (const Bucket& b : buckets_of(gradients_of(graph_), device_, bucket, bucket)) {
    const OpId scatter = add_collective(b.device, CollectiveKind::reduce_scatter, b.bytes,
                                        Phase::backward, fmt::format("scatter/{}", number++));
    for (const Gradient& g : b.gradients) {
      const OpId producer = copy_.copy_of(g.producer);
      copy_.builder().add_edge(copy_.builder().add_tensor(producer, g.bytes), scatter);
    }
  }
}

// Each pass: weights are whole from the start of their all_gather to the end of the ops that read
// them; one all_gather runs ahead of those ops.
void StageAdditions::gather_weights() {
  std::size_t number = 0;
  for (const WeightGather& g : weight_gathers(graph_, device_, 1, bucket)) {
    const OpId gather =
        add_collective(g.device, CollectiveKind::all_gather, g.bytes,
                       graph_.op(g.first_user()).phase, fmt::format("gather/{}", number++));
    const TensorId whole = copy_.builder().add_tensor(gather, g.bytes);
    for (const OpId v : g.users) copy_.builder().add_edge(whole, copy_.copy_of(v));
    if (g.waits_for != no_op) copy_.builder().add_control(copy_.copy_of(g.waits_for), gather);
  }
}

// Updates wait for the sum of the gradients, or the all_gather of the weights for them.
void StageAdditions::join_sum(OpId v) {
  const OpId sum = stages_[device_[v]].sum, made = copy_.copy_of(v);
  const Phase phase = graph_.op(v).phase;
  if (plan_.zero == 2) {
    if (phase == Phase::update) copy_.builder().add_control(made, sum);
    return;
  }
  if (phase == Phase::backward && graph_.op(v).persistent > Bytes{})
    copy_.builder().add_control(made, sum);
  if (phase == Phase::update) copy_.builder().add_control(sum, made);
}

}  // namespace baechi
