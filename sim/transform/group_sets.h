/// Colocation groups while they are being merged.
#pragma once
#include <vector>

#include "sim/graph/op_graph.h"

namespace baechi {

/// Starts as the groups of a graph, each lone op a set of its own under its own name. The graph
/// outlives it.
class GroupSets {
 public:
  explicit GroupSets(const OpGraph& graph);
  /// `a` and `b`, and with them their whole sets, share a device.
  void join(OpId a, OpId b);
  /// The graph with these groups, ids kept. A set is named by the least, by (length, text), of the
  /// names that went into it. An op that nothing joined stays without a group.
  OpGraph regrouped();

 private:
  OpId root(OpId v);

  const OpGraph& graph_;
  IdVector<OpId, OpId> parent_;  // [num_ops], ids descend towards the root
};

}  // namespace baechi
