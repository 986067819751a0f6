/// The CLUSTER flags: the cluster and engine for a graph, typed or taken from a scenario file.
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

/// The texts of the CLUSTER flags as typed; "" means that the flag was not given.
struct ClusterFlags {
  std::string devices, kind, memory, memory_fraction, link, bandwidth, latency, transfers,
      semantics, queue, collectives;
  bool no_cache = false, no_overlap = false;
  std::string scenario;
  std::vector<std::string> sets;  ///< each KEY=VALUE: sets a dotted key of the scenario
};
void add_cluster_flags(CLI::App& verb, ClusterFlags& flags);

/// A graph (TRACE) on a cluster (CLUSTER): what the verbs place, simulate and bound work on.
struct TraceExperiment {
  std::string graph_name;
  Experiment experiment;
  std::int64_t samples = 1;  ///< of a step; 1 if the trace does not say
};
/// Reads the trace and builds its experiment. The cluster comes from
/// - the scenario, if --scenario is given, with the scenario's engine and transforms. A sweep gives
///   its first point, and standard error says which point that is;
/// - else the flags, if one of them describes the cluster;
/// - else the trace itself, with its transfer times.
/// `transforms`, if given, replace the scenario's transforms.
/// Throws InputError that names every missing or wrong flag, or the mistakes in the trace.
TraceExperiment read_experiment(
    const TraceArgument& argument, const ClusterFlags& flags,
    std::optional<std::vector<TransformChoice>> transforms = std::nullopt);

/// The cluster of the flags, or of the scenario. Throws InputError that names every missing or
/// wrong flag.
ClusterChoice read_cluster_flags(const ClusterFlags& flags);

/// The first lines of an answer: which device the times are of, if nobody named one, or that they
/// are not of the kind that was named; and what the kinds were fitted to.
std::string times_line(const Experiment& experiment);
/// The same as keys of `json`.
void add_times(nlohmann::ordered_json& json, const Experiment& experiment);

/// [{of, fitted}, ...]
nlohmann::ordered_json evidence_json(const std::vector<Evidence>& evidence);

}  // namespace baechi
