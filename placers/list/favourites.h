/// m-SCT's waiting rule: an idle device waits for the favourite child of the op it has run last.
#pragma once
#include <vector>

#include "placers/list/partial_schedule.h"

namespace baechi::list {

/// A device waits if the favourite child of its last op is ready, fits there, and could start on no
/// other device earlier. It waits until the child's inputs have arrived, unless an op is urgent:
/// one that could start by now on every device on which it fits.
/// Source: Baechi (SoCC'20), section 2.2.3; Hanen and Munier 1995.
class Favourites {
 public:
  /// `favourite` has the favourite child of each op, or no_op; empty: no device ever waits (m-ETF).
  /// Both arguments outlive this.
  Favourites(PartialSchedule& schedule, const IdVector<OpId, OpId>& favourite);

  /// The favourite child of `v`, or no_op.
  OpId of(OpId v) const { return favourite_.empty() ? no_op : favourite_[v]; }

  void ready(OpId v) {
    if (favourite_.empty()) return;
    place_[v] = ready_.size();
    ready_.push_back(v);
  }
  void started(OpId v) {
    if (favourite_.empty()) return;
    place_[ready_.back()] = place_[v];
    ready_[place_[v]] = ready_.back();
    ready_.pop_back();
  }

  /// The favourite child that the idle device `d` waits for, or no_op if it does not wait.
  OpId awaited(DeviceId d);

  struct Decision {
    Rank op = no_rank;           ///< what to start, if anything
    TimePoint retry_at = never;  ///< otherwise when to decide again
  };
  /// The decision of `d`, which waits for `child`: the most urgent op, by (urgent time, rank), if
  /// one is urgent; otherwise the child, if its inputs have arrived.
  Decision decide(DeviceId d, OpId child);

 private:
  bool earlier_on_another(OpId child, DeviceId d);
  /// The time since which `v` could start on every device on which it fits, including `d`. If (that
  /// time, rank of `v`) is not before `bound`, any time that is not before it either.
  TimePoint urgent_at(OpId v, DeviceId d, std::pair<TimePoint, Rank> bound);

  PartialSchedule& schedule_;
  const IdVector<OpId, OpId>& favourite_;
  std::vector<OpId> ready_;                // not started, in any order
  IdVector<OpId, std::size_t> place_;      // position of each op in ready_
  std::vector<DeviceId> last_free_first_;  // all devices, in the order of the last decide()
};

}  // namespace baechi::list
