#include "sim/objective/ledgers.h"

#include <algorithm>

#include "sim/problem/mean_costs.h"

namespace baechi {

LoadLedger::LoadLedger(const Problem& problem)
    : problem_(problem), transfer_(mean_transfer(problem)) {}

void LoadLedger::move(OpId v, DeviceId from, DeviceId to) {
  change<-1>(v, from);
  change<1>(v, to);
}

void LoadLedger::place(const Placement& placement) {
  const std::size_t devices = problem_.cluster.num_devices();
  loads_.assign(devices, {});
  pins_.assign(problem_.graph.num_tensors() * devices, 0);
  for (const OpId v : problem_.graph.ops()) change<1>(v, placement.device[v]);
}

template <int sign>
void LoadLedger::change(OpId v, DeviceId d) {
  const OpGraph& graph = problem_.graph;
  if (graph.lane(v) == compute_lane)  // other lanes overlap with it
    part(d, graph.op(v).phase) += sign * problem_.costs.compute(v, d);
  for (const TensorId t : graph.outputs(v)) change_pin<sign>(t, d);
  for (const EdgeId e : graph.in_edges(v)) change_pin<sign>(graph.edge(e).tensor, d);
}

/// A device pays for a tensor's transfer if it has some but not all of its producer and readers.
template <int sign>
void LoadLedger::change_pin(TensorId t, DeviceId d) {
  const std::size_t all = problem_.graph.readers(t).size() + 1;
  std::uint32_t& here = pins_[index(t) * loads_.size() + index(d)];
  const bool paid = here > 0 && here < all;
  here += static_cast<std::uint32_t>(sign);
  const bool pays = here > 0 && here < all;
  if (paid == pays || problem_.cluster.device(d).is_core()) return;
  Duration& load = part(d, problem_.graph.op(problem_.graph.tensor(t).producer).phase);
  load += pays ? transfer_[t] : -transfer_[t];
}

ConstraintLedger::ConstraintLedger(const Problem& problem) : problem_(problem) {}

void ConstraintLedger::move(OpId v, DeviceId from, DeviceId to) {
  change<-1>(v, from);
  change<1>(v, to);
}

void ConstraintLedger::place(const Placement& placement) {
  const std::size_t devices = problem_.cluster.num_devices();
  weights_.assign(devices, {});
  members_.assign((problem_.graph.num_groups() + 1) * devices, 0);
  homes_.assign(problem_.graph.num_groups() + 1, 0);
  misplaced_ = split_groups_ = 0;
  for (const OpId v : problem_.graph.ops()) change<1>(v, placement.device[v]);
}

template <int sign>
void ConstraintLedger::change(OpId v, DeviceId d) {
  const Op& op = problem_.graph.op(v);
  weights_[d] += sign * op.persistent;
  if (problem_.costs.compute(v, d) == cannot_run) misplaced_ += static_cast<std::size_t>(sign);
  if (op.group == no_group) return;
  std::uint32_t& here = members_[index(op.group) * weights_.size() + index(d)];
  const bool was_home = here > 0;
  here += static_cast<std::uint32_t>(sign);
  const bool is_home = here > 0;
  if (was_home == is_home) return;
  const bool was_split = homes_[op.group] > 1;
  homes_[op.group] += static_cast<std::uint32_t>(sign);
  const bool is_split = homes_[op.group] > 1;
  if (was_split != is_split) split_groups_ += static_cast<std::size_t>(is_split ? 1 : -1);
}

Score ConstraintLedger::score() const {
  Score score{.misplaced = misplaced_, .split_groups = split_groups_};
  if (!problem_.engine.enforce_memory) return score;
  for (const DeviceId d : problem_.cluster.devices()) {
    const Device& device = problem_.cluster.device(d);
    if (!device.is_core()) score.over += std::max(Bytes{}, weights_[d] - device.memory);
  }
  return score;
}

}  // namespace baechi
