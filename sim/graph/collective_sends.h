/// Collectives as point-to-point sends.
#pragma once
#include <cstddef>
#include <functional>

#include "sim/graph/collective.h"

namespace baechi {

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
