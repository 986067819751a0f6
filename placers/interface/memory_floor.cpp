#include "placers/interface/memory_floor.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace baechi {

IdVector<DeviceId, Bytes> memory_limits(const Problem& problem) {
  constexpr Bytes unbounded{std::int64_t{1} << 62};
  IdVector<DeviceId, Bytes> limits;
  for (const DeviceId d : problem.cluster.devices())
    limits.push_back(problem.engine.enforce_memory ? problem.cluster.device(d).memory : unbounded);
  return limits;
}

MemoryFloor::MemoryFloor(const Problem& problem)
    : cluster_(problem.cluster), limit_(memory_limits(problem)), used_(limit_.size()) {}

Bytes MemoryFloor::short_of(const UnitNeeds& unit, DeviceId d) const {
  const UnitNeeds& used = used_[d];
  return used.persistent + unit.persistent + std::max(used.working, unit.working) - limit_[d];
}

void MemoryFloor::add(const UnitNeeds& unit, DeviceId d) {
  UnitNeeds& used = used_[d];
  used.persistent += unit.persistent;
  used.working = std::max(used.working, unit.working);
  used.footprint += unit.footprint;
}

std::string MemoryFloor::why_not(std::string_view label, const UnitNeeds& unit) const {
  const bool alone = std::ranges::any_of(
      limit_, [&](Bytes limit) { return unit.persistent + unit.working <= limit; });
  IdVector<DeviceId, Bytes> missing(cluster_.num_devices());
  for (const DeviceId d : cluster_.devices()) missing[d] = short_of(unit, d);
  return fmt::format("{} {}: needs {} persistent and {} while running; {}", label,
                     alone ? "has no room left on any device" : "fits on no device",
                     to_text(unit.persistent), to_text(unit.working), shortfall(cluster_, missing));
}

std::string shortfall(const Cluster& cluster, const IdVector<DeviceId, Bytes>& missing) {
  constexpr std::size_t listed = 3;
  std::vector<DeviceId> nearest;
  std::ranges::copy(missing.ids(), std::back_inserter(nearest));
  std::ranges::stable_sort(nearest, {}, [&](DeviceId d) { return missing[d]; });
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::min(listed, nearest.size()); ++i)
    parts.push_back(
        fmt::format("{} on {}", to_text(missing[nearest[i]]), cluster.device(nearest[i]).name));
  return fmt::format("missing: {}{}", fmt::join(parts, ", "),
                     nearest.size() > listed
                         ? fmt::format(", more on the other {}", nearest.size() - listed)
                         : std::string());
}

}  // namespace baechi
