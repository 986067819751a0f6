#include "placers/feasible.h"
#include "placers/search/move.h"
#include "sim/graph/analysis.h"

namespace baechi {
namespace {

using search::SearchSpace;

/// Depth-first enumeration of all placements: every device for one unit after another.
class FittingSearch {
 public:
  FittingSearch(const Problem& p, std::size_t most_ops)
      : problem_(p),
        space_(p),
        simulator_(problem_),
        left_(most_ops),
        working_(space_.units().size()),
        order_(space_.units().units().begin(), space_.units().units().end()),
        devices_(p.cluster.num_devices()),
        placement_{.device = IdVector<OpId, DeviceId>(p.graph.num_ops())} {
    const ColocationUnits& units = space_.units();
    for (const UnitId u : order_) {
      weights_left_ += units.needs(u).persistent;
      for (const OpId v : units.members(u))
        working_[u] = std::max(
            working_[u], footprint(p.graph, v) - p.graph.op(v).persistent + bytes_read(p.graph, v));
    }
    for (const DeviceId d : p.cluster.devices()) room_ += p.cluster.device(d).memory;
    std::ranges::stable_sort(order_, std::greater<>(),
                             [&](UnitId u) { return units.needs(u).footprint; });
  }

  FittingPlacement run() {
    FittingPlacement result;
    result.all = from(0);
    if (found_) result.placement = std::move(placement_);
    return result;
  }

 private:
  struct Load {
    Bytes weights, working;
  };

  /// False: it was stopped, because a placement is found or `left_` is used up.
  bool from(std::size_t i) {
    if (i == order_.size()) return next_fails();
    const UnitId u = order_[i];
    const Bytes weights = space_.units().needs(u).persistent;
    for (const DeviceId d : space_.able(u)) {
      if (left_ == 0) return false;
      --left_;
      const Load before = devices_[d];
      devices_[d] = {before.weights + weights, std::max(before.working, working_[u])};
      room_ -= weights;
      weights_left_ -= weights;
      bool all = true;
      if (devices_[d].weights + devices_[d].working <= problem_.cluster.device(d).memory &&
          weights_left_ <= room_) {
        for (const OpId v : space_.units().members(u)) placement_.device[v] = d;
        all = from(i + 1);
      }
      devices_[d] = before;
      room_ += weights;
      weights_left_ += weights;
      if (!all) return false;
    }
    return true;
  }

  bool next_fails() {
    const std::size_t ops = problem_.graph.num_ops();
    if (left_ < ops) return false;
    left_ -= ops;
    found_ = !simulator_.run(placement_).oom;
    return !found_;
  }

  const Problem problem_;
  const SearchSpace space_;
  Simulator simulator_;
  std::size_t left_;
  IdVector<UnitId, Bytes> working_;  // the most that a member holds in addition to the weights
  std::vector<UnitId> order_;
  IdVector<DeviceId, Load> devices_;
  Bytes room_, weights_left_;  // of all devices; of the units without a device
  Placement placement_;
  bool found_ = false;
};

/// A copy of the problem whose devices have the memory that is tried.
class MemoryTrial {
 public:
  explicit MemoryTrial(const Problem& p)
      : cluster_(p.cluster), problem_{p.graph, cluster_, p.costs, p.engine} {
    problem_.engine.count_memory = problem_.engine.enforce_memory = true;
  }

  void give(Bytes memory) {
    for (const DeviceId d : cluster_.devices()) cluster_.set_memory(d, memory);
  }
  Feasible find() const { return find_feasible(problem_); }
  bool fits_bounds() const {
    return lower_bounds(problem_.graph, cluster_, problem_.costs).fits_in_memory;
  }
  Bytes peak(const Placement& placement) const {
    Bytes most;
    for (const DeviceUse& device : simulate(problem_, placement).devices)
      most = std::max(most, device.peak);
    return most;
  }

 private:
  Cluster cluster_;
  Problem problem_;
};

/// Bisects between the proved bound and the memory of the best placement.
class Bisection {
 public:
  explicit Bisection(const Problem& p) : trial_(p) {
    if (!finds(peak_upper_bound(p.graph)))
      throw InfeasibleError("no placement fits with any memory: " + why_not_);
    Bytes fits = least_.bytes;
    while (least_.bound < fits) {
      const Bytes middle = between(least_.bound, fits);
      trial_.give(middle);
      (trial_.fits_bounds() ? fits : least_.bound) = trial_.fits_bounds() ? middle : above(middle);
    }
  }

  LeastMemory run() {
    constexpr std::int64_t precision = 256;  // relative to the result
    constexpr int most_steps = 64;           // of at least a byte
    Bytes unknown = least_.bound;
    while (least_.bytes.count - unknown.count > least_.bytes.count / precision) {
      const Bytes middle = between(unknown, least_.bytes);
      if (!finds(middle)) unknown = above(middle);
      unknown = std::max(unknown, least_.bound);
    }
    for (int i = 0; i < most_steps && !least_.proved() && finds(least_.bytes - Bytes{1}); ++i) {
    }
    return std::move(least_);
  }

 private:
  static Bytes between(Bytes a, Bytes b) { return a + Bytes{(b - a).count / 2}; }
  static Bytes above(Bytes memory) { return memory + Bytes{1}; }

  bool finds(Bytes memory) {
    trial_.give(memory);
    Feasible found = trial_.find();
    if (!found.placement) {
      why_not_ = found.how;
      if (found.proved) least_.bound = above(memory);
      return false;
    }
    least_.bytes = trial_.peak(*found.placement);
    least_.placement = *std::move(found.placement);
    return true;
  }

  MemoryTrial trial_;
  LeastMemory least_;
  std::string why_not_;
};

}  // namespace

FittingPlacement first_that_fits(const Problem& problem, std::size_t most_ops) {
  constexpr std::size_t most_units = 64;  // with more units there are never few placements
  if (ColocationUnits(problem.graph).size() > most_units) return {};
  return FittingSearch(problem, most_ops).run();
}

LeastMemory find_least_memory(const Problem& problem) { return Bisection(problem).run(); }

}  // namespace baechi
