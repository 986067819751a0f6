/// CLUSTER on the command line: what a graph runs on and how, in flags or from a scenario file.
#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/cli/arguments.h"
#include "scenarios/run/experiment.h"

namespace baechi {

/// As typed; "" is not given.
struct ClusterFlags {
  std::string devices, kind, memory, memory_fraction, link, bandwidth, latency, transfers,
      semantics, queue;
  bool no_cache = false, no_overlap = false;
  std::string scenario;
  std::vector<std::string> sets;  ///< into the scenario: KEY=VALUE
};
void add_cluster_flags(CLI::App& verb, ClusterFlags& flags);

/// TRACE on CLUSTER: what place, simulate and bound are about.
struct TraceExperiment {
  std::string graph_name;
  Experiment experiment;
};
/// Where the flags name no cluster, the trace's own is taken, with its transfer times. A scenario
/// gives its cluster, engine and transforms; `transforms`, if given, stand in for the scenario's. A
/// sweep gives its first point, and standard error tells which.
/// Throws InputError naming every flag that is missing or wrong, or what is wrong with the trace.
TraceExperiment read_experiment(
    const TraceArgument& argument, const ClusterFlags& flags,
    std::optional<std::vector<TransformChoice>> transforms = std::nullopt);

}  // namespace baechi
