#include "tests/brute_force.h"

#include <algorithm>

#include "sim/engine/simulation.h"

namespace baechi::testing {
namespace {

class OrderSearch {
 public:
  OrderSearch(const OpGraph& graph, std::size_t devices)
      : graph_(graph), end_(graph.num_ops(), not_yet), free_(devices) {}

  Duration run() {
    extend(0, Duration{});
    return best_;
  }

 private:
  static constexpr Duration not_yet = Duration::max();

  void extend(std::size_t scheduled, Duration makespan) {
    if (makespan >= best_) return;
    if (scheduled == graph_.num_ops()) {
      best_ = makespan;
      return;
    }
    for (const OpId v : graph_.ops()) {
      if (end_[v] != not_yet) continue;
      Duration ready{};
      for (const OpId u : graph_.predecessors(v)) ready = std::max(ready, end_[u]);
      if (ready == not_yet) continue;
      const auto device = std::ranges::min_element(free_);
      const Duration was_free = *device;
      *device = end_[v] = std::max(ready, was_free) + graph_.op(v).compute;
      extend(scheduled + 1, std::max(makespan, end_[v]));
      *device = was_free;
      end_[v] = not_yet;
    }
  }

  const OpGraph& graph_;
  IdVector<OpId, Duration> end_;
  std::vector<Duration> free_;  // [devices], from when on
  Duration best_ = Duration::max();
};

/// The next placement in counting order; false after the last.
bool advance(const OpGraph& graph, std::size_t devices, Placement& p) {
  for (const OpId v : graph.ops()) {
    const GroupId group = graph.op(v).group;
    if (group != no_group && graph.members(group)[0] != v) continue;  // follows its first
    const DeviceId next{static_cast<std::uint32_t>((index(p.device[v]) + 1) % devices)};
    p.device[v] = next;
    if (group != no_group)
      for (const OpId member : graph.members(group)) p.device[member] = next;
    if (next != DeviceId{0}) return true;
  }
  return false;
}

}  // namespace

Duration optimal_without_communication(const OpGraph& graph, std::size_t devices) {
  return OrderSearch(graph, devices).run();
}

std::optional<Best> best_placement(const Problem& problem) {
  const OpGraph& graph = problem.graph;
  std::optional<Best> best;
  Placement p{.device = IdVector<OpId, DeviceId>(graph.num_ops())};
  do {
    const StepResult r = simulate(problem, p);
    if (!r.oom && (!best || r.makespan < best->makespan)) best = Best{p, r.makespan};
  } while (advance(graph, problem.cluster.num_devices(), p));
  return best;
}

}  // namespace baechi::testing
