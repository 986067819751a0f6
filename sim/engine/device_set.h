/// A set of devices as a bit mask, walked in ascending order.
#pragma once
#include <bit>
#include <cstdint>
#include <vector>

#include "sim/ids.h"

namespace baechi {

class DeviceSet {
 public:
  explicit DeviceSet(std::size_t num_devices = 0) : words_((num_devices + 63) / 64, 0) {}

  void insert(DeviceId d) { words_[index(d) / 64] |= std::uint64_t{1} << (index(d) % 64); }
  void insert(const DeviceSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  void clear() {
    for (std::uint64_t& w : words_) w = 0;
  }
  /// Calls `visit` for each device, after taking it out; those inserted meanwhile are not promised
  /// to be visited.
  void drain(auto visit) {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (std::uint64_t w = std::exchange(words_[i], 0); w != 0; w &= w - 1)
        visit(static_cast<DeviceId>(i * 64 + static_cast<std::size_t>(std::countr_zero(w))));
    }
  }

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace baechi
