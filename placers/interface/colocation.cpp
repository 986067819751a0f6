#include "placers/interface/colocation.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/error.h"
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
  std::size_t split = 0;
  for (const GroupId g : graph.groups()) {
    const auto members = graph.members(g);
    const DeviceId device = placement.device[members.front()];
    const auto other =
        std::ranges::find_if(members, [&](OpId v) { return placement.device[v] != device; });
    if (other == members.end() || ++split > listed) continue;
    mistakes.add(fmt::format("{}colocation group '{}' is split: '{}' is on device {}, '{}' on {}",
                             at(where), graph.group_name(g), graph.name(members.front()),
                             index(device), graph.name(*other), index(placement.device[*other])));
  }
  if (split > listed) mistakes.add(fmt::format("{}... {} groups in all", at(where), split));
  mistakes.throw_if_any();
}

}  // namespace baechi
