/// The load of each device of a split (sim/objective/max_load.h), updated while bundles move.
#pragma once
#include <algorithm>

#include "placers/exact/bundles.h"
#include "sim/error.h"

namespace baechi::exact {

/// Devices are indexed in the order of the classes.
class Loads {
 public:
  using Place = std::uint32_t;

  Loads(const Bundles& bundles, const std::vector<DeviceClass>& classes)
      : bundles_(bundles), classes_(classes), place_(bundles.size(), nowhere) {
    for (std::uint32_t s = 0; s < classes.size(); ++s)
      for (const DeviceId d : classes[s].devices) devices_.push_back({.id = d, .cls = s});
    pins_.assign(bundles.nets().size() * devices_.size(), 0);
  }

  static constexpr Place nowhere = ~0U;
  Place places() const { return static_cast<Place>(devices_.size()); }
  Place of(BundleId b) const { return place_[b]; }
  Place of(DeviceId d) const {
    return static_cast<Place>(std::ranges::find(devices_, d, &OneDevice::id) - devices_.begin());
  }
  DeviceId device(Place p) const { return devices_[p].id; }

  Duration load(Place p) const {
    const OneDevice& d = devices_[p];
    return d.compute + (classes_[d.cls].core ? Duration{} : d.cut);
  }
  Place busiest() const {
    Place most = 0;
    for (Place p = 1; p < places(); ++p)
      if (load(p) > load(most)) most = p;
    return most;
  }
  bool can_run(BundleId b, Place p) const { return bundles_.time(b, devices_[p].cls).has_value(); }
  bool over(Place p) const { return devices_[p].weights > classes_[devices_[p].cls].memory; }
  bool takes(BundleId b, Place p) const {
    return can_run(b, p) &&
           devices_[p].weights + bundles_.weights(b) <= classes_[devices_[p].cls].memory;
  }

  void move(BundleId b, Place to) {
    if (place_[b] != nowhere) change<-1>(b, place_[b]);
    place_[b] = to;
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
  void change(BundleId b, Place p) {
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
  IdVector<BundleId, Place> place_;
  std::vector<OneDevice> devices_;
  std::vector<std::uint32_t> pins_;  // [nets, devices]
};

}  // namespace baechi::exact
