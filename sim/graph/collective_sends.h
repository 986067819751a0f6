/// Collectives as point-to-point sends.
#pragma once
#include <cstddef>
#include <functional>

#include "sim/graph/collective.h"

namespace baechi {

/// Rank `from` sends `size` bytes to rank `to` once it has had its receipt number `after` (0: from
/// the start); for `to` it is receipt number `receipt`.
struct CollectiveSend {
  std::size_t from = 0, after = 0, to = 0, receipt = 0;
  Bytes size{};
  bool is_summed = false;  ///< the receiver adds it to a part of its own
};

/// The sends of a collective of `ranks` ranks. A ring passes on as many parts as there are ranks;
/// their sizes differ by at most a byte.
/// - all_reduce: 2 (ranks - 1) steps of a ring; in each step every rank passes a part on.
///   reduce_scatter and all_gather: half of them.
/// - broadcast: the parts go along the ring, one behind the other.
/// - all_to_all: in step k rank i sends to rank i + k.
/// - send_recv: from the first rank to the second.
/// Every rank has its receipts in the order of their numbers, from 1 on, without gaps.
/// Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009.
void for_each_send(CollectiveKind kind, Bytes bytes, std::size_t ranks,
                   const std::function<void(const CollectiveSend&)>& send);

}  // namespace baechi
