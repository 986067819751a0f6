#include "placers/interface/colocation.h"

#include <iterator>

#include "sim/graph/analysis.h"
#include "sim/options.h"

namespace baechi {

ColocationUnits::ColocationUnits(const OpGraph& graph) : unit_(graph.num_ops()) {
  constexpr UnitId none{~std::uint32_t{0}};
  IdVector<GroupId, UnitId> of_group(graph.num_groups() + 1, none);
  needs_.reserve(graph.num_ops());
  for (const OpId v : graph.ops()) {
    const Op& op = graph.op(v);
    UnitId unit = op.group == no_group ? none : of_group[op.group];
    if (unit == none) {
      unit = needs_.push_back({});
      if (op.group != no_group) of_group[op.group] = unit;
    }
    unit_[v] = unit;
    const Bytes working = op.temporary + output_bytes(graph, v);
    UnitNeeds& needs = needs_[unit];
    needs.persistent += op.persistent;
    needs.working = std::max(needs.working, working);
    needs.footprint += op.persistent + working;
  }

  begin_.assign(size() + 1, 0);
  for (const UnitId u : unit_) ++begin_[index(u) + 1];
  for (std::size_t u = 0; u < size(); ++u) begin_[u + 1] += begin_[u];
  std::vector<std::uint32_t> next(begin_.begin(), begin_.end() - 1);
  members_.resize(graph.num_ops());
  for (const OpId v : graph.ops()) members_[next[index(unit_[v])]++] = v;
}

std::string ColocationUnits::label(UnitId u, const OpGraph& graph) const {
  const OpId first = members(u).front();
  const GroupId group = graph.op(first).group;
  if (group == no_group) return fmt::format("op '{}'", graph.name(first));
  return fmt::format("group '{}' of {} op{}", graph.group_name(group), members(u).size(),
                     members(u).size() == 1 ? "" : "s");
}

void require_whole_groups(const Placement& placement, const OpGraph& graph,
                          const std::string& where) {
  constexpr std::size_t listed = 5;
  Mistakes mistakes;
  const std::vector<SplitGroup> split = split_groups(placement, graph);
  for (const auto& [group, first, other] : split | std::views::take(listed))
    mistakes.add(fmt::format("{}colocation group '{}' is split: '{}' is on device {}, '{}' on {}",
                             at(where), graph.group_name(group), graph.name(first),
                             index(placement.device[first]), graph.name(other),
                             index(placement.device[other])));
  if (split.size() > listed)
    mistakes.add(fmt::format("{}... {} groups in all", at(where), split.size()));
  mistakes.throw_if_any();
}

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
