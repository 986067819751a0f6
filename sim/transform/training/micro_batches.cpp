#include <algorithm>
#include <memory>
#include <vector>

#include "sim/enum_option.h"
#include "sim/error.h"
#include "sim/transform/transform.h"

namespace baechi {
namespace {

enum class Weights : std::uint8_t { shared, own };
constexpr auto names_of(Weights) {
  return std::to_array<Named<Weights>>(
      {{Weights::shared, "shared", "copies of an op share its weights, and so its device"},
       {Weights::own, "own", "each copy has weights of its own: a tower of data parallelism"}});
}

std::vector<EdgeId> in_order_added(const OpGraph& graph) {
  std::vector<EdgeId> edges(graph.edges().begin(), graph.edges().end());
  std::ranges::sort(edges, {}, [&](EdgeId e) { return graph.added(e); });
  return edges;
}

/// Copies of a graph beside each other. Forward and backward ops are there `count` times, one copy
/// of all before the next, and copy r of v is called v@r but for the first. Updates are there once,
/// and read what all copies write.
class Copies {
 public:
  Copies(const OpGraph& graph, std::int64_t count, Weights weights)
      : graph_(graph), weights_(weights), made_(static_cast<std::size_t>(count)) {
    for (auto& of_copy : made_) of_copy.assign(graph.num_ops(), no_op);
    tensors_.assign(made_.size(), IdVector<TensorId, TensorId>(graph.num_tensors()));
    for (std::size_t r = 0; r < made_.size(); ++r)
      for (const OpId v : graph.ops())
        if (there(v, r)) add_op(v, r);
    for (std::size_t r = 0; r < made_.size(); ++r)
      for (const EdgeId e : in_order_added(graph))
        if (there(graph.edge(e).src, r)) add_edge(e, r);
  }

  Transformed built() && {
    IdVector<OpId, OpId> renumbered;
    Transformed result{.graph = std::move(builder_).build(&renumbered)};
    if (graph_.free_controls()) result.graph = result.graph.with_free_controls();
    for (const OpId v : graph_.ops()) result.stands_for.push_back(renumbered[made_[0][v]]);
    return result;
  }

 private:
  bool there(OpId v, std::size_t r) const { return r == 0 || graph_.op(v).phase != Phase::update; }
  OpId copy(OpId v, std::size_t r) const { return made_[there(v, r) ? r : 0][v]; }

  void add_op(OpId v, std::size_t r) {
    const Op& op = graph_.op(v);
    const auto& kinds = graph_.device_kinds();
    const std::string name(graph_.name(v));
    const bool holds = r == 0 || weights_ == Weights::own;
    const OpId made = builder_.add_op({.name = r == 0 ? name : fmt::format("{}@{}", name, r),
                                       .kind = graph_.kind(v),
                                       .compute = kinds.empty() ? op.compute : Duration{},
                                       .persistent = holds ? op.persistent : Bytes{},
                                       .temporary = op.temporary,
                                       .phase = op.phase,
                                       .lane = graph_.lanes()[index(op.lane)],
                                       .module = graph_.module(v)});
    made_[r][v] = made;
    for (std::size_t k = 0; k < kinds.size(); ++k)
      builder_.set_compute(made, kinds[k], graph_.compute(v, k));
    for (const OpWork& kernel : graph_.kernels(v)) builder_.add_kernel(made, kernel);
    if (op.forward != no_op) builder_.set_forward(made, copy(op.forward, r));
    add_group(v, r, made);
    for (const TensorId t : graph_.outputs(v)) {
      const Tensor& tensor = graph_.tensor(t);
      if (tensor.control) continue;
      tensors_[r][t] = builder_.add_tensor(made, tensor.size, tensor.reference);
      if (const auto time = graph_.measured_transfer(t))
        builder_.set_transfer(tensors_[r][t], *time);
    }
  }

  void add_group(OpId v, std::size_t r, OpId made) {
    const GroupId group = graph_.op(v).group;
    const bool weights = graph_.op(v).persistent > Bytes{};
    if (weights_ == Weights::own) {
      if (group == no_group) return;
      const std::string& name = graph_.group_name(group);
      builder_.colocate(made, r == 0 ? name : fmt::format("{}@{}", name, r));
    } else if (group != no_group) {
      builder_.colocate(made, graph_.group_name(group));
    } else if (weights && graph_.op(v).phase != Phase::update) {
      builder_.colocate(made, graph_.name(v));
    }
  }

  /// Copies do not mix, but for what updates read and what is read of them.
  void add_edge(EdgeId e, std::size_t r) {
    const Edge& edge = graph_.edge(e);
    if (graph_.op(edge.src).phase != Phase::update || !there(edge.dst, 1)) return add_edge(e, r, r);
    for (std::size_t to = 0; to < made_.size(); ++to) add_edge(e, r, to);
  }
  void add_edge(EdgeId e, std::size_t from, std::size_t to) {
    const Edge& edge = graph_.edge(e);
    if (graph_.tensor(edge.tensor).control)
      builder_.add_control(copy(edge.src, from), copy(edge.dst, to));
    else
      builder_.add_edge(tensors_[from][edge.tensor], copy(edge.dst, to));
  }

  const OpGraph& graph_;
  const Weights weights_;
  OpGraphBuilder builder_;
  std::vector<IdVector<OpId, OpId>> made_;             // [copies][ops]
  std::vector<IdVector<TensorId, TensorId>> tensors_;  // [copies][tensors]
};

/// A step of several batches, each computed for itself. Deviation: towers' new weights are not sent
/// back to the other copies; the next step would wait for them.
class MicroBatches final : public Transform {
 public:
  explicit MicroBatches(Options& o)
      : count_(o.get("count", std::int64_t{4},
                     "how often forward and backward ops are there; updates are there once", 1,
                     1024)),
        weights_(read_enum(o, "weights", Weights::shared, "which weights copies of an op read")) {}

  Transformed apply(const OpGraph& graph) const override {
    if (!graph.collectives().empty())
      throw InputError("micro_batches: the graph has collectives, which cannot be copied here");
    Transformed made = Copies(graph, count_, weights_).built();
    made.batches = count_;
    return made;
  }

 private:
  std::int64_t count_;
  Weights weights_;
};

}  // namespace

std::unique_ptr<Transform> make_micro_batches(Options& o) {
  return std::make_unique<MicroBatches>(o);
}

}  // namespace baechi
