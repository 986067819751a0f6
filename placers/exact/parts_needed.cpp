#include "placers/exact/parts_needed.h"

#include <algorithm>

#include "sim/problem/problem.h"

namespace baechi::exact {
namespace {

using Times = IdVector<OpId, Duration>;
constexpr Duration never = Duration::max();

Duration sum(Duration a, Duration b) {
  return a == never || b == never ? never : a + b;
}

/// Lower bounds on the times of paths. An op that nothing can run counts as 0.
class QuickPaths {
 public:
  QuickPaths(const Problem& p, const ColocationUnits& units,
             const std::vector<DeviceClass>& classes)
      : graph_(p.graph), units_(units), transfer_(mean_transfer(p)), tail_(graph_.num_ops()) {
    for (const OpId v : graph_.ops()) {
      Duration anywhere = never, accelerated = never;
      for (const DeviceClass& cls : classes) {
        const Duration time = p.costs.compute(v, cls.devices.front());
        if (time == cannot_run || units.needs(units.of(v)).persistent > cls.memory) continue;
        anywhere = std::min(anywhere, time);
        if (!cls.core) accelerated = std::min(accelerated, time);
      }
      any_device_.push_back(anywhere == never ? Duration{} : anywhere);
      accelerated_.push_back(accelerated);
      Duration before{};
      for (const OpId u : graph_.predecessors(v)) before = std::max(before, head_[u]);
      head_.push_back(before + any_device_[v]);
    }
    for (std::size_t i = graph_.num_ops(); i > 0; --i) {
      const auto v = static_cast<OpId>(i - 1);
      for (const OpId u : graph_.predecessors(v))
        tail_[u] = std::max(tail_[u], any_device_[v] + tail_[v]);
    }
  }

  Duration longest() const { return head_.empty() ? Duration{} : *std::ranges::max_element(head_); }

  /// The least end of each op on a path that begins on an accelerator.
  Times on_accelerator() const {
    Times ends;
    for (const OpId v : graph_.ops())
      ends.push_back(accelerated_[v] == never ? never : std::max(head_[v], accelerated_[v]));
    return ends;
  }
  /// The least end of each op on a path that changes between cores and accelerators once more than
  /// those of `ends`.
  Times crossed(const Times& ends, bool to_accelerator) const {
    Times next(graph_.num_ops(), never);
    for (const OpId v : graph_.ops()) {
      const Duration takes = to_accelerator ? accelerated_[v] : any_device_[v];
      for (const EdgeId e : graph_.in_edges(v)) {
        const auto [u, reader, tensor] = graph_.edge(e);
        if (units_.of(u) != units_.of(v))
          next[v] = std::min(next[v], sum(sum(ends[u], transfer_[tensor]), takes));
        next[v] = std::min(next[v], sum(next[u], takes));
      }
      if (next[v] != never) next[v] = std::max(next[v], head_[v]);
    }
    return next;
  }
  /// The least latency of a path through one of `ends`.
  Duration latency(const Times& ends) const {
    Duration least = never;
    for (const OpId v : graph_.ops()) least = std::min(least, sum(ends[v], tail_[v]));
    return least;
  }

 private:
  const OpGraph& graph_;
  const ColocationUnits& units_;
  IdVector<TensorId, Duration> transfer_;
  Times any_device_, accelerated_;  // where an op is quickest
  Times head_, tail_;  // of the longest path: its end at the op; its length after the op
};

}  // namespace

std::size_t parts_needed(const Problem& problem, const ColocationUnits& units,
                         const std::vector<DeviceClass>& classes, Duration below,
                         std::size_t most) {
  const QuickPaths paths(problem, units, classes);
  Times ends = paths.on_accelerator();
  for (std::size_t parts = 1; parts <= most; ++parts) {
    ends = paths.crossed(paths.crossed(ends, false), true);
    if (paths.latency(ends) >= below) return parts;
  }
  return most + 1;
}

Duration quickest_path(const Problem& problem, const ColocationUnits& units,
                       const std::vector<DeviceClass>& classes) {
  return QuickPaths(problem, units, classes).longest();
}

}  // namespace baechi::exact
