#include "sim/engine/meetings.h"

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

void Meetings::reset(const OpGraph& graph, const IdVector<OpId, DeviceId>& device) {
  gathered_.clear();
  meetings_.assign(graph.collectives().size(), {});
  for (const CollectiveId c : meetings_.ids()) {
    meetings_[c].missing = graph.collectives()[c].members;
    refuse_shared_device(graph, graph.collectives()[c], device);
  }
}

void Meetings::arrive(CollectiveId c, TimePoint now) {
  if (--meetings_[c].missing > 0) return;
  meetings_[c].last = now;
  const auto earlier = [&](CollectiveId other) { return meetings_[other].last < now || other < c; };
  gathered_.insert(std::ranges::partition_point(gathered_, earlier), c);
}

}  // namespace baechi
