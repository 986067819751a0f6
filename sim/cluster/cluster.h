/// What a graph runs on: devices with a memory limit, and a link between every two.
#pragma once
#include <string>

#include "sim/ids.h"
#include "sim/units.h"

namespace baechi {

struct Device {
  std::string name;
  std::string kind;  ///< which of a trace's times apply; "" for the trace's first
  Bytes memory{};
  double speed = 1.0;  ///< relative to the device the op times were measured on

  /// A core of the host, beside its memory; all other devices are accelerators, reached over a bus.
  bool is_core() const { return kind == "cpu"; }
};

struct Link {
  Bandwidth bandwidth{};
  Duration latency{};
  friend bool operator==(const Link&, const Link&) = default;
};

class Cluster {
 public:
  Cluster() = default;
  /// `devices` all joined to each other by the same `link`.
  static Cluster uniform(IdVector<DeviceId, Device> devices, Link link);
  /// `count` equal devices named gpu0, gpu1, ...
  static Cluster uniform(std::size_t count, Bytes memory, Link link);

  void set_link(DeviceId src, DeviceId dst, Link link) {  ///< one direction
    links_[index(src) * num_devices() + index(dst)] = link;
  }

  std::size_t num_devices() const { return devices_.size(); }
  auto devices() const { return devices_.ids(); }
  const Device& device(DeviceId d) const { return devices_[d]; }
  const Link& link(DeviceId src, DeviceId dst) const {
    return links_[index(src) * num_devices() + index(dst)];
  }

 private:
  IdVector<DeviceId, Device> devices_;
  std::vector<Link> links_;  // [num_devices, num_devices], row = src
};

}  // namespace baechi
