#include "tests/placers/exact/brute_force.h"

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
  std::vector<Duration> free_;  // [devices], end of the last op
  Duration best_ = Duration::max();
};

/// The next placement, with placements as numbers whose digits are devices; false after the last.
bool advance(const OpGraph& graph, std::size_t devices, Placement& p) {
  for (const OpId v : graph.ops()) {
    const GroupId group = graph.op(v).group;
    if (group != no_group && graph.members(group)[0] != v)
      continue;  // has the device of its first member
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
  Simulator simulator(problem);
  std::optional<Best> best;
  Placement p{.device = IdVector<OpId, DeviceId>(graph.num_ops())};
  do {
    const StepResult& r = simulator.run(p);
    if (!r.oom && (!best || r.makespan < best->makespan)) best = Best{p, r.makespan};
  } while (advance(graph, problem.cluster.num_devices(), p));
  return best;
}

std::optional<Best> best_placement(const Problem& problem, const Objective& objective,
                                   bool (*allowed)(const Problem&, const Placement&)) {
  const auto evaluator = objective.on(problem);
  std::optional<Best> best;
  Placement p{.device = IdVector<OpId, DeviceId>(problem.graph.num_ops())};
  do {
    const Score score = evaluator->score(p);
    if (score.feasible() && (!best || score.value < best->makespan) && allowed(problem, p))
      best = Best{p, score.value};
  } while (advance(problem.graph, problem.cluster.num_devices(), p));
  return best;
}

bool is_pipeline(const Problem& problem, const Placement& p) {
  const OpGraph& graph = problem.graph;
  const auto forward = [&](OpId v) { return graph.op(v).phase == Phase::forward; };
  const auto orphan = [&](OpId v) {
    const GroupId group = graph.op(v).group;
    if (group == no_group) return !forward(v);
    return std::ranges::none_of(graph.members(group), forward);
  };
  const std::size_t n = problem.cluster.num_devices();
  std::vector<std::vector<bool>> reaches(n, std::vector<bool>(n, false));
  for (const EdgeId e : graph.edges()) {
    const OpId u = graph.edge(e).src, v = graph.edge(e).dst;
    const std::size_t a = index(p.device[u]), b = index(p.device[v]);
    if (forward(u) && forward(v)) reaches[a][b] = a != b || reaches[a][b];
    if (!forward(u) && !forward(v) && (orphan(u) || orphan(v)))
      reaches[b][a] = a != b || reaches[b][a];
  }
  for (std::size_t via = 0; via < n; ++via)
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b)
        if (reaches[a][via] && reaches[via][b]) reaches[a][b] = true;
  for (std::size_t a = 0; a < n; ++a)
    if (reaches[a][a]) return false;
  return true;
}

namespace {

/// Whether no path through ops that `counts` accepts leaves `d` and comes back.
template <class Counts>
bool stays_away(const OpGraph& graph, const Placement& p, DeviceId d, Counts counts) {
  IdVector<OpId, char> left(graph.num_ops(), 0);  // some path to the op was on d and left
  for (const OpId v : graph.ops()) {
    if (!counts(v)) continue;
    for (const OpId u : graph.predecessors(v)) {
      if (!counts(u)) continue;
      if (left[u] != 0 || (p.device[u] == d && p.device[v] != d)) left[v] = 1;
    }
    if (left[v] != 0 && p.device[v] == d) return false;
  }
  return true;
}

}  // namespace

bool is_convex(const Problem& problem, const Placement& p) {
  return std::ranges::all_of(problem.cluster.devices(), [&](DeviceId d) {
    return stays_away(problem.graph, p, d,
                      [&](OpId v) { return problem.graph.op(v).phase == Phase::forward; });
  });
}

bool accelerators_are_convex(const Problem& problem, const Placement& p) {
  return std::ranges::all_of(problem.cluster.devices(), [&](DeviceId d) {
    return problem.cluster.device(d).is_core() ||
           stays_away(problem.graph, p, d, [](OpId) { return true; });
  });
}

}  // namespace baechi::testing
