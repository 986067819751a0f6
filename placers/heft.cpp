#include <iterator>

#include "placers/interface/colocation.h"
#include "placers/interface/placer.h"
#include "placers/list/booked_transfers.h"
#include "sim/graph/analysis.h"

namespace baechi {
namespace {

constexpr TimePoint never{Duration::max()};
constexpr DeviceId no_device = list::BookedTransfers::no_device;

/// The idle time of one device: slots in order of time, the last one without end.
class IdleSlots {
  struct Slot {
    TimePoint begin, end;
  };
  /// The first slot that ends after `at`.
  static auto first_open_at(auto& slots, TimePoint at) {
    return std::ranges::upper_bound(slots, at, {}, &Slot::end);
  }

 public:
  /// The earliest start, not before `ready`, at which the device stays idle for `length`.
  TimePoint earliest(TimePoint ready, Duration length) const {
    for (auto slot = first_open_at(slots_, ready);; ++slot) {
      const TimePoint start = std::max(slot->begin, ready);
      if (length <= slot->end - start) return start;
    }
  }

  /// Books [start, start + length). The device must be idle then.
  void fill(TimePoint start, Duration length) {
    if (length == Duration::zero()) return;
    const auto slot = first_open_at(slots_, start);
    const Slot after{start + length, slot->end};
    slot->end = start;
    const bool left_before = slot->begin < slot->end;
    if (after.begin == after.end) {
      if (!left_before) slots_.erase(slot);
    } else if (left_before) {
      slots_.insert(slot + 1, after);
    } else {
      *slot = after;
    }
  }

 private:
  std::vector<Slot> slots_{{TimePoint{}, never}};
};

/// The partial schedule that HEFT builds.
class Schedule {
 public:
  explicit Schedule(const Problem& p)
      : p_(p),
        units_(p.graph),
        memory_(p),
        transfers_(p, Transfers::parallel),
        device_of_(units_.size(), no_device),
        start_(p.graph.num_ops()),
        idle_(p.cluster.num_devices()) {}

  /// Schedules `v` on the device where it ends earliest. All predecessors of `v` must be scheduled.
  /// Ties: the lower device id.
  void add(OpId v) {
    const UnitId unit = units_.of(v);
    const DeviceId fixed = device_of_[unit];
    DeviceId best = no_device;
    TimePoint best_start{}, best_end{};
    transfers_.find_inputs(v);
    for (const DeviceId d : p_.cluster.devices()) {
      if (fixed != no_device ? fixed != d : !memory_.fits(units_.needs(unit), d)) continue;
      const Duration length = p_.costs.compute(v, d);
      const TimePoint start = idle_[d].earliest(transfers_.earliest(v, d), length);
      if (best != no_device && start + length >= best_end) continue;
      best = d;
      best_start = start;
      best_end = start + length;
    }
    if (best == no_device)
      throw InfeasibleError("heft: " +
                            memory_.why_not(units_.label(unit, p_.graph), units_.needs(unit)));
    if (fixed == no_device) memory_.add(units_.needs(unit), best);
    device_of_[unit] = best;
    idle_[best].fill(best_start, best_end - best_start);
    start_[v] = best_start;
    transfers_.schedule(
        v, best, best_end);  // HEFT's transfers need no booking: they never wait for a channel
  }

  /// The placement, with priorities in the planned order of starts. Ties: the lower op id first.
  Placement placement() const {
    Placement result{.device = IdVector<OpId, DeviceId>(p_.graph.num_ops()),
                     .priority = IdVector<OpId, std::int32_t>(p_.graph.num_ops())};
    TimePoint makespan{};
    std::vector<OpId> order;
    for (const OpId v : p_.graph.ops()) {
      order.push_back(v);
      result.device[v] = device_of_[units_.of(v)];
      makespan = std::max(makespan, transfers_.end(v));
    }
    std::ranges::stable_sort(order, {}, [&](OpId v) { return start_[v]; });
    auto priority = static_cast<std::int32_t>(order.size());
    for (const OpId v : order) result.priority[v] = --priority;
    result.facts["planned_step_us"] = to_us(makespan.time_since_epoch());
    return result;
  }

 private:
  const Problem& p_;
  const ColocationUnits units_;
  MemoryFloor memory_;
  list::BookedTransfers transfers_;  // each has its link to itself
  IdVector<UnitId, DeviceId> device_of_;
  IdVector<OpId, TimePoint> start_;
  IdVector<DeviceId, IdleSlots> idle_;
};

}  // namespace

/// HEFT: takes the ops by decreasing upward rank (mean op times, mean transfer times) and schedules
/// each op where it ends earliest, also in a gap between ops that are already scheduled. The first
/// scheduled op of a group decides the device of the group. In this schedule transfers never wait
/// for each other, whatever the engine options.
/// Source: Topcuoglu, Hariri, Wu, "Performance-effective and low-complexity task scheduling for
/// heterogeneous computing", TPDS 2002. Differs: skips devices without enough memory (MemoryFloor).
std::unique_ptr<Placer> make_heft(Options&) {
  return placer_of([](const Problem& p, std::uint64_t /*seed*/) -> Placement {
    const auto rank = b_levels(p.graph, mean_compute(p), mean_transfer(p));
    std::vector<OpId> by_rank;
    std::ranges::copy(p.graph.ops(), std::back_inserter(by_rank));
    // Ties: the lower op id first; ids are in topological order.
    std::ranges::stable_sort(by_rank, std::greater{}, [&](OpId v) { return rank[v]; });
    Schedule schedule(p);
    for (const OpId v : by_rank) schedule.add(v);
    return schedule.placement();
  });
}

}  // namespace baechi
