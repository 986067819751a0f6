#include "placers/list/booked_memory.h"

#include "sim/graph/analysis.h"

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

BookedMemory::BookedMemory(const Problem& p, const BookedTransfers& transfers, MemoryMargin margin)
    : graph_(p.graph),
      transfers_(transfers),
      margin_(margin),
      devices_(p.cluster.num_devices()),
      groups_(graph_.num_groups() + 1) {
  for (const DeviceId d : p.cluster.devices()) {
    const Bytes memory = p.cluster.device(d).memory;
    devices_[d].limit =
        p.engine.enforce_memory ? margin.memory_share * memory : Bytes{std::int64_t{1} << 62};
  }
  ample_ = all_fits_anywhere();
  if (ample_) return;
  count_groups();
  readers_left_.reserve(graph_.num_tensors());
  for (const TensorId t : graph_.tensors())
    readers_left_.push_back(static_cast<std::uint32_t>(graph_.readers(t).size()));
}

bool BookedMemory::all_fits_anywhere() const {
  Bytes most = peak_upper_bound(graph_);
  if (margin_.reserve) most = 2.0 * most;
  return std::ranges::all_of(devices_, [&](const DeviceMemory& d) { return most <= d.limit; });
}

void BookedMemory::count_groups() {
  for (const GroupId g : graph_.groups()) {
    Group& group = groups_[index(g)];
    group.to_start = graph_.members(g).size();
    for (const OpId v : graph_.members(g)) {
      group.weights += graph_.op(v).persistent;
      group.most = std::max(group.most, own_need(v));
      group.outputs += output_bytes(graph_, v);
      Bytes inputs;
      for (const EdgeId e : graph_.in_edges(v)) inputs += copied(graph_.edge(e).tensor);
      group.largest = std::max(group.largest, own_need(v) + inputs);
    }
  }
}

Bytes BookedMemory::weights_to_place(OpId v) const {
  if (!grouped(v)) return graph_.op(v).persistent;
  return group_of(v).placed ? Bytes{} : group_of(v).weights;
}

Bytes BookedMemory::own_need(OpId v) const {
  return output_bytes(graph_, v) + graph_.op(v).temporary;
}

/// The part of the workspace of `v` that is not yet booked on `d`.
Bytes BookedMemory::more_workspace(OpId v, DeviceId d) const {
  return std::max(Bytes{}, graph_.op(v).temporary - devices_[d].workspace);
}

/// What starting `v` adds to the live bytes of `d`.
Bytes BookedMemory::live_need(OpId v, DeviceId d) const {
  Bytes need = output_bytes(graph_, v) + more_workspace(v, d);
  for (const BookedTransfers::Input& in : transfers_.inputs(v)) {
    if (!is_copied(in, d)) continue;
    const std::uint32_t c = transfers_.find_copy(in.tensor, d);
    if (c == BookedTransfers::no_copy || copy_readers_[c] == 0) need += copied(in.tensor);
  }
  return need;
}

/// The memory that must be free on `d`, besides weights and live bytes, for `v` to start there.
Bytes BookedMemory::wanted(OpId v, DeviceId d) const {
  const DeviceMemory& device = devices_[d];
  const Bytes live = live_need(v, d) + device.reserved;
  if (!grouped(v)) return live + margin_.spare * device.largest;
  const Group& group = group_of(v);
  if (group.placed) {
    if (margin_.keep_all) return live - output_bytes(graph_, v);
    return margin_.reserve ? live - group.most : live;
  }
  const Bytes whole = margin_.keep_all ? group.outputs + more_workspace(v, d) : group.most;
  return std::max(live, whole + device.reserved) +
         margin_.spare * std::max(device.largest, group.largest);
}

void BookedMemory::take(OpId v, DeviceId d) {
  DeviceMemory& device = devices_[d];
  device.weights += weights_to_place(v);
  if (grouped(v) && !group_of(v).placed) place_group(v, device);
  take_inputs(v, d);
  device.take(output_bytes(graph_, v) + more_workspace(v, d));
  if (margin_.keep_all) device.workspace = std::max(device.workspace, graph_.op(v).temporary);
  if (!grouped(v)) return;
  const bool last = --group_of(v).to_start == 0;
  if (margin_.keep_all)
    device.reserved -= output_bytes(graph_, v);
  else if (margin_.reserve && last)
    device.reserved -= group_of(v).most;
}

void BookedMemory::place_group(OpId v, DeviceMemory& device) {
  Group& group = group_of(v);
  group.placed = true;
  if (margin_.keep_all)
    device.reserved += group.outputs;
  else if (margin_.reserve)
    device.reserved += group.most;
  device.largest = std::max(device.largest, group.largest);
}

void BookedMemory::take_inputs(OpId v, DeviceId d) {
  copy_readers_.resize(transfers_.num_copies());
  for (const BookedTransfers::Input& in : transfers_.inputs(v)) {
    if (!is_copied(in, d)) continue;
    const std::uint32_t c = transfers_.find_copy(in.tensor, d);
    if (c == BookedTransfers::no_copy || copy_readers_[c]++ == 0)
      devices_[d].take(copied(in.tensor));
  }
}

void BookedMemory::free_after(OpId v, DeviceId d) {
  devices_[d].live -= graph_.op(v).temporary;
  for (const BookedTransfers::Input& in : transfers_.inputs(v)) {
    if (in.src == BookedTransfers::all_devices) continue;
    if (is_copied(in, d)) {
      const std::uint32_t c = transfers_.find_copy(in.tensor, d);
      if (c == BookedTransfers::no_copy || --copy_readers_[c] == 0)
        devices_[d].live -= copied(in.tensor);
    }
    if (--readers_left_[in.tensor] == 0) devices_[in.src].live -= held(in.tensor);
  }
  for (const TensorId t : graph_.outputs(v))
    if (readers_left_[t] == 0) devices_[d].live -= held(t);
}

}  // namespace baechi::list
