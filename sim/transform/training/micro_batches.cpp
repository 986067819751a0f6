#include "sim/transform/graph_copy.h"
#include "sim/transform/training/gradients.h"

namespace baechi {

enum class MicroBatchWeights : std::uint8_t { shared, own };
constexpr auto names_of(MicroBatchWeights) {
  return std::to_array<Named<MicroBatchWeights>>(
      {{MicroBatchWeights::shared, "shared",
        "copies of an op share its weights, and so its device"},
       {MicroBatchWeights::own, "own",
        "each copy has weights of its own: a tower of data parallelism"}});
}

namespace {

std::vector<EdgeId> in_order_added(const OpGraph& graph) {
  std::vector<EdgeId> edges(graph.edges().begin(), graph.edges().end());
  std::ranges::sort(edges, {}, [&](EdgeId e) { return graph.added(e); });
  return edges;
}

/// `count` copies of the forward and backward ops of a graph, one copy of the graph after the
/// other; copy r > 0 of v is named v@r. Updates exist once and read the outputs of all copies. A
/// gradient of shared weights is one tensor: later copies compute theirs in workspace and
/// accumulate it into the first, so theirs is a reference.
class Copies {
 public:
  Copies(const OpGraph& graph, std::int64_t count, MicroBatchWeights weights)
      : graph_(graph),
        weights_(weights),
        copy_(graph),
        mark_(copy_mark(graph)),
        made_(static_cast<std::size_t>(count)) {
    for (const OpId v : graph.ops())
      batches_before_ = std::max(batches_before_, graph.micro_batch(v).number + 1);
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
    Transformed result = std::move(copy_).built(&renumbered);
    IdVector<OpId, GroupId> group(renumbered.size(), no_group);
    for (std::size_t r = 0; r < made_.size(); ++r)
      for (const OpId v : graph_.ops())
        if (there(v, r)) group[renumbered[made_[r][v]]] = group_of(v, r);
    result.graph = result.graph.with_groups(group, group_names());
    return result;
  }

 private:
  bool there(OpId v, std::size_t r) const { return r == 0 || graph_.op(v).phase != Phase::update; }
  OpId copy(OpId v, std::size_t r) const { return made_[there(v, r) ? r : 0][v]; }
  std::string name(std::string_view of, std::size_t r) const {
    return r == 0 ? std::string(of) : fmt::format("{}{}{}", of, mark_, r);
  }

  void add_op(OpId v, std::size_t r) {
    const Op& op = graph_.op(v);
    OpSpec spec = copy_.spec(v);
    const std::string copied = name(spec.name, r);
    spec.name = copied;
    const auto added = [&](TensorId t) {
      return r > 0 && weights_ == MicroBatchWeights::shared && is_weight_gradient(graph_, t);
    };
    if (r > 0 && weights_ == MicroBatchWeights::shared) spec.persistent = {};
    for (const TensorId t : graph_.outputs(v))
      if (added(t)) spec.temporary += graph_.tensor(t).size;
    const OpId made = made_[r][v] = copy_.add(v, spec);
    copy_.add_kernels(v, made);
    for (const TensorId t : graph_.outputs(v))
      if (!graph_.tensor(t).control)
        tensors_[r][t] = copy_.add_tensor(t, made, graph_.tensor(t).size, added(t));
    if (r == 0) return;
    if (op.forward != no_op) copy_.builder().set_forward(made, copy(op.forward, r));
    if (weights_ == MicroBatchWeights::own && (op.persistent > Bytes{} || op.group != no_group))
      return;
    const auto [first, number] = graph_.micro_batch(v);
    copy_.builder().set_micro_batch(
        made, {made_[0][first], static_cast<std::uint32_t>(r) * batches_before_ + number});
  }

  /// An index into group_names(): the groups of the graph, per copy with own weights; then one per
  /// op.
  GroupId group_of(OpId v, std::size_t r) const {
    const Op& op = graph_.op(v);
    const bool own = weights_ == MicroBatchWeights::own;
    if (op.group != no_group)
      return static_cast<GroupId>(index(op.group) + (own ? r : 0) * graph_.num_groups());
    const bool makes_gradient = std::ranges::any_of(
        graph_.outputs(v), [&](TensorId t) { return is_weight_gradient(graph_, t); });
    if (own || op.phase == Phase::update || (op.persistent == Bytes{} && !makes_gradient))
      return no_group;
    return static_cast<GroupId>(graph_.num_groups() + index(v) + 1);
  }
  std::vector<std::string> group_names() const {
    std::vector<std::string> names;
    for (std::size_t r = 0; r < (weights_ == MicroBatchWeights::own ? made_.size() : 1); ++r)
      for (const GroupId g : graph_.groups()) names.push_back(name(graph_.group_name(g), r));
    for (const OpId v : graph_.ops()) names.emplace_back(graph_.name(v));
    return names;
  }

  /// Copies are independent, except for inputs and outputs of updates.
  void add_edge(EdgeId e, std::size_t r) {
    const Edge& edge = graph_.edge(e);
    if (graph_.op(edge.src).phase != Phase::update || !there(edge.dst, 1)) return add_edge(e, r, r);
    for (std::size_t to = 0; to < made_.size(); ++to) add_edge(e, r, to);
  }
  void add_edge(EdgeId e, std::size_t from, std::size_t to) {
    const Edge& edge = graph_.edge(e);
    if (graph_.tensor(edge.tensor).control)
      copy_.builder().add_control(copy(edge.src, from), copy(edge.dst, to));
    else
      copy_.builder().add_edge(tensors_[from][edge.tensor], copy(edge.dst, to));
  }

  const OpGraph& graph_;
  const MicroBatchWeights weights_;
  GraphCopy copy_;
  const std::string mark_;
  std::uint32_t batches_before_ = 1;                   // micro-batches of the input graph
  std::vector<IdVector<OpId, OpId>> made_;             // [copies][ops]
  std::vector<IdVector<TensorId, TensorId>> tensors_;  // [copies][tensors]
};

/// A step of several independent micro-batches. Deviation: with own weights (towers), new weights
/// are not sent to the other copies, for which the next step would wait.
class MicroBatches final : public Transform {
 public:
  explicit MicroBatches(Options& o)
      : count_(o.get("count", std::int64_t{4},
                     "number of copies of forward and backward ops; updates exist once", 1, 1024)),
        weights_(read_enum(o, "weights", MicroBatchWeights::shared,
                           "the weights that copies of an op read")) {}

  Transformed apply(const OpGraph& graph) const override {
    if (!graph.collectives().empty())
      throw InputError("micro_batches: graphs with collectives are not supported");
    Transformed made = Copies(graph, count_, weights_).built();
    made.batches = static_cast<double>(count_);
    return made;
  }

  /// Segments belong to one micro-batch, and towers share 32-bit weights.
  bool must_follow(std::string_view other) const override {
    return count_ > 1 &&
           (other == "recompute" || (other == "precision" && weights_ == MicroBatchWeights::own));
  }

 private:
  std::int64_t count_;
  MicroBatchWeights weights_;
};

}  // namespace

std::unique_ptr<Transform> make_micro_batches(Options& o) {
  return std::make_unique<MicroBatches>(o);
}

}  // namespace baechi
