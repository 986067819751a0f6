/// Replays the groupers and fusion of the goldens with our transforms.
#pragma once
#include "sim/transform/grouping/fusion.h"
#include "tests/golden/graph.h"

namespace baechi::golden {

/// The original's `coplace` grouper on lists of groups: `tf` groups, merged by the transform.
/// `edges`: pairs of ops. Throws InputError on a cycle.
std::vector<std::string> coplaced_groups(const std::vector<std::vector<std::string>>& labels,
                                         const std::vector<FusionEdge>& edges);
std::vector<std::string> coplaced_groups(const GoldenGraph& graph);

/// The fused graph as results/small records it: num_ops, num_edges, nodes, edges.
json fused_record(const GoldenGraph& golden, const NamedGraph& grouped, const FusionRules& rules);

/// The rules that a key of `fusion` names, as "tf:disjoint=0:cycle=1" or "coplace:disjoint", and
/// the grouper before them.
struct FusionKey {
  std::string grouper;
  FusionRules rules;
};
FusionKey fusion_key(const std::string& key);

}  // namespace baechi::golden
