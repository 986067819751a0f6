/// The cluster and engine that a user describes by flags, a scenario or a trace; a graph on them.
#pragma once

#include "placers/planners/staged_plan.h"
#include "scenarios/run/experiment.h"

namespace baechi {

/// The CLUSTER flags as typed; "": not given.
struct PlatformFlags {
  std::string devices, kind, memory, memory_fraction, link, bandwidth, latency, transfers,
      semantics, queue, collectives, cpu_memory, disk, host_link = "pcie4_h2d";
  bool no_cache = false, no_overlap = false;
  std::string scenario;
  std::vector<std::string> sets;  ///< KEY=VALUE: overrides a dotted key of the scenario
  Bytes reserve{};                ///< of the memory of each device: not for placements
};
/// The argument of --reserve. Throws InputError.
Bytes read_reserve(const std::string& text);
/// Throws InputError if the file is malformed, or has no placement to `verb`.
Placement read_placement(const std::string& path, const Problem& problem, std::string_view verb);
/// What a framework's runtime takes of a GPU besides tensors: the kernels that are loaded take 1 to
/// 2 GB (Hugging Face, transformers' documentation, "Model training anatomy"). A device of less
/// than 4 GiB is no GPU to train on, but an example: nothing.
Bytes usual_reserve(Bytes memory);

/// The cluster, engine and transforms of the flags, a scenario or a trace.
struct Platform {
  ClusterChoice cluster;
  EngineOptions engine;
  std::vector<TransformChoice> transforms{};
  std::string note{};  ///< for the user: which point of a sweep it is, with a newline; or ""
};
/// Whether a flag other than --scenario describes the cluster.
bool names_cluster(const PlatformFlags& flags);
/// Reads the flags or the scenario. Throws InputError with all missing or wrong flags.
Platform read_platform(const PlatformFlags& flags);

/// A graph (TRACE) on a cluster (CLUSTER).
struct TraceExperiment {
  std::string graph_name;
  Experiment experiment;
  std::int64_t samples = 1;  ///< per step; 1 if unknown
};
/// The trace of the file `path` on the platform or, without one, on the trace's own cluster with
/// its transfer times, else on that of the flags. `transforms` replace the platform's. Throws
/// InputError with all missing or wrong flags.
TraceExperiment experiment_on(std::optional<Platform> platform, const PlatformFlags& flags,
                              Trace trace, const std::string& path,
                              std::optional<std::vector<TransformChoice>> transforms);

/// A scenario that places the trace of the file `path` on the platform by `auto`.
ScenarioFile scenario_on(Platform platform, const std::string& path);

/// `input` with the devices of the flags instead of its own. Throws InputError for flags that the
/// planner's cost model does not have.
planners::PlannerInput with_devices(planners::PlannerInput input, const PlatformFlags& flags);

}  // namespace baechi
