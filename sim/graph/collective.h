/// Collective operations: joint operations of several devices, such as adding up gradients.
#pragma once
#include <cstdint>
#include <limits>

#include "sim/ids.h"
#include "sim/names.h"
#include "sim/units.h"

namespace baechi {

/// The names and meanings are MPI's and NCCL's.
enum class CollectiveKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  all_to_all,
  send_recv,
};

constexpr auto names_of(CollectiveKind) {
  return std::to_array<Named<CollectiveKind>>(
      {{CollectiveKind::all_reduce, "all_reduce", "every rank gets the sum"},
       {CollectiveKind::reduce_scatter, "reduce_scatter", "every rank gets its part of the sum"},
       {CollectiveKind::all_gather, "all_gather", "every rank gets the parts of all"},
       {CollectiveKind::broadcast, "broadcast", "every rank gets the first rank's buffer"},
       {CollectiveKind::all_to_all, "all_to_all", "every rank sends each other rank a part"},
       {CollectiveKind::send_recv, "send_recv", "the second rank gets the first rank's buffer"}});
}

enum class CollectiveId : std::uint32_t {};
inline constexpr CollectiveId no_collective{std::numeric_limits<std::uint32_t>::max()};

/// Its members are ops, one per simulated rank, on a device each; they start and end together and
/// take no time of their own.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes bytes{};  ///< of the whole buffer, on each rank
  /// All that take part. More than there are members: the others are replicas of the members that
  /// are not simulated, and arrive when the members do. 0: as many as members.
  std::uint32_t ranks = 0;
  /// Machines over which the ranks are spread evenly. 0: the machines of the members' devices.
  std::uint32_t nodes = 0;
  /// So many collectives like this one, of replicas that are not simulated, use the network of the
  /// same machines at the same time, this one included.
  std::uint32_t sharing = 1;
  OpId first{};               ///< the first member; the graph's builder sets it
  std::uint32_t members = 0;  ///< their number; their ids are adjacent

  auto member_ids() const { return id_range<OpId>(index(first), index(first) + members); }
  friend bool operator==(const Collective&, const Collective&) = default;
};

}  // namespace baechi
