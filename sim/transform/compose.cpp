#include <utility>

#include "sim/transform/transform.h"

namespace baechi {

Transformed same_ops(OpGraph graph) {
  Transformed result{.graph = std::move(graph)};
  result.stands_for.reserve(result.graph.num_ops());
  for (const OpId v : result.graph.ops()) result.stands_for.push_back(v);
  return result;
}

Transformed then(Transformed first, const Transform& second) {
  Transformed result = second.apply(first.graph);
  for (OpId& v : first.stands_for)
    if (v != no_op) v = result.stands_for[v];
  result.stands_for = std::move(first.stands_for);
  if (first.needs > result.needs) {
    result.needs = first.needs;
    result.needs_why = std::move(first.needs_why);
  }
  result.batches *= first.batches;
  return result;
}

}  // namespace baechi
