/// Collective operations of several devices, such as gradient all-reduces, and their point-to-point
/// sends.
#pragma once
#include <functional>
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

/// Its members are ops, one per simulated rank, each on its own device; they start and end
/// together.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes bytes{};  ///< of the whole buffer, on each rank
  /// All ranks. Ranks beyond the members are replicas of members that are not simulated, and arrive
  /// when the members do. 0: as many as members.
  std::uint32_t ranks = 0;
  /// Nodes over which the ranks are spread evenly. 0: the nodes of the members' devices.
  std::uint32_t nodes = 0;
  /// Number of identical collectives, of replicas that are not simulated, that use the network of
  /// the same nodes concurrently, this one included.
  std::uint32_t sharing = 1;
  OpId first{};               ///< the first member; set by the graph's builder
  std::uint32_t members = 0;  ///< number of members; their ids are adjacent

  auto member_ids() const { return id_range<OpId>(index(first), index(first) + members); }
  friend bool operator==(const Collective&, const Collective&) = default;
};

/// Rank `from` sends `size` bytes to rank `to` after its receipt number `after` (0: at the start);
/// for `to` it is receipt number `receipt`.
struct CollectiveSend {
  std::size_t from = 0, after = 0, to = 0, receipt = 0;
  Bytes size{};
  bool is_summed = false;  ///< the receiver reduces it into its own part
};

/// Calls `send` for each send of a collective of `ranks` ranks. Rings have as many parts as ranks;
/// part sizes differ by at most a byte.
/// - all_reduce: 2 (ranks - 1) ring steps, in each of which every rank sends a part.
///   reduce_scatter and all_gather: half of them.
/// - broadcast: the parts are pipelined along the ring.
/// - all_to_all: in step k rank i sends to rank i + k.
/// - send_recv: from the first rank to the second.
/// The receipts of every rank are numbered 1, 2, ... in the order of the calls.
/// Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009.
void for_each_send(CollectiveKind kind, Bytes bytes, std::size_t ranks,
                   const std::function<void(const CollectiveSend&)>& send);

}  // namespace baechi
