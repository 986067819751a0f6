#include "placers/list/partial_schedule.h"

namespace baechi::list {

Favourites::Favourites(PartialSchedule& schedule, const IdVector<OpId, OpId>& favourite)
    : schedule_(schedule), favourite_(favourite), place_(favourite.size()) {
  for (const DeviceId d : schedule.cluster.devices()) last_free_first_.push_back(d);
}

OpId Favourites::awaited(DeviceId d) {
  const OpId last = schedule_.devices[d].last;
  if (favourite_.empty() || last == no_op) return no_op;
  const OpId child = favourite_[last];
  if (child == no_op || !schedule_.is_ready(child) || !schedule_.may_go(child, d) ||
      !schedule_.memory.has_room(child, d))
    return no_op;
  return earlier_on_another(child, d) ? no_op : child;
}

bool Favourites::earlier_on_another(OpId child, DeviceId d) {
  const TimePoint here = schedule_.start_at(child, d);
  if (here <= schedule_.now) return false;
  const auto earlier = [&](DeviceId other) {
    return other != d && schedule_.may_go(child, other) &&
           schedule_.start_at(child, other) < here && schedule_.memory.has_room(child, other);
  };
  if (!schedule_.uniform || schedule_.transfers.pending_inputs(child).sent < here)
    return std::ranges::any_of(schedule_.cluster.devices(), earlier);
  // Only devices that hold an input can have the inputs earlier.
  bool any = false;
  schedule_.transfers.for_each_nearer(child, [&](DeviceId other) { any = any || earlier(other); });
  return any;
}

Favourites::Decision Favourites::decide(DeviceId d, OpId child) {
  std::pair most_urgent{never, no_rank};
  // While an op runs and every device has enough memory, an op that may go to any device is not
  // urgent; the end of an op triggers a new decision anyway.
  const bool only_pinned = schedule_.memory.ample() && schedule_.num_running > 0;
  // Devices that become free last come first: they usually decide.
  if (!only_pinned) {
    std::ranges::sort(last_free_first_, std::greater{}, [&](DeviceId other) {
      return std::pair(schedule_.devices[other].free_at, other);
    });
  }
  for (const OpId v : ready_) {
    if (only_pinned && schedule_.ops[v].home == any_device) continue;
    if (!schedule_.may_go(v, d) || !schedule_.memory.has_room(v, d)) continue;
    most_urgent = std::min(most_urgent, std::pair(urgent_at(v, d, most_urgent), schedule_.rank(v)));
  }
  const auto [urgent, op] = most_urgent;
  if (urgent <= schedule_.now) return {op, never};
  const TimePoint at = schedule_.start_at(child, d);
  if (at <= schedule_.now) return {schedule_.rank(child), never};
  return {no_rank, std::min(at, urgent)};
}

TimePoint Favourites::urgent_at(OpId v, DeviceId d, std::pair<TimePoint, Rank> bound) {
  TimePoint latest = schedule_.start_at(v, d);
  if (schedule_.ops[v].home != any_device) return latest;
  for (const DeviceId other : last_free_first_) {
    if (std::pair(latest, schedule_.rank(v)) >= bound) break;
    if (other == d) continue;
    const TimePoint at = schedule_.start_at(v, other);
    if (at > latest && schedule_.memory.has_room(v, other)) latest = at;
  }
  return latest;
}

}  // namespace baechi::list
