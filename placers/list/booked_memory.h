/// The memory of a plan, device by device.
#pragma once
#include <cstdint>
#include <vector>

#include "placers/list/booked_transfers.h"

namespace baechi::list {

/// How cautious a plan is.
struct MemoryMargin {
  double memory_share = 1.0;  ///< of each device's memory that is planned with
  /// For a group to come to a device, this many times the most that any member of a group there may
  /// need at once, inputs included, must stay free: the backward ops, which come late and cannot go
  /// elsewhere, would find the memory full of what they are to free.
  int spare = 0;
  bool keep_all = false;  ///< plan as if nothing were ever freed
  bool reserve = false;   ///< room for a group's most demanding member, until all have started
};

/// Held on a device: weights of what is placed there, from time 0 on; outputs until their last
/// reader has ended, copies until their last reader started so far on that device has, workspace
/// while the op runs. A group is placed with its first member, if its weights and its most
/// demanding member fit. Where all fits anywhere nothing is counted.
class BookedMemory {
 public:
  /// `transfers` outlives this.
  BookedMemory(const Problem& problem, const BookedTransfers& transfers, MemoryMargin margin);

  /// Whether every device has room for all there is, so that memory never decides.
  bool ample() const { return ample_; }
  /// Whether `v`, which may go to `d`, fits there now.
  bool has_room(OpId v, DeviceId d) const {
    return ample_ || rooms_[d].fits(weights_to_place(v), wanted(v, d));
  }
  /// Whether it may ever: weights and their peak do not shrink.
  bool weights_fit(OpId v, DeviceId d) const {
    return rooms_[d].fits(weights_to_place(v), Bytes{});
  }
  /// What must be free beside what is held on `d` for `v` to start there.
  Bytes need(OpId v, DeviceId d) const { return weights_to_place(v) + wanted(v, d); }
  /// Whether `need` is free on `d` now.
  bool is_free(Bytes need, DeviceId d) const {
    return rooms_[d].weights + rooms_[d].live + need <= rooms_[d].limit;
  }

  /// `v` starts on `d`, its transfers booked.
  void start(OpId v, DeviceId d) {
    if (!ample_) take(v, d);
  }
  /// It has ended. Memory may be free there and where its inputs are from.
  void end(OpId v, DeviceId d) {
    if (!ample_ && !margin_.keep_all) free_after(v, d);
  }

  Bytes weights_to_place(OpId v) const;
  /// Outputs and workspace.
  Bytes own_need(OpId v) const;
  /// Beside the peak of `d`.
  Bytes left(DeviceId d) const { return rooms_[d].left(); }

 private:
  /// Of one device.
  struct Room {
    Bytes limit;
    Bytes weights;    ///< held from time 0, whenever it was placed
    Bytes live;       ///< outputs, copies and workspace now
    Bytes peak_live;  ///< the most so far: weights placed later were there then, too
    Bytes reserved;   ///< for the groups that live here
    Bytes largest;    ///< the most that any member of a group here may need, inputs included
    Bytes workspace;  ///< if nothing is freed: the most any op here has had, part of `live`

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
    Bytes largest{};  // the same with its inputs
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
  /// Whether `in` takes memory on `d` only as a copy.
  static bool is_copied(const BookedTransfers::Input& in, DeviceId d) {
    return in.src != d && in.src != BookedTransfers::everywhere;
  }
  Bytes more_workspace(OpId v, DeviceId d) const;
  Bytes live_need(OpId v, DeviceId d) const;
  Bytes wanted(OpId v, DeviceId d) const;
  void take(OpId v, DeviceId d);
  void place_group(OpId v, Room& room);
  void take_inputs(OpId v, DeviceId d);
  void free_after(OpId v, DeviceId d);

  const OpGraph& graph_;
  const BookedTransfers& transfers_;
  const MemoryMargin margin_;
  IdVector<DeviceId, Room> rooms_;
  bool ample_ = false;
  std::vector<Group> groups_;  // by GroupId; [0]: of ops without one, not asked
  IdVector<TensorId, std::uint32_t> readers_left_;  // that have not ended
  std::vector<std::uint32_t> copy_readers_;         // [num_copies], started there, not ended
};

}  // namespace baechi::list
