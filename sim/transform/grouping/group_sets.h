/// Union-find over colocation groups.
#pragma once
#include <vector>

#include "sim/graph/op_graph.h"

namespace baechi {

/// Initially each group of the graph is a set, and each op without a group is a set with the op's
/// name. The graph must outlive this.
class GroupSets {
 public:
  explicit GroupSets(const OpGraph& graph);
  /// Unites the sets of `a` and `b`.
  void join(OpId a, OpId b);
  /// The graph with these sets as groups; ids stay. The name of a united set is the least name, by
  /// (length, text), of the sets in it. An op that was never joined stays without a group.
  OpGraph regrouped();

 private:
  OpId root(OpId v);

  const OpGraph& graph_;
  IdVector<OpId, OpId> parent_;  // [num_ops], ids decrease towards the root
};

}  // namespace baechi
