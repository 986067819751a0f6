#include "placers/search/move.h"

namespace baechi::search {

void move_segment(const SearchSpace& space, const UnitDevices& at, Random& random,
                  std::vector<Change>& changes) {
  const auto order = space.movable();
  const std::size_t first = random.below(static_cast<std::uint32_t>(order.size()));
  const DeviceId from = at[order[first]];
  const DeviceId to = draw_device(space, order[first], from, random);
  std::size_t left = draw_size(order.size(), random);
  for (std::size_t i = first; i < order.size() && left > 0; ++i, --left)
    if (at[order[i]] == from && space.can_run(order[i], to)) changes.push_back({order[i], to});
}

}  // namespace baechi::search
