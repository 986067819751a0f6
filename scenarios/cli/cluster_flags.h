/// CLUSTER on the command line: what a graph runs on and how, in flags or from a scenario file.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "scenarios/run/scenario.h"

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

/// What the flags say.
struct Platform {
  ClusterChoice cluster;
  EngineOptions engine;
};
/// Of a scenario with a sweep it is the first point's, and standard error tells which.
/// Throws InputError naming every flag that is missing or wrong.
Platform read_platform(const ClusterFlags& flags);

}  // namespace baechi
