/// Which channels a transfer holds while it lasts, in each mode of EngineOptions::transfers. The
/// engine and the list schedulers share it.
#pragma once
#include <cstddef>
#include <optional>

#include "sim/cluster/engine_options.h"
#include "sim/ids.h"

namespace baechi {

class ChannelMap {
 public:
  ChannelMap(Transfers mode, std::size_t num_devices) : mode_(mode), num_devices_(num_devices) {}

  /// Channels are numbered from 0; there are none in parallel mode, where nothing is held.
  std::size_t num_channels() const {
    switch (mode_) {
      case Transfers::sequential:
        return num_devices_;
      case Transfers::duplex:
        return 2 * num_devices_;
      case Transfers::shared:
        return 1;
      case Transfers::parallel:
        break;
    }
    return 0;
  }
  bool limited() const { return mode_ != Transfers::parallel; }
  /// Of a limited mode: the channel `d` sends through, and the one it receives through.
  std::size_t sending(DeviceId d) const { return mode_ == Transfers::shared ? 0 : index(d); }
  std::size_t receiving(DeviceId d) const {
    if (mode_ == Transfers::shared) return 0;
    return mode_ == Transfers::duplex ? num_devices_ + index(d) : index(d);
  }

 private:
  Transfers mode_;
  std::size_t num_devices_;
};

}  // namespace baechi
