#include "placers/exact/parts_needed.h"

namespace baechi::exact {
namespace {

using Times = IdVector<OpId, Duration>;
constexpr Duration never = Duration::max();

Duration sum(Duration a, Duration b) { return a == never || b == never ? never : a + b; }

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

class PlacementEnumerator {
 public:
  PlacementEnumerator(const Problem& problem, const ColocationUnits& units,
                      const std::vector<DeviceClass>& classes, std::size_t most,
                      const std::function<void(const Placement&)>& visit)
      : problem_(problem),
        units_(units),
        classes_(classes),
        left_(most),
        visit_(visit),
        used_(classes.size()),
        placement_{.device = IdVector<OpId, DeviceId>(problem.graph.num_ops())} {}

  bool from(std::size_t unit) {
    if (unit == units_.size()) {
      if (left_-- == 0) return false;
      visit_(placement_);
      return true;
    }
    const auto members = units_.members(UnitId{static_cast<std::uint32_t>(unit)});
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      const DeviceClass& cls = classes_[c];
      if (!can_run(members, cls.devices.front())) continue;
      // Equal devices are taken in order: only the first that is not yet in use is tried.
      const std::size_t tries = cls.core ? 1 : std::min(used_[c] + 1, cls.devices.size());
      for (std::size_t i = 0; i < tries; ++i) {
        for (const OpId v : members) placement_.device[v] = cls.devices[i];
        const std::size_t before = used_[c];
        used_[c] = std::max(used_[c], i + 1);
        const bool all = from(unit + 1);
        used_[c] = before;
        if (!all) return false;
      }
    }
    return true;
  }

 private:
  bool can_run(std::span<const OpId> members, DeviceId d) const {
    return std::ranges::all_of(members,
                               [&](OpId v) { return problem_.costs.compute(v, d) != cannot_run; });
  }

  const Problem& problem_;
  const ColocationUnits& units_;
  const std::vector<DeviceClass>& classes_;
  std::size_t left_;
  const std::function<void(const Placement&)>& visit_;
  std::vector<std::size_t> used_;  // [classes], devices in use
  Placement placement_;
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

bool visit_placements(const Problem& problem, const ColocationUnits& units,
                      const std::vector<DeviceClass>& classes, std::size_t most,
                      const std::function<void(const Placement&)>& visit) {
  constexpr std::size_t most_units = 64;  // with more units there are never few placements
  if (units.size() > most_units) return false;
  const std::function<void(const Placement&)> count = [](const Placement&) {};
  return PlacementEnumerator(problem, units, classes, most, count).from(0) &&
         PlacementEnumerator(problem, units, classes, most, visit).from(0);
}

}  // namespace baechi::exact
