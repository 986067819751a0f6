/// Memory accounting of the original m_etf and m_sct (TensorFlow): updated when an op is started,
/// not over time.
#pragma once
#include "placers/original/original.h"

namespace baechi::original {

/// The bytes in use per device, and the bytes reserved per group. All but fits() throw Stop where
/// the original asserts.
class PlacerMemory {
 public:
  PlacerMemory(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
               const PlacerOptions& options);

  /// Bytes of `v` at its start: temporary + outputs.
  Bytes need(OpId v) const { return graph_.op(v).temporary + graph_.op(v).outputs; }
  /// Bytes checked before a group is placed: its persistent bytes; with reservation also the
  /// largest temporary and outputs. Q4: without reservation only the persistent bytes.
  Bytes need(const Group& group) const;
  Bytes available(DeviceId d) const { return limits_[d] - used_[d]; }
  /// Whether `v` could start on `d` now, with the bytes reserved there for its group.
  bool fits(OpId v, DeviceId d) const {
    return need(v) <= available(d) + reserved_left(graph_.op(v).group, d);
  }

  /// Reserves need(group) on `d`.
  void reserve(GroupId g, const Group& group, DeviceId d);
  /// Starts `v` on `d`: charges outputs and temporary, then frees temporary.
  void start(OpId v, DeviceId d);
  /// The last reader of `u`, which ran on `d`, has started.
  void release_outputs(OpId u, DeviceId d);
  /// Counts a started op of the group on `d`; after the last one its reservation ends.
  void started(GroupId g, DeviceId d);

  const IdVector<DeviceId, Bytes>& used() const { return used_; }
  const IdVector<DeviceId, Bytes>& peak() const { return peak_; }

 private:
  struct Reservation {
    DeviceId device = no_device;  // none: nothing is reserved
    Bytes left{};
    Bytes whole{};
    std::size_t not_started = 0;
  };
  Bytes reserved_left(GroupId g, DeviceId d) const {
    return reserving_ && reservations_[g].device == d ? reservations_[g].left : Bytes{};
  }
  void allocate(Bytes size, OpId v, DeviceId d);
  void release(Bytes size, OpId v, DeviceId d);
  void allocate_raw(Bytes size, OpId v, DeviceId d);
  void release_raw(Bytes size, OpId v, DeviceId d);

  const Graph& graph_;
  const IdVector<DeviceId, Bytes>& limits_;
  bool reserving_;
  IdVector<DeviceId, Bytes> used_;
  IdVector<DeviceId, Bytes> peak_;
  IdVector<GroupId, Reservation> reservations_;  // empty unless reserving
};

}  // namespace baechi::original
