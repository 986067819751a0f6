#include <utility>

#include "sim/transform/transform.h"

namespace baechi {

Transformed same_ops(OpGraph graph) {
  Transformed result{.graph = std::move(graph)};
  result.mapped_op.reserve(result.graph.num_ops());
  for (const OpId v : result.graph.ops()) result.mapped_op.push_back(v);
  return result;
}

Transformed then(Transformed first, const Transform& second) {
  Transformed result = second.apply(first.graph);
  for (OpId& v : first.mapped_op)
    if (v != no_op) v = result.mapped_op[v];
  result.mapped_op = std::move(first.mapped_op);
  if (first.needs > result.needs) {
    result.needs = first.needs;
    result.needs_why = std::move(first.needs_why);
  }
  result.batches *= first.batches;
  return result;
}

}  // namespace baechi
