/// A cluster: devices with a memory limit each, and a link for every ordered pair of devices.
#pragma once
#include <memory>
#include <string>

#include "sim/ids.h"
#include "sim/units.h"

namespace baechi {

struct Device {
  std::string name;
  std::string kind;    ///< picks the op times of a trace; "" for the first kind of the trace
  Bytes memory{};      ///< limit on the memory in use
  double speed = 1.0;  ///< relative to the device that the op times were measured on

  /// Whether the device is a core of the host, which reads host memory directly. All other devices
  /// are accelerators, which a bus connects to the host.
  bool is_core() const { return kind == "cpu"; }
};

/// One direction of the connection between two devices.
struct Link {
  Bandwidth bandwidth{};
  Duration latency{};
  friend bool operator==(const Link&, const Link&) = default;
};

class CollectiveModel;
std::shared_ptr<const CollectiveModel> ring_collectives();

class Cluster {
 public:
  Cluster() = default;
  /// A cluster of `devices` with the same `link` between every two.
  static Cluster uniform(IdVector<DeviceId, Device> devices, Link link);
  /// A cluster of `count` equal devices named gpu0, gpu1, ..., with `memory` each.
  static Cluster uniform(std::size_t count, Bytes memory, Link link);

  void set_link(DeviceId src, DeviceId dst, Link link) {  ///< only src to dst
    links_[index(src) * num_devices() + index(dst)] = link;
  }

  /// How long collectives take. The model of a new cluster is "ring" (sim/cluster/collectives.h).
  const CollectiveModel& collectives() const { return *collectives_; }
  void set_collectives(std::shared_ptr<const CollectiveModel> model) {
    collectives_ = std::move(model);
  }

  std::size_t num_devices() const { return devices_.size(); }
  auto devices() const { return devices_.ids(); }
  const Device& device(DeviceId d) const { return devices_[d]; }
  const Link& link(DeviceId src, DeviceId dst) const {
    return links_[index(src) * num_devices() + index(dst)];
  }

 private:
  IdVector<DeviceId, Device> devices_;
  /// [num_devices, num_devices], row = src. On the diagonal: to a replica of the device that is not
  /// simulated.
  std::vector<Link> links_;
  std::shared_ptr<const CollectiveModel> collectives_ = ring_collectives();
};

}  // namespace baechi
