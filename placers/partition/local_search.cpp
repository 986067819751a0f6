#include <memory>

#include "placers/exact/loads.h"
#include "placers/interface/placer.h"
#include "placers/partition/partition.h"
#include "sim/options.h"
#include "sim/random.h"

namespace baechi::partition {
namespace {

/// The best of several descents of max_load: from random devices for all bundles, always applies
/// the move of one bundle between accelerators that gains most, until none gains. Source: Tarnawski
/// et al., NeurIPS 2020, the local search baseline. Ignores memory and contiguity. Differs: bundles
/// that no accelerator runs stay on a core.
class LocalSearch final : public Placer {
 public:
  explicit LocalSearch(Options& o)
      : restarts_(
            o.get("restarts", std::int64_t{10}, "descents, each from another random split", 1)) {}

  Placement place(const Problem& p, std::uint64_t seed) const override {
    const Partition partition(p);
    const exact::Bundles& bundles = partition.bundles();
    Random random(seed);
    exact::Loads loads(bundles, partition.classes());
    for (const exact::BundleId b : bundles.bundles())
      if (!partition.free(b)) loads.move(b, loads.of(partition.fixed(b)));
    std::optional<Duration> best;
    IdVector<exact::BundleId, DeviceId> device(bundles.size());
    for (std::int64_t restart = 0; restart < restarts_; ++restart) {
      draw(loads, partition, random);
      while (move_best(loads, partition)) {
      }
      const Duration load = loads.load(loads.busiest());
      if (best && load >= *best) continue;
      best = load;
      for (const exact::BundleId b : bundles.bundles()) device[b] = loads.device(loads.of(b));
    }
    Placement placement = partition.in_ops(device);
    placement.facts["max_load_us"] = best ? to_us(*best) : 0.0;
    return placement;
  }

 private:
  static void draw(exact::Loads& loads, const Partition& partition, Random& random) {
    const auto devices = partition.devices();
    for (const exact::BundleId b : partition.bundles().bundles())
      if (partition.free(b))
        loads.move(b, loads.of(devices[random.below(static_cast<std::uint32_t>(devices.size()))]));
  }

  /// False if no move gains. Only moves from or to the busiest device can gain. Ties: the lower
  /// bundle, then the device listed first.
  static bool move_best(exact::Loads& loads, const Partition& partition) {
    const exact::Loads::DeviceIndex busiest = loads.busiest();
    Duration least = loads.load(busiest);
    std::optional<std::pair<exact::BundleId, exact::Loads::DeviceIndex>> best;
    const auto consider = [&](exact::BundleId b, exact::Loads::DeviceIndex to) {
      const exact::Loads::DeviceIndex from = loads.of(b);
      if (from == to || !loads.can_run(b, to)) return;
      loads.move(b, to);
      const Duration load = loads.load(loads.busiest());
      if (load < least) {
        least = load;
        best = {b, to};
      }
      loads.move(b, from);
    };
    for (const exact::BundleId b : partition.bundles().bundles()) {
      if (!partition.free(b)) continue;
      if (loads.of(b) != busiest) {
        consider(b, busiest);
        continue;
      }
      for (const DeviceId d : partition.devices()) consider(b, loads.of(d));
    }
    if (best) loads.move(best->first, best->second);
    return best.has_value();
  }

  std::int64_t restarts_;
};

}  // namespace

}  // namespace baechi::partition

namespace baechi {

std::unique_ptr<Placer> make_local_search(Options& o) {
  return std::make_unique<partition::LocalSearch>(o);
}

}  // namespace baechi
