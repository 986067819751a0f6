/// Problems for the tests of what learns.
#pragma once
#include <memory>
#include <utility>

#include "sim/objective/objective.h"
#include "tests/small_graphs.h"

namespace baechi::testing {

/// A problem that keeps what it refers to.
struct Kept {
  explicit Kept(OpGraph g, std::size_t devices, Bytes memory = 1_GiB)
      : graph(std::move(g)), cluster(gpus(devices, memory)), costs(graph, cluster) {}
  Problem problem() const { return {graph, cluster, costs, {}}; }
  OpGraph graph;
  Cluster cluster;
  ProfiledCosts costs;
};

inline std::unique_ptr<Objective> step_time() {
  return make_objective("step_time", Options("step_time"));
}

}  // namespace baechi::testing
