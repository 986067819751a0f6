#include <algorithm>

#include "placers/search/move.h"

namespace baechi::search {

/// Grows the cluster breadth first from a unit, within its device.
void move_cluster(const SearchSpace& space, const UnitDevices& at, Random& random,
                  std::vector<Change>& changes) {
  constexpr std::size_t most = 64;
  const UnitId first = draw_movable(space, random);
  const DeviceId to = draw_neighbouring_device(space, at, first, random);
  const std::size_t size = draw_size(std::min(most, space.movable().size()), random);
  changes.push_back({first, to});
  const auto taken = [&](UnitId u) {
    return std::ranges::find(changes, u, &Change::unit) != changes.end();
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    for (const UnitId u : space.neighbours(changes[i].unit)) {
      if (changes.size() >= size) return;
      if (at[u] == at[first] && space.can_run(u, to) && !taken(u)) changes.push_back({u, to});
    }
  }
}

}  // namespace baechi::search
