#include <algorithm>
#include <set>

#include "sim/error.h"
#include "sim/transform/graph_copy.h"
#include "sim/transform/training/data_parallel.h"

namespace baechi {
namespace {

/// Copies of a graph in one builder, op by op: all copies of an op have adjacent ids, so that each
/// copy keeps the order of its ops.
class ReplicaBuilder {
 public:
  ReplicaBuilder(const OpGraph& graph, std::uint32_t count) : graph_(graph), count_(count) {
    for (const OpId v : graph.ops())
      for (std::uint32_t r = 0; r < count; ++r) add_op(v, r);
    for (const OpId v : graph.ops())
      for (std::uint32_t r = 0; r < count; ++r) add_edges(v, r);
  }

  OpId copy(OpId v, std::uint32_t r) const {
    return OpId{static_cast<std::uint32_t>(index(v)) * count_ + r};
  }

  /// The members `joined` of a collective are one collective with their copies.
  void add_collectives(const std::vector<OpId>& joined) {
    const std::set<OpId> together(joined.begin(), joined.end());
    for (const Collective& c : graph_.collectives()) {
      std::vector<OpId> members;
      for (std::uint32_t r = 0; r < count_; ++r) {
        for (const OpId v : c.member_ids()) members.push_back(copy(v, r));
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
  void add_op(OpId v, std::uint32_t r) {
    const Op& op = graph_.op(v);
    const auto& kinds = graph_.device_kinds();
    const std::string name =
        r == 0 ? std::string(graph_.name(v)) : fmt::format("{}{}{}", graph_.name(v), mark_, r);
    OpSpec spec = spec_of(graph_, v);
    spec.name = name;
    const OpId made = builder_.add_op(spec);
    BAECHI_CHECK(made == copy(v, r), "'{}' is not where its copies are", name);
    for (std::size_t k = 0; k < kinds.size(); ++k)
      builder_.set_compute(made, kinds[k], graph_.compute(v, k));
    for (const OpWork& kernel : graph_.kernels(v)) builder_.add_kernel(made, kernel);
    if (op.forward != no_op) builder_.set_forward(made, copy(op.forward, r));
    if (const auto [first, number] = graph_.micro_batch(v); first != v)
      builder_.set_micro_batch(made, {copy(first, r), number});
    for (const TensorId t : graph_.outputs(v)) {
      const Tensor& tensor = graph_.tensor(t);
      tensors_.push_back({});  // of a control tensor: none
      if (tensor.control) continue;
      tensors_.back() = builder_.add_tensor(made, tensor.size, tensor);
      if (const auto time = graph_.measured_transfer(t))
        builder_.set_transfer(tensors_.back(), *time);
    }
  }

  void add_edges(OpId v, std::uint32_t r) {
    const auto outputs = graph_.outputs(v);
    const std::size_t first = index(*outputs.begin()) * count_ + r * outputs.size();
    std::vector<EdgeId> edges(graph_.out_edges(v).begin(), graph_.out_edges(v).end());
    std::ranges::sort(edges, {}, [this](EdgeId e) { return graph_.added(e); });
    for (const EdgeId e : edges) {
      const Edge& edge = graph_.edge(e);
      if (graph_.tensor(edge.tensor).control)
        builder_.add_control(copy(v, r), copy(edge.dst, r));
      else
        builder_.add_edge(tensors_[first + index(edge.tensor) - index(*outputs.begin())],
                          copy(edge.dst, r));
    }
  }

  const OpGraph& graph_;
  const std::uint32_t count_;
  const std::string mark_ = copy_mark(graph_);
  OpGraphBuilder builder_;
  std::vector<TensorId> tensors_;  // by op, copy and output
};

}  // namespace

PlacedStep replicated(const PlacedStep& one, std::int64_t count, const std::vector<OpId>& joined) {
  std::uint32_t stride = 0;
  for (const DeviceId d : one.device)
    stride = std::max(stride, static_cast<std::uint32_t>(index(d)) + 1);
  const auto copies = static_cast<std::uint32_t>(count);
  ReplicaBuilder replicas(one.graph, copies);
  replicas.add_collectives(joined);
  IdVector<OpId, OpId> renumbered;
  PlacedStep all;
  all.graph = std::move(replicas).built(renumbered);
  all.device.assign(renumbered.size(), DeviceId{});
  for (const OpId made : renumbered.ids()) {
    const OpId v{static_cast<std::uint32_t>(index(made)) / copies};
    const std::uint32_t r = static_cast<std::uint32_t>(index(made)) % copies;
    all.device[renumbered[made]] =
        DeviceId{static_cast<std::uint32_t>(index(one.device[v])) + r * stride};
  }
  return all;
}

}  // namespace baechi
