/// A placement problem and its answer: the words that placers and the engine share.
#pragma once
#include <map>
#include <string>

#include "sim/cluster/cluster.h"
#include "sim/cluster/cost_model.h"
#include "sim/problem/engine_options.h"
#include "sim/graph/op_graph.h"

namespace baechi {

/// Views only; whoever makes a Problem outlives it.
struct Problem {
  const OpGraph& graph;
  const Cluster& cluster;
  const CostModel& costs;
  EngineOptions engine{};  ///< how the step will be executed
};

struct Placement {
  IdVector<OpId, DeviceId> device{};        ///< [num_ops]
  IdVector<OpId, std::int32_t> priority{};  ///< [num_ops], larger runs first; or empty: by id
  std::map<std::string, double> facts{};    ///< what the placer can tell: LP bound, retries, ...
  std::string detail{};                     ///< one line for people, "" if there is nothing to say
};

}  // namespace baechi
