/// What has to go to one device together: the members of a colocation group, or a lone op.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/problem/problem.h"
#include "sim/graph/op_graph.h"

namespace baechi {

enum class UnitId : std::uint32_t {};

/// What the members of a unit need together.
struct UnitNeeds {
  Bytes persistent{};  ///< of all members
  Bytes working{};     ///< temporary + outputs of the member with most: one runs at a time
  Bytes footprint{};   ///< persistent + temporary + outputs of all members
};

/// The units of one graph, numbered by their first member, so that a walk over the units meets them
/// in topological order of first members.
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
  std::vector<std::uint32_t> begin_;  // [num_units + 1], into members_
};

/// Throws InputError, one line for each of at most five groups, if `placement` splits any. `where`
/// is who made it, for the messages.
void require_whole_groups(const Placement& placement, const OpGraph& graph,
                          const std::string& where);

}  // namespace baechi
