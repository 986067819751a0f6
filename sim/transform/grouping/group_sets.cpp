#include "sim/transform/grouping/group_sets.h"

#include <algorithm>
#include <string>

namespace baechi {

GroupSets::GroupSets(const OpGraph& graph) : graph_(graph) {
  parent_.reserve(graph.num_ops());
  for (const OpId v : graph.ops()) {
    const GroupId g = graph.op(v).group;
    parent_.push_back(g == no_group ? v : graph.members(g).front());
  }
}

OpId GroupSets::root(OpId v) {
  while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
  return v;
}

void GroupSets::join(OpId a, OpId b) {
  const auto [low, high] = std::minmax({root(a), root(b)});
  parent_[high] = low;
}

OpGraph GroupSets::regrouped() {
  IdVector<OpId, GroupId> group(graph_.num_ops(), no_group);
  std::vector<std::string> names;
  IdVector<OpId, bool> joined(graph_.num_ops(), false);
  for (const OpId v : graph_.ops()) joined[root(v)] = joined[root(v)] || root(v) != v;
  for (const OpId v : graph_.ops()) {
    const OpId r = root(v);
    const GroupId own = graph_.op(v).group;
    if (!joined[r] && own == no_group) continue;
    const std::string_view label = own == no_group ? graph_.name(v) : graph_.group_name(own);
    if (r == v) {  // the root is the lowest op of its set, so it comes first
      names.emplace_back(label);
      group[v] = static_cast<GroupId>(names.size());
      continue;
    }
    group[v] = group[r];
    std::string& name = names[index(group[r]) - 1];
    if (std::pair(label.size(), label) < std::pair(name.size(), std::string_view(name)))
      name = label;
  }
  return graph_.with_groups(group, names);
}

}  // namespace baechi
