/// The space of a search: the device of each colocation unit.
#pragma once
#include <span>
#include <vector>

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
  bool is_movable(UnitId u) const { return able(u).size() > 1; }
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

}  // namespace baechi::search
