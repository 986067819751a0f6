/// The space of a search, and the moves by which it changes a placement. A function and a row in
/// moves.cpp per move.
#pragma once

#include "placers/interface/colocation.h"
#include "sim/random.h"

namespace baechi::search {

/// The units of a problem, their neighbours, and their possible devices. The parts of the problem
/// must outlive it.
class SearchSpace {
 public:
  explicit SearchSpace(const Problem& problem);

  const Problem& problem() const { return problem_; }
  const ColocationUnits& units() const { return units_; }
  /// Units that can be on more than one device, ascending, hence in topological order of their
  /// first ops.
  std::span<const UnitId> movable() const { return movable_; }
  /// The devices that can run all ops of `u`, ascending.
  std::span<const DeviceId> able(UnitId u) const { return able_[able_of_[u]]; }
  bool can_run(UnitId u, DeviceId d) const;
  /// Units that `u` reads from, and readers of `u`, distinct, ascending.
  std::span<const UnitId> neighbours(UnitId u) const {
    return {neighbours_.data() + begin_[index(u)], neighbours_.data() + begin_[index(u) + 1]};
  }

 private:
  void find_neighbours();
  void find_able();

  Problem problem_;
  ColocationUnits units_;
  std::vector<UnitId> movable_;
  std::vector<std::vector<DeviceId>> able_;  // the distinct sets of devices
  IdVector<UnitId, std::uint32_t> able_of_;  // into able_
  std::vector<UnitId> neighbours_;
  std::vector<std::size_t> begin_;  // [num_units + 1], into neighbours_
};

using UnitDevices = IdVector<UnitId, DeviceId>;  ///< [num_units]

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
