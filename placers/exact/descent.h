/// Local search on splits of bundles, by moves and swaps.
#pragma once

#include "placers/exact/bundles.h"
#include "sim/error.h"

namespace baechi::exact {

/// Devices are indexed in the order of the classes.
class Loads {
 public:
  using DeviceIndex = std::uint32_t;

  Loads(const Bundles& bundles, const std::vector<DeviceClass>& classes)
      : bundles_(bundles), classes_(classes), index_(bundles.size(), no_device) {
    for (std::uint32_t s = 0; s < classes.size(); ++s)
      for (const DeviceId d : classes[s].devices) devices_.push_back({.id = d, .cls = s});
    pins_.assign(bundles.nets().size() * devices_.size(), 0);
  }

  static constexpr DeviceIndex no_device = ~0U;
  DeviceIndex num_devices() const { return static_cast<DeviceIndex>(devices_.size()); }
  DeviceIndex of(BundleId b) const { return index_[b]; }
  DeviceIndex of(DeviceId d) const {
    return static_cast<DeviceIndex>(std::ranges::find(devices_, d, &OneDevice::id) -
                                    devices_.begin());
  }
  DeviceId device(DeviceIndex p) const { return devices_[p].id; }

  Duration load(DeviceIndex p) const {
    const OneDevice& d = devices_[p];
    return d.compute + (classes_[d.cls].core ? Duration{} : d.cut);
  }
  DeviceIndex busiest() const {
    DeviceIndex most = 0;
    for (DeviceIndex p = 1; p < num_devices(); ++p)
      if (load(p) > load(most)) most = p;
    return most;
  }
  bool can_run(BundleId b, DeviceIndex p) const {
    return bundles_.time(b, devices_[p].cls).has_value();
  }
  bool over(DeviceIndex p) const { return devices_[p].weights > classes_[devices_[p].cls].memory; }
  bool takes(BundleId b, DeviceIndex p) const {
    return can_run(b, p) &&
           devices_[p].weights + bundles_.weights(b) <= classes_[devices_[p].cls].memory;
  }

  void move(BundleId b, DeviceIndex to) {
    if (index_[b] != no_device) change<-1>(b, index_[b]);
    index_[b] = to;
    change<1>(b, to);
  }

 private:
  struct OneDevice {
    DeviceId id{};
    std::uint32_t cls = 0;
    Duration compute{}, cut{};
    Bytes weights{};
  };

  template <int sign>
  void change(BundleId b, DeviceIndex p) {
    OneDevice& d = devices_[p];
    const std::optional<Duration> time = bundles_.time(b, d.cls);
    BAECHI_CHECK(time.has_value(), "a bundle on a device that cannot run it");
    d.compute += sign * *time;
    d.weights += sign * bundles_.weights(b);
    for (const std::uint32_t n : bundles_.nets_of(b)) {
      const Bundles::Net& net = bundles_.nets()[n];
      std::uint32_t& pins = pins_[n * devices_.size() + p];
      const auto cut = [&] { return pins > 0 && pins < net.pins.size(); };
      if (cut()) d.cut -= net.time;
      pins += static_cast<std::uint32_t>(sign);
      if (cut()) d.cut += net.time;
    }
  }

  const Bundles& bundles_;
  const std::vector<DeviceClass>& classes_;
  IdVector<BundleId, DeviceIndex> index_;
  std::vector<OneDevice> devices_;
  std::vector<std::uint32_t> pins_;  // [nets, devices]
};

struct Split {
  Duration load{};
  IdVector<BundleId, DeviceId> device{};  ///< [num_bundles]
};

/// Places the bundles by decreasing weights, each on the device with the least load of those with
/// enough memory (ties: the first). Nothing if a bundle fits on no device.
std::optional<Split> first_fit(const Bundles& bundles, const std::vector<DeviceClass>& classes);

/// Local search from `start`, which must be feasible. While the busiest device can be relieved,
/// applies the move or swap of one of its bundles that minimises the larger load of the two
/// devices. Then makes a few random moves from the best split and repeats, max(20, 20 000 /
/// num_bundles) times. Never worse than `start`. Parts need not be contiguous.
Split descend(const Bundles& bundles, const std::vector<DeviceClass>& classes, Split start,
              std::uint64_t seed);

}  // namespace baechi::exact
