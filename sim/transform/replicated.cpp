#include <algorithm>
#include <set>

#include "sim/transform/data_parallel.h"

namespace baechi {
namespace {

/// Copies of a graph beside each other in one builder.
class Replicas {
 public:
  Replicas(const OpGraph& graph, std::int64_t count)
      : graph_(graph), copies_(static_cast<std::size_t>(count)) {
    for (std::uint32_t r = 0; r < copies_.size(); ++r) add(r);
  }

  /// The members `joined` of a collective are one collective with their copies.
  void add_collectives(const std::vector<OpId>& joined) {
    const std::set<OpId> together(joined.begin(), joined.end());
    for (const Collective& c : graph_.collectives()) {
      std::vector<OpId> members;
      for (const IdVector<OpId, OpId>& copy : copies_) {
        for (const OpId v : c.member_ids()) members.push_back(copy[v]);
        if (together.contains(c.first)) continue;
        builder_.add_collective(c, members);
        members.clear();
      }
      if (!members.empty()) builder_.add_collective(c, members);
    }
  }

  OpGraph built(IdVector<OpId, OpId>& renumbered) && {
    OpGraph graph = std::move(builder_).build(&renumbered);
    return graph_.free_controls() ? graph.with_free_controls() : std::move(graph);
  }

 private:
  void add(std::uint32_t r) {
    IdVector<OpId, OpId>& copy = copies_[r];
    IdVector<TensorId, TensorId> tensors(graph_.num_tensors());
    for (const OpId v : graph_.ops()) {
      copy.push_back(add_op(v, r));
      if (graph_.op(v).forward != no_op) builder_.set_forward(copy[v], copy[graph_.op(v).forward]);
      for (const TensorId t : graph_.outputs(v)) {
        const Tensor& tensor = graph_.tensor(t);
        if (tensor.control) continue;
        tensors[t] = builder_.add_tensor(copy[v], tensor.size, tensor.reference);
        if (const auto time = graph_.measured_transfer(t)) builder_.set_transfer(tensors[t], *time);
      }
    }
    for (const OpId v : graph_.ops()) {
      std::vector<EdgeId> edges(graph_.out_edges(v).begin(), graph_.out_edges(v).end());
      std::ranges::sort(edges, {}, [this](EdgeId e) { return graph_.added(e); });
      for (const EdgeId e : edges) {
        const Edge& edge = graph_.edge(e);
        if (graph_.tensor(edge.tensor).control)
          builder_.add_control(copy[v], copy[edge.dst]);
        else
          builder_.add_edge(tensors[edge.tensor], copy[edge.dst]);
      }
    }
  }

  OpId add_op(OpId v, std::uint32_t r) {
    const Op& op = graph_.op(v);
    const auto& kinds = graph_.device_kinds();
    const std::string name =
        r == 0 ? std::string(graph_.name(v)) : fmt::format("{}@{}", graph_.name(v), r);
    const OpId copy = builder_.add_op({.name = name,
                                       .kind = graph_.kind(v),
                                       .compute = kinds.empty() ? op.compute : Duration{},
                                       .persistent = op.persistent,
                                       .temporary = op.temporary,
                                       .phase = op.phase,
                                       .lane = graph_.lanes()[index(op.lane)]});
    for (std::size_t k = 0; k < kinds.size(); ++k)
      builder_.set_compute(copy, kinds[k], graph_.compute(v, k));
    for (const OpWork& kernel : graph_.kernels(v)) builder_.add_kernel(copy, kernel);
    return copy;
  }

  const OpGraph& graph_;
  OpGraphBuilder builder_;
  std::vector<IdVector<OpId, OpId>> copies_;  // [count][num_ops], ids in the builder
};

}  // namespace

PlacedStep replicated(const PlacedStep& one, std::int64_t count, const std::vector<OpId>& joined) {
  std::uint32_t stride = 0;
  for (const DeviceId d : one.device)
    stride = std::max(stride, static_cast<std::uint32_t>(index(d)) + 1);
  Replicas replicas(one.graph, count);
  replicas.add_collectives(joined);
  IdVector<OpId, OpId> renumbered;
  PlacedStep all;
  all.graph = std::move(replicas).built(renumbered);
  all.device.assign(renumbered.size(), DeviceId{});
  for (const OpId made : renumbered.ids()) {  // replica after replica, in the order of ids
    const auto r = static_cast<std::uint32_t>(index(made) / one.graph.num_ops());
    const OpId v{static_cast<std::uint32_t>(index(made) % one.graph.num_ops())};
    all.device[renumbered[made]] =
        DeviceId{static_cast<std::uint32_t>(index(one.device[v])) + r * stride};
  }
  return all;
}

}  // namespace baechi
