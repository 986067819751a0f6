/// A placement that is being made, bundle after bundle.
#pragma once
#include <span>
#include <vector>

#include "placers/learned/partial_schedule.h"

namespace baechi::learned {

/// Goes through the ops in the order of a PartialSchedule and stops at each bundle that has no
/// device yet. A copy goes on from where it is.
class Walk {
 public:
  explicit Walk(const Environment& environment);  ///< outlives this

  void clear();
  /// Puts ops until one belongs to a bundle without a device. False: all bundles have one.
  bool advance();
  std::size_t bundle() const { return bundle_; }  ///< the one that waits
  /// Devices that it may go to, as PartialSchedule::choices().
  std::span<const DeviceId> choices(DeviceId also = PartialSchedule::nowhere) {
    return schedule_.choices(bundle_, also);
  }
  /// The device that stands for `d` of a placement that this walk follows. Where devices are
  /// interchangeable, each stands for the first that was still empty when it was met.
  DeviceId stands_for(DeviceId d);
  /// What is known of each of `devices`, as PartialSchedule::features().
  std::span<const double> features(std::span<const DeviceId> devices) {
    return schedule_.features(bundle_, first_, devices);
  }
  void choose(DeviceId d);
  const BundleDevices& devices() const { return devices_; }

 private:
  const Environment* environment_;
  PartialSchedule schedule_;
  BundleDevices devices_;
  std::vector<bool> decided_;
  std::vector<DeviceId> stands_for_;
  std::size_t bundle_ = 0;
  OpId first_{};  // of the bundle that waits
};

}  // namespace baechi::learned
