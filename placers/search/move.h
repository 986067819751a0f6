/// The moves by which a search changes a placement. One file per move, one row in moves.cpp.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "placers/search/space.h"

namespace baechi::search {

/// A unit and its new device.
struct Change {
  UnitId unit{};
  DeviceId to{};
};

/// Draws a change of `at` and appends the moved units with their new devices: no unit twice, each
/// to another device that can run it. Appends nothing if the move does not apply. space.movable()
/// must not be empty.
using Propose = void(const SearchSpace& space, const UnitDevices& at, Random& random,
                     std::vector<Change>& changes);

struct MoveEntry {
  std::string_view name;     ///< its name in the search trace
  std::string_view summary;  ///< one line
  Propose* propose;
};
std::span<const MoveEntry> moves();

/// Common parts of moves.
UnitId draw_movable(const SearchSpace& space, Random& random);
/// Any device except `not_this` that can run movable `u`.
DeviceId draw_device(const SearchSpace& space, UnitId u, DeviceId not_this, Random& random);
/// A number of units from 1 to `most`, log-uniform over powers of two.
std::size_t draw_size(std::size_t most, Random& random);
/// The device of a neighbour of `u` on another device that can run `u`; if there is none, any.
DeviceId draw_neighbouring_device(const SearchSpace& space, const UnitDevices& at, UnitId u,
                                  Random& random);

}  // namespace baechi::search
