/// Which channels a transfer holds, and when, in each mode of EngineOptions::transfers; used by the
/// engine and by the list schedulers.
#pragma once
#include "sim/cluster/cost_model.h"
#include "sim/problem/engine_options.h"

namespace baechi {

class ChannelMap {
 public:
  ChannelMap(Transfers mode, std::size_t num_devices) : mode_(mode), num_devices_(num_devices) {}

  /// 0 in parallel mode.
  std::size_t num_channels() const {
    switch (mode_) {
      case Transfers::sequential:
        return num_devices_;
      case Transfers::duplex:
      case Transfers::staged:
        return 2 * num_devices_;
      case Transfers::shared:
        return 1;
      case Transfers::parallel:
        break;
    }
    return 0;
  }
  bool limited() const { return mode_ != Transfers::parallel; }
  /// Requires limited(): the channel on which `d` sends, and the one on which it receives.
  std::size_t sending(DeviceId d) const { return mode_ == Transfers::shared ? 0 : index(d); }
  std::size_t receiving(DeviceId d) const {
    if (mode_ == Transfers::shared) return 0;
    return mode_ == Transfers::sequential ? index(d) : num_devices_ + index(d);
  }
  /// Whether a transfer holds the sender's channel first and the receiver's afterwards.
  bool staged() const { return mode_ == Transfers::staged; }

 private:
  Transfers mode_;
  std::size_t num_devices_;
};

/// The three parts of a transfer in Transfers::staged.
struct Stages {
  Duration latency{}, out{}, in{};
};
inline Stages stages(const CostModel& costs, TensorId tensor, DeviceId src, DeviceId dst) {
  const Duration latency = costs.latency(tensor, src, dst);
  const Duration moving = costs.transfer(tensor, src, dst) - latency;
  return {.latency = latency, .out = moving / 2, .in = moving - moving / 2};
}

}  // namespace baechi
