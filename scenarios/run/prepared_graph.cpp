#include "scenarios/run/prepared_graph.h"

#include <algorithm>

#include "sim/cluster/device_model.h"
#include "sim/error.h"
#include "sim/transform/transform.h"

namespace baechi {
namespace {

TransformUse use_of(std::string_view name) {
  return std::ranges::find(transforms(), name, &TransformEntry::name)->use;
}

/// `first`, then `second`.
IdVector<OpId, OpId> composed(IdVector<OpId, OpId> first, const IdVector<OpId, OpId>& second) {
  if (first.empty()) return second;
  for (OpId& v : first)
    if (v != no_op) v = second[v];
  return first;
}

}  // namespace

std::shared_ptr<const OpGraph> timed(std::shared_ptr<const OpGraph> graph,
                                     const ClusterChoice& cluster) {
  for (const DeviceChoice& d : cluster.devices) {
    const auto& kinds = graph->device_kinds();
    if (d.model == nullptr || !graph->has_work() || std::ranges::find(kinds, d.kind) != kinds.end())
      continue;
    graph = std::make_shared<const OpGraph>(
        graph->with_times(d.kind, roofline_times(*graph, *d.model)));
  }
  return graph;
}

PreparedGraph prepare(std::shared_ptr<const OpGraph> graph, const ClusterChoice& cluster,
                      std::span<const Choice> choices) {
  PreparedGraph prepared;
  prepared.step = prepared.placed = timed(std::move(graph), cluster);
  const auto start = std::chrono::steady_clock::now();
  std::string_view for_placing;  // the first transform that is
  for (const Choice& choice : choices) {
    const auto transform = make_transform(choice.name, choice.options, choice.where);
    if (use_of(choice.name) == TransformUse::placing) {
      if (for_placing.empty()) for_placing = choice.name;
    } else if (!for_placing.empty()) {
      throw InputError(fmt::format("{}transforms: '{}' changes the step, so it stands before '{}'",
                                   at(choice.where), choice.name, for_placing));
    }
    Transformed result = transform->apply(*prepared.placed);
    prepared.placed = std::make_shared<const OpGraph>(std::move(result.graph));
    if (for_placing.empty())
      prepared.step = prepared.placed;
    else
      prepared.stands_for = composed(std::move(prepared.stands_for), result.stands_for);
    if (result.needs > prepared.needs) {
      prepared.needs = result.needs;
      prepared.needs_why = std::move(result.needs_why);
    }
  }
  prepared.transforming = std::chrono::steady_clock::now() - start;
  return prepared;
}

Placement expand(Placement placement, const PreparedGraph& graph) {
  if (graph.stands_for.empty()) return placement;
  Placement expanded{.facts = std::move(placement.facts), .detail = std::move(placement.detail)};
  expanded.device.reserve(graph.step->num_ops());
  for (const OpId v : graph.step->ops()) {
    expanded.device.push_back(placement.device[graph.stands_for[v]]);
    if (!placement.priority.empty())
      expanded.priority.push_back(placement.priority[graph.stands_for[v]]);
  }
  return expanded;
}

void require_needs(const PreparedGraph& graph, const Cluster& cluster) {
  Bytes largest;
  for (const DeviceId d : cluster.devices()) largest = std::max(largest, cluster.device(d).memory);
  if (graph.needs > largest)
    throw InfeasibleError(
        fmt::format("{} (the largest device has {})", graph.needs_why, to_text(largest)));
}

}  // namespace baechi
