/// The memory booked for a schedule, device by device.
#pragma once

#include "placers/list/booked_transfers.h"

namespace baechi::list {

/// How much memory a schedule leaves unused, so that it still fits when it is simulated.
struct MemoryMargin {
  double memory_share = 1.0;  ///< the fraction of each device's memory that may be booked
  /// When a group is placed on a device, `spare` times the most memory that any member of a group
  /// there needs at once, inputs included, must stay free. Otherwise backward ops, which come late
  /// and are bound to their device, may find the memory full of tensors that they would free.
  int spare = 0;
  bool keep_all = false;  ///< book as if nothing were ever freed
  bool reserve =
      false;  ///< keep memory free for a group's most demanding member until all have started
};

/// What is booked on a device:
///   weights    of all ops placed there, from time 0 on
///   outputs    from the start of their op until their last reader has ended
///   copies     of inputs, from the start of their first reader on that device until the last of
///              the readers started there so far has ended
///   workspace  while its op runs
/// A group is placed with its first member, if the weights of all members and the most demanding
/// member fit. If every device has memory for all ops, nothing is counted.
class BookedMemory {
 public:
  /// `transfers` must outlive this.
  BookedMemory(const Problem& problem, const BookedTransfers& transfers, MemoryMargin margin);

  /// Whether every device has memory for all ops together, so that memory never matters.
  bool ample() const { return ample_; }
  /// Whether `v`, which may go to `d`, fits there now.
  bool has_room(OpId v, DeviceId d) const {
    return ample_ || devices_[d].fits(weights_to_place(v), wanted(v, d));
  }
  /// Whether `v` may ever fit on `d`: the weights and the peak there never shrink.
  bool weights_fit(OpId v, DeviceId d) const {
    return devices_[d].fits(weights_to_place(v), Bytes{});
  }
  /// `v` has no room on `d` while less is free there, until its group is placed or a copy of an
  /// input is there. Without what is reserved for other groups, which may be freed before.
  Bytes need(OpId v, DeviceId d) const { return weights_to_place(v) + live_need(v, d); }
  bool is_free(Bytes need, DeviceId d) const {
    return devices_[d].weights + devices_[d].live + need <= devices_[d].limit;
  }

  void start(OpId v, DeviceId d) {
    if (!ample_) take(v, d);
  }
  /// Books the end of `v` on `d`. May free memory there, and on the devices that produced its
  /// inputs.
  void end(OpId v, DeviceId d) {
    if (!ample_ && !margin_.keep_all) free_after(v, d);
  }

  /// The weights that placing `v` adds: those of its group if it is the first member, else none.
  Bytes weights_to_place(OpId v) const;
  /// Outputs and workspace of `v`.
  Bytes own_need(OpId v) const;
  /// The memory of `d` beyond the weights and the peak.
  Bytes left(DeviceId d) const { return devices_[d].left(); }

 private:
  struct DeviceMemory {
    Bytes limit;
    Bytes weights;    ///< counted from time 0, whenever their op was placed
    Bytes live;       ///< outputs, copies and workspace now
    Bytes peak_live;  ///< the largest `live` so far; later weights are added, as if there from the
                      ///< start
    Bytes reserved;   ///< for the groups placed here
    Bytes largest;    ///< the most that any member of a group here needs at once, inputs included
    Bytes workspace;  ///< if nothing is freed: the largest workspace of any op here; part of `live`

    bool fits(Bytes more_weights, Bytes more_live) const {
      return weights + more_weights + std::max(peak_live, live + more_live) <= limit;
    }
    Bytes left() const { return std::max(Bytes{}, limit - weights - peak_live); }
    void take(Bytes size) {
      live += size;
      peak_live = std::max(peak_live, live);
    }
  };
  struct Group {
    Bytes weights{};
    Bytes most{};     // outputs and workspace of the most demanding member
    Bytes largest{};  // the most that a member needs, inputs included
    Bytes outputs{};  // of all members
    std::size_t to_start = 0;
    bool placed = false;
  };

  bool all_fits_anywhere() const;
  void count_groups();
  bool grouped(OpId v) const { return graph_.op(v).group != no_group; }
  Group& group_of(OpId v) { return groups_[index(graph_.op(v).group)]; }
  const Group& group_of(OpId v) const { return groups_[index(graph_.op(v).group)]; }
  Bytes held(TensorId t) const { return graph_.tensor(t).held(); }
  Bytes copied(TensorId t) const { return graph_.tensor(t).copied(); }
  static bool is_copied(const BookedTransfers::Input& in, DeviceId d) {
    return in.src != d && in.src != BookedTransfers::all_devices;
  }
  Bytes more_workspace(OpId v, DeviceId d) const;
  Bytes live_need(OpId v, DeviceId d) const;
  Bytes wanted(OpId v, DeviceId d) const;
  void take(OpId v, DeviceId d);
  void place_group(OpId v, DeviceMemory& device);
  void take_inputs(OpId v, DeviceId d);
  void free_after(OpId v, DeviceId d);

  const OpGraph& graph_;
  const BookedTransfers& transfers_;
  const MemoryMargin margin_;
  IdVector<DeviceId, DeviceMemory> devices_;
  bool ample_ = false;
  std::vector<Group> groups_;  // by GroupId; [0], ops without a group, is unused
  IdVector<TensorId, std::uint32_t> readers_left_;  // readers that have not ended
  std::vector<std::uint32_t> copy_readers_;  // [num_copies], running readers on the copy's device
};

}  // namespace baechi::list
