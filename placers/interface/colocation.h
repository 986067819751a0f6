/// Units: what a placer places as a whole, either a colocation group or an op without a group.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/graph/op_graph.h"
#include "sim/problem/problem.h"

namespace baechi {

enum class UnitId : std::uint32_t {};

/// Joint needs of the members of a unit.
struct UnitNeeds {
  Bytes persistent{};  ///< persistent bytes, summed over the members
  Bytes working{};     ///< largest temporary + output bytes of a member: one op runs at a time
  Bytes footprint{};   ///< persistent + temporary + output bytes, summed over the members
};

/// The units of one graph. Unit ids ascend with the units' first members, so a loop by id visits
/// the units in topological order of their first members.
class ColocationUnits {
 public:
  explicit ColocationUnits(const OpGraph& graph);

  std::size_t size() const { return needs_.size(); }
  auto units() const { return needs_.ids(); }
  UnitId of(OpId v) const { return unit_[v]; }
  const UnitNeeds& needs(UnitId u) const { return needs_[u]; }
  std::span<const OpId> members(UnitId u) const {  ///< ascending, never empty
    return {members_.data() + begin_[index(u)], members_.data() + begin_[index(u) + 1]};
  }
  /// "op 'a'" or "group 'g' of 3 ops", for messages.
  std::string label(UnitId u, const OpGraph& graph) const;

 private:
  IdVector<OpId, UnitId> unit_;
  IdVector<UnitId, UnitNeeds> needs_;
  std::vector<OpId> members_;         // sorted by (unit, id)
  std::vector<std::uint32_t> begin_;  // [num_units + 1], positions in members_
};

/// Throws InputError if `placement` splits a group: one line per split group, at most five lines.
/// `where` names the source of the placement in the messages.
void require_whole_groups(const Placement& placement, const OpGraph& graph,
                          const std::string& where);

}  // namespace baechi
