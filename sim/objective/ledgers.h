/// Incremental device_loads() and constraints(): a move takes time in proportion to the edges of
/// the moved op.
#pragma once
#include <span>

#include "sim/objective/max_load.h"
#include "sim/objective/objective.h"

namespace baechi {

class LoadLedger {
 public:
  explicit LoadLedger(const Problem& problem);

  void place(const Placement& placement);
  void move(OpId v, DeviceId from, DeviceId to);
  const IdVector<DeviceId, DeviceLoad>& loads() const { return loads_; }

 private:
  template <int sign>
  void change(OpId v, DeviceId d);
  template <int sign>
  void change_pin(TensorId t, DeviceId d);
  Duration& part(DeviceId d, Phase phase) {
    return phase == Phase::forward ? loads_[d].forward : loads_[d].backward;
  }

  Problem problem_;
  IdVector<TensorId, Duration> transfer_;
  std::vector<std::uint32_t> pins_;  // [num_tensors, num_devices]: number of producer and readers
  IdVector<DeviceId, DeviceLoad> loads_;
};

class ConstraintLedger {
 public:
  explicit ConstraintLedger(const Problem& problem);

  void place(const Placement& placement);
  void move(OpId v, DeviceId from, DeviceId to);
  Score score() const;  ///< all but value, deadlock and guide

 private:
  template <int sign>
  void change(OpId v, DeviceId d);

  Problem problem_;
  IdVector<DeviceId, Bytes> weights_;
  std::size_t misplaced_ = 0, split_groups_ = 0;
  std::vector<std::uint32_t> members_;      // [num_groups + 1, num_devices]
  IdVector<GroupId, std::uint32_t> homes_;  // devices with members; [num_groups + 1]
};

}  // namespace baechi
