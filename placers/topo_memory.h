/// The memory of devices as m_topo fills them: nothing is ever freed.
#pragma once
#include "placers/colocation.h"
#include "placers/variant.h"

namespace baechi {

/// Standard: a unit takes its footprint, and copies of tensors nothing. PyTorch variant: it takes
/// its weights and outputs, the workspace of one op at a time counts, and tensors that are read
/// elsewhere take memory there as well: once per device, or with problem.engine.cache_tensors off
/// once per reader.
class TopoMemory {
 public:
  /// Both outlive this.
  TopoMemory(const Problem& problem, const ColocationUnits& units, Variant variant);

  /// Of all units, copies left out, and of the largest, its workspace included.
  Bytes total() const { return total_; }
  Bytes largest() const { return largest_; }
  Bytes need(UnitId u) const { return needs_[u].kept + needs_[u].workspace; }  ///< without copies

  /// Whether `d` stays within `room` with `u` on it, and all others within their memory.
  bool fits(UnitId u, DeviceId d, Bytes room) const;
  void put(UnitId u, DeviceId d);
  /// What `d` would hold with `u` there.
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
  IdVector<OpId, DeviceId> device_;  // `nowhere` until it is placed
  IdVector<DeviceId, Bytes> kept_;
  IdVector<DeviceId, Bytes> workspace_;
  std::vector<bool> copied_;  // [num_tensors, num_devices], if copies count
};

}  // namespace baechi
