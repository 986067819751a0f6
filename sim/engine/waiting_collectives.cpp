#include "sim/engine/waiting_collectives.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/error.h"

namespace baechi {
namespace {

void refuse_shared_device(const OpGraph& graph, const Collective& c,
                          const IdVector<OpId, DeviceId>& device) {
  for (const OpId v : c.member_ids())
    for (const OpId w : id_range<OpId>(index(c.first), index(v)))
      if (device[v] == device[w])
        throw InputError(
            fmt::format("'{}' and '{}' are on the same device, but members of one {}: place them "
                        "on different devices",
                        graph.name(w), graph.name(v), to_text(c.kind)));
}

}  // namespace

void WaitingCollectives::reset(const OpGraph& graph, const IdVector<OpId, DeviceId>& device) {
  gathered_.clear();
  waiting_.assign(graph.collectives().size(), {});
  for (const CollectiveId c : waiting_.ids()) {
    waiting_[c].missing = graph.collectives()[c].members;
    refuse_shared_device(graph, graph.collectives()[c], device);
  }
}

void WaitingCollectives::arrive(CollectiveId c, TimePoint now) {
  if (--waiting_[c].missing > 0) return;
  waiting_[c].last = now;
  const auto earlier = [&](CollectiveId other) { return waiting_[other].last < now || other < c; };
  gathered_.insert(std::ranges::partition_point(gathered_, earlier), c);
}

}  // namespace baechi
