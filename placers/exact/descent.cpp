#include "placers/exact/descent.h"

#include <iterator>

#include "sim/random.h"

namespace baechi::exact {
namespace {

/// The best relief of the busiest device: `bundle` moves to `to`, and `back`, if any, moves in
/// return.
struct Relief {
  Duration load{};  // of the busier of the two afterwards
  BundleId bundle{};
  Loads::DeviceIndex to = Loads::no_device;
  std::optional<BundleId> back{};
};

Relief best_relief(const Bundles& bundles, Loads& loads) {
  const Loads::DeviceIndex from = loads.busiest();
  Relief best{.load = loads.load(from)};
  const auto consider = [&](BundleId b, Loads::DeviceIndex to, std::optional<BundleId> back) {
    const Duration load = std::max(loads.load(from), loads.load(to));
    if (load < best.load && !loads.over(from) && !loads.over(to)) best = {load, b, to, back};
  };
  for (const BundleId b : bundles.bundles()) {
    if (loads.of(b) != from) continue;
    for (Loads::DeviceIndex to = 0; to < loads.num_devices(); ++to) {
      if (to == from || !loads.can_run(b, to)) continue;
      loads.move(b, to);
      consider(b, to, std::nullopt);
      for (const BundleId back : bundles.bundles()) {
        if (loads.of(back) != to || back == b || !loads.can_run(back, from)) continue;
        loads.move(back, from);
        consider(b, to, back);
        loads.move(back, to);
      }
    }
    loads.move(b, from);
  }
  return best;
}

void descend(const Bundles& bundles, Loads& loads) {
  while (true) {
    const Loads::DeviceIndex from = loads.busiest();
    const Relief relief = best_relief(bundles, loads);
    if (relief.to == Loads::no_device) return;
    loads.move(relief.bundle, relief.to);
    if (relief.back) loads.move(*relief.back, from);
  }
}

}  // namespace

std::optional<Split> first_fit(const Bundles& bundles, const std::vector<DeviceClass>& classes) {
  Loads loads(bundles, classes);
  std::vector<BundleId> order;
  std::ranges::copy(bundles.bundles(), std::back_inserter(order));
  std::ranges::stable_sort(order, std::greater{}, [&](BundleId b) { return bundles.weights(b); });
  for (const BundleId b : order) {
    Loads::DeviceIndex best = Loads::no_device;
    for (Loads::DeviceIndex p = 0; p < loads.num_devices(); ++p)
      if (loads.takes(b, p) && (best == Loads::no_device || loads.load(p) < loads.load(best)))
        best = p;
    if (best == Loads::no_device) return std::nullopt;
    loads.move(b, best);
  }
  Split split{.load = loads.load(loads.busiest())};
  for (const BundleId b : bundles.bundles()) split.device.push_back(loads.device(loads.of(b)));
  return split;
}

Split descend(const Bundles& bundles, const std::vector<DeviceClass>& classes, Split start,
              std::uint64_t seed) {
  if (bundles.size() == 0) return start;
  constexpr std::size_t total = 20'000, least = 20;
  constexpr int kick = 3;
  Random random(seed);
  Loads loads(bundles, classes);
  for (const BundleId b : bundles.bundles()) loads.move(b, loads.of(start.device[b]));
  Split best = std::move(start);
  best.load = loads.load(loads.busiest());
  for (std::size_t round = 0; round <= std::max(least, total / bundles.size()); ++round) {
    if (round > 0) {
      for (const BundleId b : bundles.bundles()) loads.move(b, loads.of(best.device[b]));
      for (int i = 0; i < kick; ++i) {
        const BundleId b{random.below(static_cast<std::uint32_t>(bundles.size()))};
        const Loads::DeviceIndex p = random.below(loads.num_devices());
        if (loads.of(b) != p && loads.takes(b, p)) loads.move(b, p);
      }
    }
    descend(bundles, loads);
    const Duration load = loads.load(loads.busiest());
    if (load >= best.load) continue;
    best.load = load;
    for (const BundleId b : bundles.bundles()) best.device[b] = loads.device(loads.of(b));
  }
  return best;
}

}  // namespace baechi::exact
