/// What becomes of a scenario's graph before it is placed: timed on the cluster's devices, then
/// rewritten.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scenarios/read/scenario.h"
#include "sim/problem/problem.h"
#include "sim/transform/transform.h"
#include "traces/trace.h"

namespace baechi {

struct PreparedGraph {
  std::shared_ptr<const OpGraph> step;    ///< what is simulated
  std::shared_ptr<const OpGraph> placed;  ///< what placers see; often the same
  IdVector<OpId, OpId> stands_for{};      ///< [step ops] -> placed; empty if they are the same
  Bytes needs{};                          ///< a device must have it, or placing is refused:
  std::string needs_why{};
  std::vector<std::shared_ptr<const Transform>> after_placing{};
  std::chrono::nanoseconds transforming{};  ///< wall clock
};

/// A graph that states the ops' work and no times gets those of `default_device`.
void give_times(Trace& trace);

/// `graph` with the roofline times of the known kinds of `cluster` that it has no times for, if it
/// states the ops' work; where a device is of no kind, with those of `default_device`, if it has
/// none at all. Else itself.
std::shared_ptr<const OpGraph> timed(std::shared_ptr<const OpGraph> graph,
                                     const ClusterChoice& cluster);

/// The timed graph, rewritten by `transforms` in their order.
/// Throws InputError where a transform of the model stands behind one that is for placing only.
PreparedGraph prepare(std::shared_ptr<const OpGraph> graph, const ClusterChoice& cluster,
                      std::span<const TransformChoice> transforms);

/// What the transforms with TransformUse::placed make of the placed step; nothing if there are
/// none.
std::optional<PlacedStep> after_placing(const PreparedGraph& graph, const Placement& placement);

/// The placement of the step that follows from one of the graph that placers see.
Placement expand(Placement placement, const PreparedGraph& graph);

/// Throws InfeasibleError if no device of `cluster` has what the transforms need.
void require_needs(const PreparedGraph& graph, const Cluster& cluster);

}  // namespace baechi
