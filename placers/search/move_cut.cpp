#include "placers/search/move.h"

namespace baechi::search {

/// From a unit on, forwards or backwards in the order, finds where the device changes; from there
/// moves as many units as drawn, while they are on the next device, to the first device.
void move_cut(const SearchSpace& space, const UnitDevices& at, Random& random,
              std::vector<Change>& changes) {
  const auto order = space.movable();
  const bool forwards = random.below(2) == 0;
  std::size_t i = random.below(static_cast<std::uint32_t>(order.size()));
  const DeviceId home = at[order[i]];
  const auto step = [&] {
    if (forwards ? i + 1 == order.size() : i == 0) return false;
    i = forwards ? i + 1 : i - 1;
    return true;
  };
  while (at[order[i]] == home)
    if (!step()) return;
  const DeviceId other = at[order[i]];
  std::size_t left = draw_size(order.size(), random);
  do {
    if (at[order[i]] != other || !space.can_run(order[i], home)) return;
    changes.push_back({order[i], home});
  } while (--left > 0 && step());
}

}  // namespace baechi::search
