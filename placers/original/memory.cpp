#include "placers/original/memory.h"

#include <algorithm>

namespace baechi::original {

PlacerMemory::PlacerMemory(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
                           const PlacerOptions& options)
    : graph_(graph),
      limits_(limits),
      reserving_(options.reserve),
      used_(limits.size()),
      peak_(limits.size()) {
  if (reserving_) reservations_.assign(graph.num_groups() + 1, {});
}

Bytes PlacerMemory::need(const Group& group) const {
  if (!reserving_) return group.persistent_sum;
  return group.temporary_max + group.persistent_sum + group.outputs_max;
}

void PlacerMemory::reserve(GroupId g, const Group& group, DeviceId d) {
  const Bytes size = need(group);
  reservations_[g] = {
      .device = d, .left = size, .whole = size, .not_started = group.members.size()};
  allocate_raw(size, group.members.front(), d);
}

void PlacerMemory::start(OpId v, DeviceId d) {
  const Graph::Op& op = graph_.op(v);
  allocate(op.outputs, v, d);
  allocate(op.temporary, v, d);
  release(op.temporary, v, d);
}

/// Q6: called when the last reader starts. Q5: frees outputs less persistent bytes, which were
/// never charged as such; where the outputs do not contain them the release is negative: a charge
/// that ignores limit and peak.
void PlacerMemory::release_outputs(OpId u, DeviceId d) {
  release(graph_.op(u).outputs - graph_.op(u).persistent, u, d);
}

void PlacerMemory::started(GroupId g, DeviceId d) {
  if (!reserving_) return;
  Reservation& r = reservations_[g];
  if (--r.not_started > 0) return;
  release_raw(r.left, no_op, d);
  r = {};
}

void PlacerMemory::allocate(Bytes size, OpId v, DeviceId d) {
  if (size == Bytes{}) return;
  if (reserving_) {
    Reservation& r = reservations_[graph_.op(v).group];
    if (r.device != d)  // Q15: nothing was reserved, because groups are not placed as a whole
      throw Stop{{.type = "KeyError",
                  .where = "allocate_memory",
                  .file = "m_etf.py",
                  .message = "",
                  .op = v}};
    r.left -= size;
    if (r.left >= Bytes{}) return;
    size = Bytes{} - r.left;
    r.left = {};
  }
  allocate_raw(size, v, d);
}

void PlacerMemory::release(Bytes size, OpId v, DeviceId d) {
  if (size == Bytes{}) return;
  const GroupId g = graph_.op(v).group;
  if (reserving_ && reservations_[g].device == d) {
    Reservation& r = reservations_[g];
    r.left += size;
    if (r.left <= r.whole) return;
    size = r.left - r.whole;
    r.left = r.whole;
  }
  release_raw(size, v, d);
}

void PlacerMemory::allocate_raw(Bytes size, OpId v, DeviceId d) {
  if (available(d) < size)
    throw Stop{{.type = "AssertionError",
                .where = "_allocate_memory_raw",
                .file = "m_etf.py",
                .message = "",
                .op = v}};
  used_[d] += size;
  peak_[d] = std::max(peak_[d], used_[d]);
}

void PlacerMemory::release_raw(Bytes size, OpId v, DeviceId d) {
  used_[d] -= size;
  if (used_[d] < Bytes{})
    throw Stop{{.type = "AssertionError",
                .where = "_deallocate_memory_raw",
                .file = "m_etf.py",
                .message = "",
                .op = v}};
}

}  // namespace baechi::original
