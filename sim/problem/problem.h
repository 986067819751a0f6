/// The input of placers, a placement problem, and their result, a placement.
#pragma once
#include <map>
#include <string>

#include "sim/cluster/cluster.h"
#include "sim/cluster/cost_model.h"
#include "sim/graph/op_graph.h"
#include "sim/problem/engine_options.h"

namespace baechi {

/// A graph on a cluster, with costs and engine options. The graph, cluster and costs must outlive
/// the Problem.
struct Problem {
  const OpGraph& graph;
  const Cluster& cluster;
  const CostModel& costs;
  EngineOptions engine{};  ///< how the step will be executed
};

/// A device for every op, and optionally priorities.
struct Placement {
  IdVector<OpId, DeviceId> device{};        ///< [num_ops]
  IdVector<OpId, std::int32_t> priority{};  ///< [num_ops], the largest runs first; or empty: by id
  std::map<std::string, double> facts{};    ///< other results of the placer: LP bound, retries, ...
  std::string detail{};                     ///< one line for the user, or ""
  /// The placer that computed it if that is not the selected one: "heft" for auto, "fallback:heft"
  /// for the option `fallback`. Else "".
  std::string placed_by{};
};

}  // namespace baechi
