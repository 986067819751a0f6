#include "placers/search/move.h"

namespace baechi::search {

void move_swap(const SearchSpace& space, const UnitDevices& at, Random& random,
               std::vector<Change>& changes) {
  const UnitId a = draw_movable(space, random), b = draw_movable(space, random);
  if (at[a] == at[b] || !space.can_run(a, at[b]) || !space.can_run(b, at[a])) return;
  changes.push_back({a, at[b]});
  changes.push_back({b, at[a]});
}

}  // namespace baechi::search
