#include "placers/exact/all_placements.h"

#include <algorithm>

namespace baechi::exact {
namespace {

class PlacementEnumerator {
 public:
  PlacementEnumerator(const Problem& problem, const ColocationUnits& units,
                      const std::vector<DeviceClass>& classes, std::size_t most,
                      const std::function<void(const Placement&)>& visit)
      : problem_(problem),
        units_(units),
        classes_(classes),
        left_(most),
        visit_(visit),
        used_(classes.size()),
        placement_{.device = IdVector<OpId, DeviceId>(problem.graph.num_ops())} {}

  bool from(std::size_t unit) {
    if (unit == units_.size()) {
      if (left_-- == 0) return false;
      visit_(placement_);
      return true;
    }
    const auto members = units_.members(UnitId{static_cast<std::uint32_t>(unit)});
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      const DeviceClass& cls = classes_[c];
      if (!can_run(members, cls.devices.front())) continue;
      // Equal devices are taken in order: only the first that is not yet in use is tried.
      const std::size_t tries = cls.core ? 1 : std::min(used_[c] + 1, cls.devices.size());
      for (std::size_t i = 0; i < tries; ++i) {
        for (const OpId v : members) placement_.device[v] = cls.devices[i];
        const std::size_t before = used_[c];
        used_[c] = std::max(used_[c], i + 1);
        const bool all = from(unit + 1);
        used_[c] = before;
        if (!all) return false;
      }
    }
    return true;
  }

 private:
  bool can_run(std::span<const OpId> members, DeviceId d) const {
    return std::ranges::all_of(members,
                               [&](OpId v) { return problem_.costs.compute(v, d) != cannot_run; });
  }

  const Problem& problem_;
  const ColocationUnits& units_;
  const std::vector<DeviceClass>& classes_;
  std::size_t left_;
  const std::function<void(const Placement&)>& visit_;
  std::vector<std::size_t> used_;  // [classes], devices in use
  Placement placement_;
};

}  // namespace

bool visit_placements(const Problem& problem, const ColocationUnits& units,
                      const std::vector<DeviceClass>& classes, std::size_t most,
                      const std::function<void(const Placement&)>& visit) {
  constexpr std::size_t most_units = 64;  // with more units there are never few placements
  if (units.size() > most_units) return false;
  const std::function<void(const Placement&)> count = [](const Placement&) {};
  return PlacementEnumerator(problem, units, classes, most, count).from(0) &&
         PlacementEnumerator(problem, units, classes, most, visit).from(0);
}

}  // namespace baechi::exact
