#include "placers/learned/walk.h"

namespace baechi::learned {

Walk::Walk(const Environment& environment) : environment_(&environment), schedule_(environment) {
  clear();
}

void Walk::clear() {
  schedule_.clear();
  devices_.assign(environment_->num_bundles(), DeviceId{0});
  decided_.assign(environment_->num_bundles(), false);
  stands_for_.assign(environment_->problem().cluster.num_devices(), PartialSchedule::nowhere);
}

DeviceId Walk::stands_for(DeviceId d) {
  if (!environment_->interchangeable()) return d;
  DeviceId& found = stands_for_[index(d)];
  if (found == PartialSchedule::nowhere)
    for (const DeviceId other : environment_->problem().cluster.devices())
      if (found == PartialSchedule::nowhere && schedule_.empty(other)) found = other;
  return found;
}

bool Walk::advance() {
  while (const std::optional<OpId> v = schedule_.next()) {
    bundle_ = environment_->bundle(*v);
    first_ = *v;
    if (!decided_[bundle_]) return true;
    schedule_.put(*v, devices_[bundle_]);
  }
  return false;
}

void Walk::choose(DeviceId d) {
  devices_[bundle_] = d;
  decided_[bundle_] = true;
  schedule_.assign(bundle_, d);
  schedule_.put(first_, d);
}

}  // namespace baechi::learned
