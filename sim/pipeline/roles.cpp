#include "sim/pipeline/roles.h"

#include <algorithm>

#include "sim/graph/analysis.h"
#include "sim/transform/training/asked_lane.h"

namespace baechi::pipeline {

bool is_forward(const OpGraph& graph, OpId v) {
  return graph.op(v).phase == Phase::forward;
}
bool is_backward(const OpGraph& graph, OpId v) {
  return graph.op(v).phase == Phase::backward;
}

bool launches(const OpGraph& graph, OpId v) {
  return on_host(graph, v) && graph.lanes()[index(graph.lane(v))] != host_pass_lane;
}

bool serves(const OpGraph& graph, OpId v) {
  if (launches(graph, v)) return true;
  if (graph.lane(v) == compute_lane) return false;  // no member of a collective
  const CollectiveId c = graph.collective_of(v);
  return c != no_collective && graph.op(v).phase != Phase::update &&
         graph.collectives()[c].kind == CollectiveKind::all_gather &&
         std::ranges::all_of(graph.in_edges(v),
                             [&](EdgeId e) { return graph.tensor(graph.edge(e).tensor).control; });
}

bool is_asked(const OpGraph& graph, OpId v) {
  return graph.lanes()[index(graph.lane(v))] == asked_lane;
}

bool reduces_gradients(const OpGraph& graph, OpId v) {
  return graph.op(v).phase == Phase::update && graph.collective_of(v) != no_collective &&
         !graph.in_edges(v).empty();
}

}  // namespace baechi::pipeline
