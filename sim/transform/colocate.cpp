#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/transform/group_sets.h"
#include "sim/transform/transform.h"

namespace baechi {
namespace {

/// Kinds that TensorFlow puts beside the variable they read.
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

/// TensorFlow's colocation rules, as far as a graph tells:
/// - groups that are there stay, and an op that is in one is not joined to another op: a trace that
///   states a group knows better;
/// - a backward op goes with the op it differentiates (colocate_gradients_with_ops);
/// - a variable is an op that holds persistent bytes and reads nothing. Reads, assignments and
///   lookups of it, by kind, go with it if it is the only variable they read;
/// - an update op goes with those ops with persistent bytes that it reads and no other update op
///   does: the weights and their slots, but not what all updates share (Adam's powers of beta, a
///   learning rate). If there are none, with the largest that it reads; if it reads none, with the
///   op it is said to belong to (Op::forward), or one with persistent bytes whose gradient it
///   reads.
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

  /// Ops whose data `v` reads, ascending, each once.
  static std::vector<OpId> sources(const OpGraph& graph, OpId v) {
    std::vector<OpId> found;
    for (const EdgeId e : graph.in_edges(v)) {
      const OpId src = graph.edge(e).src;
      if (!is_control(graph, e) && (found.empty() || found.back() != src)) found.push_back(src);
    }
    return found;
  }

  /// The variable whose read, assignment or lookup `v` is.
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

  /// Update ops that read each op. [num_ops]
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

std::unique_ptr<Transform> make_colocate(Options& o) {
  return std::make_unique<Colocate>(o);
}

}  // namespace baechi
