/// The ways in which a search changes a placement. One file per move, one row in moves.cpp.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "placers/search/space.h"

namespace baechi::search {

/// A unit goes elsewhere.
struct Change {
  UnitId unit{};
  DeviceId to{};
};

/// Draws a change of `at` and appends the moved units with their new devices: no unit twice, each
/// to another device that can run it. Nothing: the move makes no sense here. space.movable() is not
/// empty.
using Propose = void(const SearchSpace& space, const UnitDevices& at, Random& random,
                     std::vector<Change>& changes);

struct MoveEntry {
  std::string_view name;     ///< as a trace calls it
  std::string_view summary;  ///< one line
  Propose* propose;
};
std::span<const MoveEntry> moves();

/// Common parts of moves.
UnitId draw_movable(const SearchSpace& space, Random& random);
/// Any device but `not_this` that can run movable `u`.
DeviceId draw_device(const SearchSpace& space, UnitId u, DeviceId not_this, Random& random);
/// A number of units: 1 to `most`, small ones as likely as large ones on a scale of powers of two.
std::size_t draw_size(std::size_t most, Random& random);
/// The device of a neighbour of `u` elsewhere that can run `u`; if there is none, any.
DeviceId draw_neighbouring_device(const SearchSpace& space, const UnitDevices& at, UnitId u,
                                  Random& random);

}  // namespace baechi::search
