#include "scenarios/planning/stage_additions.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/graph/phase_names.h"

namespace baechi {

StageAdditions::StageAdditions(const ParallelPlan& plan, std::int64_t micro_batches,
                               std::int64_t per_node, const OpGraph& graph,
                               const IdVector<OpId, DeviceId>& device)
    : plan_(plan), graph_(graph), device_(device), copy_(graph) {
  copy_graph(micro_batches > 1);
  for (auto& [d, stage] : stages_) {
    add_launches(d, stage);
    if (plan.data > 1) stage.sum = add_sum(d, stage, per_node);
  }
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
    const OpId made = copy_.add(v, copy_.spec(v));
    copy_.add_kernels(v, made);
    if (accumulates) add_to_gradients(v, made);
    for (const TensorId t : graph_.outputs(v))
      if (!graph_.tensor(t).control) tensors[t] = copy_.add_tensor(t, made, graph_.tensor(t).size);
    Stage& stage = stages_[device_[v]];
    const Phase phase = graph_.op(v).phase;
    stage.kernels[static_cast<std::size_t>(phase)] +=
        static_cast<std::int64_t>(graph_.kernels(v).size());
    if (phase == Phase::backward) stage.gradients += graph_.op(v).persistent;
  }
  copy_.add_edges(tensors);
}

// Each micro-batch adds its gradients of the weights to those before: it reads two, writes one.
void StageAdditions::add_to_gradients(OpId v, OpId made) {
  const Op& op = graph_.op(v);
  if (op.phase != Phase::backward || op.persistent == Bytes{}) return;
  copy_.builder().add_kernel(made, {.traffic = 3 * op.persistent});
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

// The replicas add up the gradients of a stage, once, before its updates.
OpId StageAdditions::add_sum(DeviceId d, const Stage& stage, std::int64_t per_node) {
  const OpId op = copy_.builder().add_op(
      {.name = fmt::format("gradients/{}", index(d)), .phase = Phase::update});
  added_.emplace_back(op, d);
  copy_.builder().add_collective(
      {.kind = CollectiveKind::all_reduce,
       .bytes = stage.gradients,
       .ranks = static_cast<std::uint32_t>(plan_.data),
       .nodes = static_cast<std::uint32_t>((plan_.data * plan_.tensor + per_node - 1) / per_node),
       .sharing = static_cast<std::uint32_t>(plan_.tensor)},
      {{op}});
  return op;
}

void StageAdditions::join_sum(OpId v) {
  const OpId sum = stages_[device_[v]].sum;
  if (sum == no_op) return;
  if (graph_.op(v).phase == Phase::backward && graph_.op(v).persistent > Bytes{})
    copy_.builder().add_control(copy_.copy_of(v), sum);
  if (graph_.op(v).phase == Phase::update) copy_.builder().add_control(sum, copy_.copy_of(v));
}

}  // namespace baechi
