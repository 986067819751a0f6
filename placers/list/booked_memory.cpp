#include "placers/list/booked_memory.h"

#include "sim/graph/analysis.h"

namespace baechi::list {

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
