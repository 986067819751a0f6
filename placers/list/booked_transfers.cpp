#include "placers/list/booked_transfers.h"

namespace baechi::list {

BookedTransfers::BookedTransfers(const Problem& p, Transfers mode)
    : graph_(p.graph),
      costs_(p.costs),
      channels_(mode, p.cluster.num_devices()),
      cached_(p.engine.cache_tensors),
      uniform_links_(p.cluster.num_devices() > 1 && p.costs.uniform_transfers()),
      own_receivers_(mode != Transfers::parallel && mode != Transfers::shared),
      first_in_edge_(graph_.num_ops() > 0 ? graph_.in_edges(OpId{0}).data() : nullptr),
      clock_(channels_.num_channels()),
      producers_(graph_.num_ops()),
      inputs_(graph_.num_edges()),
      last_copy_(cached_ ? graph_.num_tensors() : 0, no_copy) {}

void BookedTransfers::clear() {
  std::ranges::fill(clock_, TimePoint{});
  std::ranges::fill(producers_, Producer{});
  std::ranges::fill(last_copy_, no_copy);
  copies_.clear();
}

void BookedTransfers::find_inputs(OpId v) {
  const std::span<Input> found(inputs_.data() + first_input(v), graph_.in_edges(v).size());
  std::size_t i = 0;
  for (const EdgeId e : graph_.in_edges(v)) {
    const Edge& edge = graph_.edge(e);
    const Producer& producer = producers_[edge.src];
    const bool instant = graph_.instant(edge.tensor);
    Input& in = found[i++];
    in = {
        .end = producer.end, .tensor = edge.tensor, .src = instant ? all_devices : producer.device};
    if (uniform_links_ && !instant)
      in.transfer = costs_.transfer(in.tensor, DeviceId{0}, DeviceId{1});
  }
  const auto turn = [](const Input& in) { return std::pair(in.end, in.tensor); };
  if (!std::ranges::is_sorted(found, {}, turn)) std::ranges::sort(found, {}, turn);
}

TimePoint BookedTransfers::earliest_elsewhere(OpId v) const {
  TimePoint at{};
  for (const Input& in : inputs(v)) {
    if (in.src != all_devices) at = std::max(at, in.end + in.transfer);
  }
  return at;
}

BookedTransfers::PendingInputs BookedTransfers::pending_inputs(OpId v) {
  PendingInputs way;
  Duration received{};
  if (channels_.staged()) sender_clocks_.clear();
  for (const Input& in : inputs(v)) {
    if (in.src == all_devices) continue;
    const DeviceId other{in.src == DeviceId{0} ? 1U : 0U};
    const TimePoint all_free = channels_.limited() ? way.sent : TimePoint{};
    const TimePoint end = hop(in, other, all_free).end;
    way.sent = std::max(way.sent, end);
    received += channels_.staged() ? stages(costs_, in.tensor, in.src, other).in : in.transfer;
    if (own_receivers_) way.received = received;
  }
  return way;
}

/// The end of the last booking of the outgoing channel of `src` within one deliver().
TimePoint& BookedTransfers::sender_clock(DeviceId src) {
  auto it = std::ranges::find(sender_clocks_, src, &std::pair<DeviceId, TimePoint>::first);
  if (it == sender_clocks_.end())
    it = sender_clocks_.insert(it, {src, clock_[channels_.sending(src)]});
  return it->second;
}

}  // namespace baechi::list
