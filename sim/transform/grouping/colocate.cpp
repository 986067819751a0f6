#include "sim/transform/grouping/fusion.h"
#include "sim/transform/transform.h"

namespace baechi {
namespace {

/// Kinds of ops that TensorFlow places on the device of the variable that they read.
constexpr std::string_view beside_variable[] = {
    "Identity",
    "ReadVariableOp",
    "Assign",
    "AssignVariableOp",
    "AssignAdd",
    "AssignSub",
    "Gather",
    "GatherV2",
    "ResourceGather",
    "ScatterAdd",
    "ScatterSub",
    "ScatterUpdate",
    "AssignAddVariableOp",
    "AssignSubVariableOp",
    "IsVariableInitialized",
    "VarIsInitializedOp",
};

/// TensorFlow's colocation rules, as far as the graph has the necessary information:
/// - The groups of the graph stay, and an op in one of them joins no other op: the trace takes
///   precedence.
/// - A backward op goes with the op it differentiates (colocate_gradients_with_ops).
/// - A variable is an op that holds persistent bytes and reads nothing. Ops of the kinds above go
///   with the variable that they read, if they read one only.
/// - An update op goes with every op with persistent bytes that it reads and no other update op
///   reads: the weights and their slots, but not Adam's powers of beta or a learning rate, which
///   all updates read. If there is none, it goes with the largest op with persistent bytes that it
///   reads; if it reads none, with its forward op (Op::forward), or else with an op with persistent
///   bytes whose gradient it reads.
/// Source: TensorFlow 1 (optimizer.py, slot_creator.py, gradients_impl.py), which Baechi runs on.
class Colocate final : public Transform {
 public:
  explicit Colocate(Options& o)
      : gradients_(o.get("gradients", true, "backward ops with the ops they differentiate")),
        variables_(o.get("variables", true,
                         "variables with their reads, assignments, updates and slots")) {}

  Transformed apply(const OpGraph& graph) const override {
    GroupSets sets(graph);
    const auto update_readers = count_update_readers(graph);
    for (const OpId v : graph.ops()) {
      const Op& op = graph.op(v);
      if (op.group != no_group) continue;
      if (gradients_ && op.phase == Phase::backward && op.forward != no_op)
        sets.join(v, op.forward);
      if (!variables_) continue;
      if (op.phase == Phase::update) {
        for (const OpId home : homes(graph, v, update_readers)) sets.join(v, home);
      } else if (const auto variable = variable_of(graph, v)) {
        sets.join(v, *variable);
      }
    }
    return same_ops(sets.regrouped());
  }

 private:
  static bool holds_weights(const OpGraph& graph, OpId v) {
    return graph.op(v).persistent > Bytes{};
  }

  static bool is_control(const OpGraph& graph, EdgeId e) {
    return graph.tensor(graph.edge(e).tensor).control;
  }

  /// The ops whose tensors `v` reads, each once, in ascending order.
  static std::vector<OpId> sources(const OpGraph& graph, OpId v) {
    std::vector<OpId> found;
    for (const EdgeId e : graph.in_edges(v)) {
      const OpId src = graph.edge(e).src;
      if (!is_control(graph, e) && (found.empty() || found.back() != src)) found.push_back(src);
    }
    return found;
  }

  /// The variable that `v` goes with, if `v` is of a kind in `beside_variable`.
  static std::optional<OpId> variable_of(const OpGraph& graph, OpId v) {
    if (std::ranges::find(beside_variable, graph.kind(v)) == std::end(beside_variable))
      return std::nullopt;
    std::optional<OpId> variable;
    for (const OpId u : sources(graph, v)) {
      if (!holds_weights(graph, u) || !graph.in_edges(u).empty()) continue;
      if (variable) return std::nullopt;
      variable = u;
    }
    return variable;
  }

  /// For each op the number of update ops that read it. [num_ops]
  static IdVector<OpId, std::uint32_t> count_update_readers(const OpGraph& graph) {
    IdVector<OpId, std::uint32_t> readers(graph.num_ops());
    for (const OpId v : graph.ops()) {
      if (graph.op(v).phase != Phase::update) continue;
      for (const OpId u : sources(graph, v)) ++readers[u];
    }
    return readers;
  }

  static std::vector<OpId> homes(const OpGraph& graph, OpId update,
                                 const IdVector<OpId, std::uint32_t>& update_readers) {
    std::vector<OpId> own;
    OpId largest = no_op;
    OpId differentiated = no_op;
    for (const OpId u : sources(graph, update)) {
      if (holds_weights(graph, u)) {
        if (update_readers[u] == 1) own.push_back(u);
        if (largest == no_op || graph.op(u).persistent > graph.op(largest).persistent) largest = u;
      }
      const OpId forward = graph.op(u).forward;
      if (differentiated == no_op && forward != no_op && holds_weights(graph, forward))
        differentiated = forward;
    }
    if (!own.empty()) return own;
    for (const OpId home : {largest, graph.op(update).forward, differentiated})
      if (home != no_op) return {home};
    return {};
  }

  bool gradients_;
  bool variables_;
};

}  // namespace

std::unique_ptr<Transform> make_colocate(Options& o) { return std::make_unique<Colocate>(o); }

}  // namespace baechi
