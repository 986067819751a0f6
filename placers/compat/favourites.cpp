#include <cmath>

#include "placers/compat/compat.h"
#include "sim/error.h"

namespace baechi {

bool rounds_to_favourite(double x, double threshold) {
  const double shifted = x - threshold;  // in two steps, as Python evaluates it
  return std::nearbyint(shifted + 0.5) == 0.0;  // half to even
}

Favourites compat_favourites(const BaechiGraph& graph, const std::vector<bool>& chosen) {
  BAECHI_CHECK(chosen.size() == graph.num_edges(), "{} edges for {}", chosen.size(),
               graph.num_edges());
  Favourites f{.child = IdVector<OpId, OpId>(graph.num_ops(), no_op),
               .parent = IdVector<OpId, OpId>(graph.num_ops(), no_op)};
  for (const EdgeId e : graph.edges()) {
    if (!chosen[index(e)]) continue;
    const BaechiGraph::Edge& edge = graph.edge(e);
    // Q2: several edges of one op may be chosen; the last has it, the others' parents stay.
    f.child[edge.src] = edge.dst;
    // Q1: the parent that loses `dst` loses its favourite child, be that another one by now.
    OpId& parent = f.parent[edge.dst];
    if (parent != no_op) f.child[parent] = no_op;
    parent = edge.src;
  }
  return f;
}

}  // namespace baechi
