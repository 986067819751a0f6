#include "placers/learned/walk.h"

namespace baechi::learned {

Walk::Walk(const Environment& environment) : environment_(&environment), plan_(environment) {
  clear();
}

void Walk::clear() {
  plan_.clear();
  devices_.assign(environment_->num_blocks(), DeviceId{0});
  decided_.assign(environment_->num_blocks(), false);
  stands_for_.assign(environment_->problem().cluster.num_devices(), Plan::nowhere);
}

DeviceId Walk::stands_for(DeviceId d) {
  if (!environment_->interchangeable()) return d;
  DeviceId& found = stands_for_[index(d)];
  if (found == Plan::nowhere)
    for (const DeviceId other : environment_->problem().cluster.devices())
      if (found == Plan::nowhere && plan_.empty(other)) found = other;
  return found;
}

bool Walk::advance() {
  while (const std::optional<OpId> v = plan_.next()) {
    block_ = environment_->block(*v);
    first_ = *v;
    if (!decided_[block_]) return true;
    plan_.put(*v, devices_[block_]);
  }
  return false;
}

void Walk::choose(DeviceId d) {
  devices_[block_] = d;
  decided_[block_] = true;
  plan_.assign(block_, d);
  plan_.put(first_, d);
}

}  // namespace baechi::learned
