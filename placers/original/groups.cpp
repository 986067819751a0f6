#include <algorithm>

#include "placers/original/original.h"

namespace baechi::original {

IdVector<GroupId, Group> groups_of(const Graph& graph) {
  IdVector<GroupId, Group> groups(graph.num_groups() + 1);
  for (const OpId v : graph.ops()) {
    const Graph::Op& op = graph.op(v);
    Group& group = groups[op.group];
    group.members.push_back(v);
    group.temporary_max = std::max(group.temporary_max, op.temporary);
    group.outputs_max = std::max(group.outputs_max, op.outputs);
    group.persistent_sum += op.persistent;
    group.outputs_sum += op.outputs;
  }
  return groups;
}

}  // namespace baechi::original
