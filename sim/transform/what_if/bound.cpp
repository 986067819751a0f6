#include "sim/transform/what_if/bound.h"

#include "sim/graph/analysis.h"
#include "sim/transform/kind_words.h"

namespace baechi::what_if {

IdVector<OpId, Bound> bounds_of(const Scope& scope) {
  const OpGraph& graph = scope.graph();
  const std::vector<bool> computes = compute_bound_kinds().of_kinds(graph);
  IdVector<OpId, Bound> bounds(graph.num_ops(), Bound::memory);
  for (const OpId v : graph.ops()) {
    if (!graph.kernels(v).empty() && !scope.devices.models.empty())
      bounds[v] = bound_by_work(graph, v, *scope.devices.models.front());
    else if (on_host(graph, v))
      bounds[v] = Bound::host;
    else if (computes[graph.op(v).kind])
      bounds[v] = Bound::compute;
  }
  return bounds;
}

}  // namespace baechi::what_if
