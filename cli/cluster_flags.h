#pragma once
#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "scenarios/run/evidence.h"
#include "scenarios/run/experiment.h"

namespace baechi {

/// The CLUSTER flags as typed; "": not given.
struct ClusterFlags {
  std::string devices, kind, memory, memory_fraction, link, bandwidth, latency, transfers,
      semantics, queue, collectives;
  bool no_cache = false, no_overlap = false;
  std::string scenario;
  std::vector<std::string> sets;  ///< KEY=VALUE: overrides a dotted key of the scenario
};
void add_cluster_flags(CLI::App& verb, ClusterFlags& flags);

/// A graph (TRACE) on a cluster (CLUSTER).
struct TraceExperiment {
  std::string graph_name;
  Experiment experiment;
  std::int64_t samples = 1;  ///< per step; 1 if unknown
};
/// Reads the trace and builds its experiment. The cluster is
/// - that of --scenario, with its engine and transforms: the first point of a sweep, which is
///   printed on standard error;
/// - else that of the flags, if one of them describes the cluster;
/// - else that of the trace, with its transfer times.
/// `transforms` replace the scenario's. Throws InputError with all missing or wrong flags, or the
/// mistakes in the trace.
TraceExperiment read_experiment(
    const TraceArgument& argument, const ClusterFlags& flags,
    std::optional<std::vector<TransformChoice>> transforms = std::nullopt);

/// The cluster of the flags or the scenario. Throws InputError with all missing or wrong flags.
ClusterChoice read_cluster_flags(const ClusterFlags& flags);

/// Text about the op times: the assumed device type, if none was given, or that they are not of the
/// given type; and the evidence for the device models.
std::string times_line(const Experiment& experiment);
/// Adds the same as keys of `json`.
void add_times(nlohmann::ordered_json& json, const Experiment& experiment);

/// [{of, fitted}, ...]
nlohmann::ordered_json evidence_json(const std::vector<Evidence>& evidence);

}  // namespace baechi
