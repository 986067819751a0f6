/// Prepares a scenario's graph for placing: gives it times on the cluster's devices, then applies
/// the transforms.
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
  std::shared_ptr<const OpGraph> step;    ///< the graph that is simulated
  std::shared_ptr<const OpGraph> placed;  ///< the graph that placers see; often the same
  IdVector<OpId, OpId> mapped_op{};  ///< [step ops]: the op of `placed`; empty if the same graph
  Bytes needs{};                     ///< memory that the largest device must have
  std::string needs_why{};           ///< the message if it has less
  double batches = 1.0;  ///< of the trace's, in `step`: its samples per step, times this
  std::vector<std::shared_ptr<const Transform>> after_placing{};  ///< of the placed step, in turn
  std::chrono::nanoseconds transforming{};                        ///< wall clock
  std::chrono::nanoseconds transforming_processor{};              ///< processor time
  /// The kind of device that the times are of, where nobody named one; else "".
  std::string assumed_kind{};
  /// A kind of the cluster that no time depends on: the trace has one time per op, and its ops
  /// state no work of which another would follow; else "".
  std::string kind_without_times{};
};

/// Gives a graph that states the ops' work but no times the roofline times of `default_device`,
/// unless its times are elsewhere.
void give_times(Trace& trace);

/// The same graph with one time per op, that on devices of `kind`: the trace's own, else the
/// roofline's. Throws InputError if there is neither.
OpGraph on_kind(const OpGraph& graph, const std::string& kind);

/// Throws InputError, with `source` as the place, if a step of `trace` on `cluster` would say
/// nothing: the graph has no ops, or it has no times and timed() would not give it any; or if a
/// part of it has none (Untimed).
void require_times(const Trace& trace, const ClusterChoice& cluster, std::string_view source);

/// `graph`, if it states the ops' work, with roofline times added
///   for each known kind of device of `cluster` that it has no times for, and
///   for `default_device`, if a device has no kind and the graph has no times at all.
/// Otherwise `graph` itself.
std::shared_ptr<const OpGraph> timed(std::shared_ptr<const OpGraph> graph,
                                     const ClusterChoice& cluster);

/// The transforms of `choices`, applied in order, those of the model before the graph is timed.
/// Throws InputError if a transform with TransformUse::model comes after one with
/// TransformUse::placing.
PreparedGraph prepare(std::shared_ptr<const OpGraph> graph, const ClusterChoice& cluster,
                      std::span<const TransformChoice> choices);

/// The graph with roofline times for ops of known work that have no time on a kind of `cluster`:
/// transforms of the placed step add such ops.
OpGraph with_missing_times(OpGraph graph, const ClusterChoice& cluster);

/// The result of the transforms with TransformUse::placed on the placed step; nothing if there are
/// none.
std::optional<PlacedStep> after_placing(const PreparedGraph& graph, const Placement& placement);

/// Throws InputError under Semantics::baechi if the step, or what the transforms make of it, has
/// lanes or collectives, which the original does not know.
void check_semantics(const PreparedGraph& graph, const EngineOptions& engine);

/// The placement of the step's ops, from a placement of the graph that placers see.
Placement expand(Placement placement, const PreparedGraph& graph);

/// Throws InfeasibleError if no device of `cluster` has the memory that the transforms need.
void require_needs(const PreparedGraph& graph, const Cluster& cluster);

}  // namespace baechi
