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
  prepared.step = timed(std::move(graph), cluster);
  const auto start = std::chrono::steady_clock::now();
  std::optional<Transformed> placed;
  std::string_view for_placing;  // the first transform that is
  for (const Choice& choice : choices) {
    const auto transform = make_transform(choice.name, choice.options, choice.where);
    const bool of_model = use_of(choice.name) == TransformUse::model;
    if (of_model && placed)
      throw InputError(fmt::format("{}transforms: '{}' changes the step, so it stands before '{}'",
                                   at(choice.where), choice.name, for_placing));
    if (of_model) {
      prepared.step = std::make_shared<const OpGraph>(transform->apply(*prepared.step).graph);
    } else if (placed) {
      placed = then(std::move(*placed), *transform);
    } else {
      placed = transform->apply(*prepared.step);
      for_placing = choice.name;
    }
  }
  prepared.placed = prepared.step;
  if (placed) {
    prepared.placed = std::make_shared<const OpGraph>(std::move(placed->graph));
    prepared.stands_for = std::move(placed->stands_for);
    prepared.needs = placed->needs;
    prepared.needs_why = std::move(placed->needs_why);
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
