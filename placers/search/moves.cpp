#include <algorithm>
#include <bit>

#include "placers/search/move.h"

namespace baechi::search {

Propose move_unit, move_join, move_swap, move_cut, move_segment, move_cluster;

std::span<const MoveEntry> moves() {
  static constexpr MoveEntry table[] = {
      {"unit", "an op or group goes to any device", move_unit},
      {"join", "an op or group goes to the device of a neighbour", move_join},
      {"swap", "two ops or groups swap devices", move_swap},
      {"cut", "a cut in the order of ops, where the device changes, moves forwards or backwards",
       move_cut},
      {"segment", "in a segment of the order, the ops of one device go to another", move_segment},
      {"cluster", "connected ops of one device go to the device of their neighbours", move_cluster},
  };
  return table;
}

UnitId draw_movable(const SearchSpace& space, Random& random) {
  return space.movable()[random.below(static_cast<std::uint32_t>(space.movable().size()))];
}

DeviceId draw_device(const SearchSpace& space, UnitId u, DeviceId not_this, Random& random) {
  const auto able = space.able(u);
  const auto own = std::ranges::find(able, not_this);
  const bool among = own != able.end();
  auto i = random.below(static_cast<std::uint32_t>(able.size() - (among ? 1 : 0)));
  if (among && i >= own - able.begin()) ++i;
  return able[i];
}

std::size_t draw_size(std::size_t most, Random& random) {
  const auto powers = static_cast<std::uint32_t>(std::bit_width(most));  // most >= 2^(powers - 1)
  const std::size_t least = std::size_t{1} << random.below(powers);
  const std::size_t end = std::min(2 * least, most + 1);
  return least + random.below(static_cast<std::uint32_t>(end - least));
}

DeviceId draw_neighbouring_device(const SearchSpace& space, const UnitDevices& at, UnitId u,
                                  Random& random) {
  const auto suits = [&](UnitId n) { return at[n] != at[u] && space.can_run(u, at[n]); };
  const auto neighbours = space.neighbours(u);
  const auto count = static_cast<std::uint32_t>(std::ranges::count_if(neighbours, suits));
  if (count == 0) return draw_device(space, u, at[u], random);
  std::uint32_t wanted = random.below(count);
  for (const UnitId n : neighbours)
    if (suits(n) && wanted-- == 0) return at[n];
  return at[u];  // unreachable
}

}  // namespace baechi::search
