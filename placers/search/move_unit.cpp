#include "placers/search/move.h"

namespace baechi::search {

void move_unit(const SearchSpace& space, const UnitDevices& at, Random& random,
               std::vector<Change>& changes) {
  const UnitId u = draw_movable(space, random);
  changes.push_back({u, draw_device(space, u, at[u], random)});
}

}  // namespace baechi::search
