/// CLUSTER on the command line: what a graph runs on and how, in flags or from a scenario file.
#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "scenarios/cli/arguments.h"
#include "sim/problem/problem.h"

namespace baechi {

/// As typed; "" is not given.
struct ClusterFlags {
  std::string devices, kind, memory, memory_fraction, link, bandwidth, latency, transfers,
      semantics;
  bool no_cache = false, no_overlap = false;
  std::string scenario;
  std::vector<std::string> sets;  ///< into the scenario: KEY=VALUE
};
void add_cluster_flags(CLI::App& verb, ClusterFlags& flags);

/// TRACE on CLUSTER: what place, simulate and bound are about.
struct Workload {
  Trace trace{};
  EngineOptions engine{};
  ClusterChoice choice{};
  Cluster cluster{};
  std::shared_ptr<const OpGraph> graph{};  ///< the trace's, with times for the cluster's devices
  std::unique_ptr<CostModel> costs{};      // of the graph and the cluster: they must not move

  Problem problem() const { return {*graph, cluster, *costs, engine}; }
};
/// Where the flags name no cluster, the trace's own is taken, with its transfer times. Of a
/// scenario with a sweep it is the first point's, and standard error tells which.
/// Throws InputError naming every flag that is missing or wrong, or what is wrong with the trace.
std::unique_ptr<Workload> read_workload(const TraceArgument& argument, const ClusterFlags& flags);

}  // namespace baechi
