/// The memory of the devices as counted by m_topo: nothing is ever freed.
#pragma once
#include "placers/interface/colocation.h"
#include "placers/interface/variant.h"

namespace baechi {

/// The counted bytes depend on the variant:
/// - standard: the footprint of each unit; copies of tensors take no memory.
/// - pytorch: the weights and outputs of each unit, the largest workspace of an op on each device,
///   and copies. A tensor also takes memory on each other device that reads it, once per device, or
///   once per reader if problem.engine.cache_tensors is off.
class TopoMemory {
 public:
  /// `problem` and `units` must outlive this.
  TopoMemory(const Problem& problem, const ColocationUnits& units, Variant variant);

  /// The memory of all units, without copies.
  Bytes total() const { return total_; }
  /// The need() of the largest unit, workspace included.
  Bytes largest() const { return largest_; }
  Bytes need(UnitId u) const { return needs_[u].kept + needs_[u].workspace; }  ///< without copies

  /// Whether, with `u` on `d`, `d` stays within `room` and every other device within its memory.
  bool fits(UnitId u, DeviceId d, Bytes room) const;
  void put(UnitId u, DeviceId d);
  /// The bytes that `d` would hold with `u` on it.
  Bytes used_with(UnitId u, DeviceId d) const { return after(u, d)[d]; }

 private:
  struct Copy {
    TensorId tensor;
    DeviceId to;
    friend auto operator<=>(const Copy&, const Copy&) = default;
  };
  struct Unit {
    Bytes kept{};
    Bytes workspace{};
  };
  std::vector<Copy> new_copies(UnitId u, DeviceId d) const;
  IdVector<DeviceId, Bytes> after(UnitId u, DeviceId d) const;
  bool is_copied(const Copy& c) const {
    return copied_[index(c.tensor) * kept_.size() + index(c.to)];
  }

  const OpGraph& graph_;
  const ColocationUnits& units_;
  const bool copies_count_;
  const bool cached_;
  const IdVector<DeviceId, Bytes> limit_;
  IdVector<UnitId, Unit> needs_;
  Bytes total_;
  Bytes largest_;
  IdVector<OpId, DeviceId> device_;  // `no_device` until the op is placed
  IdVector<DeviceId, Bytes> kept_;
  IdVector<DeviceId, Bytes> workspace_;
  std::vector<bool> copied_;  // [num_tensors, num_devices]; empty if copies do not count
};

}  // namespace baechi
