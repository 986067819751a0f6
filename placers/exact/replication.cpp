#include "placers/exact/replication.h"

#include <algorithm>

namespace baechi::exact {

Replication Replication::of(const Problem& problem, const std::vector<DeviceClass>& classes,
                            std::int64_t micro_batches) {
  Replication all{.allowed = true, .micro_batches = micro_batches};
  const bool training = std::ranges::any_of(
      problem.graph.ops(), [&](OpId v) { return problem.graph.op(v).phase != Phase::forward; });
  for (const DeviceClass& cls : classes) {
    double sum = 0.0, pairs = 0.0;
    for (const DeviceId a : cls.devices) {
      for (const DeviceId b : cls.devices) {
        if (a == b) continue;
        sum += 1e9 / problem.cluster.link(a, b).bandwidth.bytes_per_second;
        pairs += 1.0;
      }
    }
    all.ns_per_byte.push_back(training && pairs > 0.0 ? sum / pairs : 0.0);
  }
  return all;
}

bool Replication::allows(const DeviceClass& cls, std::int64_t replicas) const {
  if (replicas == 1) return true;
  return allowed && !cls.core && (micro_batches == 0 || micro_batches % replicas == 0);
}

double Replication::exchange(std::size_t cls, std::int64_t replicas) const {
  if (replicas == 1) return 0.0;
  const auto r = static_cast<double>(replicas);
  const double samples = micro_batches == 0 ? r : static_cast<double>(micro_batches);
  return 4.0 * (r - 1.0) / (r * samples) * ns_per_byte[cls];
}

}  // namespace baechi::exact
