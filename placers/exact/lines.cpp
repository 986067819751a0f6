#include "placers/exact/lines.h"

#include <iterator>

namespace baechi::exact {

std::vector<BundleId> depth_first(const Bundles& bundles, bool reversed) {
  std::vector<BundleId> order, stack;
  IdVector<BundleId, std::size_t> missing(bundles.size());
  const auto push = [&](auto first) {  // the bundle pushed last is next
    const auto from = stack.begin() + first;
    std::sort(from, stack.end());
    if (!reversed) std::reverse(from, stack.end());
  };
  for (const BundleId b : bundles.bundles()) {
    missing[b] = bundles.before(b).size();
    if (missing[b] == 0) stack.push_back(b);
  }
  push(0);
  while (!stack.empty()) {
    const BundleId b = stack.back();
    stack.pop_back();
    order.push_back(b);
    const auto first = std::ssize(stack);
    for (const BundleId next : bundles.after(b))
      if (--missing[next] == 0) stack.push_back(next);
    push(first);
  }
  return order;
}

std::vector<BundleId> depth_last(const Bundles& bundles, bool reversed) {
  std::vector<BundleId> order, stack;
  IdVector<BundleId, std::size_t> missing(bundles.size());
  for (const BundleId b : bundles.bundles()) {
    missing[b] = bundles.after(b).size();
    if (missing[b] == 0) stack.push_back(b);
  }
  if (reversed) std::ranges::reverse(stack);
  while (!stack.empty()) {
    const BundleId b = stack.back();
    stack.pop_back();
    order.push_back(b);
    const auto before = bundles.before(b);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const BundleId next = before[reversed ? before.size() - 1 - i : i];
      if (--missing[next] == 0) stack.push_back(next);
    }
  }
  std::ranges::reverse(order);
  return order;
}

std::vector<BundleId> depth_first_as_added(const OpGraph& graph, const Bundles& bundles) {
  IdVector<BundleId, std::vector<std::pair<std::uint32_t, BundleId>>> after(bundles.size());
  IdVector<BundleId, std::size_t> missing(bundles.size());
  for (const EdgeId e : graph.edges()) {
    const BundleId a = bundles.of(graph.edge(e).src), b = bundles.of(graph.edge(e).dst);
    if (a == b) continue;
    after[a].emplace_back(graph.added(e), b);
    ++missing[b];
  }
  std::vector<BundleId> order, stack;
  for (const BundleId b : bundles.bundles()) {
    std::ranges::sort(after[b]);
    if (missing[b] == 0) stack.push_back(b);
  }
  while (!stack.empty()) {
    const BundleId b = stack.back();
    stack.pop_back();
    order.push_back(b);
    for (const auto& [position, next] : after[b])
      if (--missing[next] == 0) stack.push_back(next);
  }
  return order;
}

namespace {

std::vector<DeviceId> accelerators(const Cluster& cluster) {
  std::vector<DeviceId> found;
  for (const DeviceId d : cluster.devices())
    if (!cluster.device(d).is_core()) found.push_back(d);
  return found;
}

}  // namespace

Bundles latency_bundles(const Problem& problem, const ColocationUnits& units,
                        const std::vector<DeviceClass>& classes) {
  return {problem,
          units,
          classes,
          {.order = BundleRules::Order::data, .leaves = BundleRules::Leaves::apart}};
}

LineSplit fill(const Problem& problem, const Bundles& bundles,
               const std::vector<DeviceClass>& classes, std::vector<BundleId> line) {
  const std::vector<DeviceId> devices = accelerators(problem.cluster);
  std::vector<std::size_t> class_of(problem.cluster.num_devices());
  for (std::size_t s = 0; s < classes.size(); ++s)
    for (const DeviceId d : classes[s].devices) class_of[index(d)] = s;
  const auto takes = [&](std::size_t i, BundleId b, Bytes used) {
    const std::size_t cls = class_of[index(devices[i])];
    return bundles.time(b, cls) && used + bundles.weights(b) <= classes[cls].memory;
  };

  LineSplit split{.line = std::move(line),
                  .stretches = std::vector<LineSplit::Stretch>(devices.size())};
  std::size_t current = 0;
  Bytes used{};
  for (std::size_t at = 0; at < split.line.size(); ++at) {
    const BundleId b = split.line[at];
    std::size_t next = current;  // the first from `current` on that can take it
    while (next < devices.size() && !takes(next, b, next == current ? used : Bytes{})) ++next;
    if (next == devices.size()) {  // to the cores
      if (current < devices.size()) ++current;
      used = {};
      for (std::size_t i = current; i < devices.size(); ++i) split.stretches[i] = {at + 1, at + 1};
      continue;
    }
    for (std::size_t i = current + 1; i <= next; ++i) split.stretches[i] = {at, at};
    if (next != current) used = {};
    current = next;
    used += bundles.weights(b);
    split.stretches[current].end = at + 1;
    for (std::size_t i = current + 1; i < devices.size(); ++i)
      split.stretches[i] = {at + 1, at + 1};
  }
  return split;
}

std::optional<Placement> in_ops(const LineSplit& split, const Problem& problem,
                                const Bundles& bundles) {
  const std::vector<DeviceId> devices = accelerators(problem.cluster);
  std::optional<DeviceId> core;
  for (const DeviceId d : problem.cluster.devices())
    if (!core && problem.cluster.device(d).is_core()) core = d;
  IdVector<BundleId, std::optional<DeviceId>> device(bundles.size(), core);
  for (std::size_t i = 0; i < devices.size(); ++i)
    for (std::size_t at = split.stretches[i].begin; at < split.stretches[i].end; ++at)
      device[split.line[at]] = devices[i];
  Placement placement;
  for (const OpId v : problem.graph.ops()) {
    const auto d = device[bundles.of(v)];
    if (!d) return std::nullopt;
    placement.device.push_back(*d);
  }
  return placement;
}

void improve(LineSplit& split, const Problem& problem, const Bundles& bundles, Evaluator& latency) {
  const auto score = [&]() -> std::optional<Score> {
    const auto placement = in_ops(split, problem, bundles);
    return placement ? std::optional(latency.score(*placement)) : std::nullopt;
  };
  std::optional<Score> best = score();
  const auto move = [&](std::size_t& edge, std::size_t first, std::size_t last) {
    const std::size_t before = edge;
    std::size_t best_at = before;
    for (edge = first; edge <= last; ++edge) {
      const auto now = score();
      if (!now || (best && *now >= *best)) continue;
      best = now;
      best_at = edge;
    }
    edge = best_at;
    return best_at != before;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t i = 0; i < split.stretches.size(); ++i) {
      LineSplit::Stretch& s = split.stretches[i];
      const std::size_t first = i == 0 ? 0 : split.stretches[i - 1].end;
      const std::size_t last =
          i + 1 == split.stretches.size() ? split.line.size() : split.stretches[i + 1].begin;
      moved = move(s.begin, first, s.end) || moved;
      moved = move(s.end, s.begin, last) || moved;
    }
  }
}

}  // namespace baechi::exact
