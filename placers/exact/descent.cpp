#include "placers/exact/descent.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "sim/random.h"

namespace baechi {
namespace {

/// What each device has to do, kept up to date. Devices are numbered through the sorts.
class Loads {
 public:
  using Place = std::uint32_t;

  Loads(const Blocks& blocks, const std::vector<DeviceSort>& sorts)
      : blocks_(blocks), sorts_(sorts), place_(blocks.size(), nowhere) {
    for (std::uint32_t s = 0; s < sorts.size(); ++s)
      for (const DeviceId d : sorts[s].devices) devices_.push_back({.id = d, .sort = s});
    pins_.assign(blocks.nets().size() * devices_.size(), 0);
  }

  static constexpr Place nowhere = ~0U;
  Place places() const { return static_cast<Place>(devices_.size()); }
  Place of(BlockId b) const { return place_[b]; }
  Place of(DeviceId d) const {
    return static_cast<Place>(std::ranges::find(devices_, d, &OneDevice::id) - devices_.begin());
  }
  DeviceId device(Place p) const { return devices_[p].id; }

  Duration load(Place p) const {
    const OneDevice& d = devices_[p];
    return d.compute + (sorts_[d.sort].core ? Duration{} : d.cut);
  }
  Place busiest() const {
    Place most = 0;
    for (Place p = 1; p < places(); ++p)
      if (load(p) > load(most)) most = p;
    return most;
  }
  bool can_run(BlockId b, Place p) const { return blocks_.time(b, devices_[p].sort).has_value(); }
  bool over(Place p) const { return devices_[p].weights > sorts_[devices_[p].sort].memory; }
  bool takes(BlockId b, Place p) const {
    return can_run(b, p) &&
           devices_[p].weights + blocks_.weights(b) <= sorts_[devices_[p].sort].memory;
  }

  void move(BlockId b, Place to) {
    if (place_[b] != nowhere) change<-1>(b, place_[b]);
    place_[b] = to;
    change<1>(b, to);
  }

 private:
  struct OneDevice {
    DeviceId id{};
    std::uint32_t sort = 0;
    Duration compute{}, cut{};
    Bytes weights{};
  };

  template <int sign>
  void change(BlockId b, Place p) {
    OneDevice& d = devices_[p];
    d.compute += sign * *blocks_.time(b, d.sort);
    d.weights += sign * blocks_.weights(b);
    for (const std::uint32_t n : blocks_.nets_of(b)) {
      const Blocks::Net& net = blocks_.nets()[n];
      std::uint32_t& pins = pins_[n * devices_.size() + p];
      const auto cut = [&] { return pins > 0 && pins < net.pins.size(); };
      if (cut()) d.cut -= net.time;
      pins += static_cast<std::uint32_t>(sign);
      if (cut()) d.cut += net.time;
    }
  }

  const Blocks& blocks_;
  const std::vector<DeviceSort>& sorts_;
  IdVector<BlockId, Place> place_;
  std::vector<OneDevice> devices_;
  std::vector<std::uint32_t> pins_;  // [nets, devices]
};

/// The best way to relieve the busiest device: `block` goes to `to`, `back`, if any, the other way.
struct Relief {
  Duration load{};  // of the busier of the two afterwards
  BlockId block{};
  Loads::Place to = Loads::nowhere;
  std::optional<BlockId> back{};
};

Relief best_relief(const Blocks& blocks, Loads& loads) {
  const Loads::Place from = loads.busiest();
  Relief best{.load = loads.load(from)};
  const auto consider = [&](BlockId b, Loads::Place to, std::optional<BlockId> back) {
    const Duration load = std::max(loads.load(from), loads.load(to));
    if (load < best.load && !loads.over(from) && !loads.over(to)) best = {load, b, to, back};
  };
  for (const BlockId b : blocks.blocks()) {
    if (loads.of(b) != from) continue;
    for (Loads::Place to = 0; to < loads.places(); ++to) {
      if (to == from || !loads.can_run(b, to)) continue;
      loads.move(b, to);
      consider(b, to, std::nullopt);
      for (const BlockId back : blocks.blocks()) {
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

void descend(const Blocks& blocks, Loads& loads) {
  while (true) {
    const Loads::Place from = loads.busiest();
    const Relief relief = best_relief(blocks, loads);
    if (relief.to == Loads::nowhere) return;
    loads.move(relief.block, relief.to);
    if (relief.back) loads.move(*relief.back, from);
  }
}

}  // namespace

std::optional<Split> first_fit(const Blocks& blocks, const std::vector<DeviceSort>& sorts) {
  Loads loads(blocks, sorts);
  std::vector<BlockId> order;
  std::ranges::copy(blocks.blocks(), std::back_inserter(order));
  std::ranges::stable_sort(order, std::greater{}, [&](BlockId b) { return blocks.weights(b); });
  for (const BlockId b : order) {
    Loads::Place best = Loads::nowhere;
    for (Loads::Place p = 0; p < loads.places(); ++p)
      if (loads.takes(b, p) && (best == Loads::nowhere || loads.load(p) < loads.load(best)))
        best = p;
    if (best == Loads::nowhere) return std::nullopt;
    loads.move(b, best);
  }
  Split split{.load = loads.load(loads.busiest())};
  for (const BlockId b : blocks.blocks()) split.device.push_back(loads.device(loads.of(b)));
  return split;
}

Split descend(const Blocks& blocks, const std::vector<DeviceSort>& sorts, Split start,
              std::uint64_t seed) {
  if (blocks.size() == 0) return start;
  constexpr std::size_t total = 20'000, least = 20;
  constexpr int kick = 3;
  Random random(seed);
  Loads loads(blocks, sorts);
  for (const BlockId b : blocks.blocks()) loads.move(b, loads.of(start.device[b]));
  Split best = std::move(start);
  for (std::size_t round = 0; round <= std::max(least, total / blocks.size()); ++round) {
    if (round > 0) {
      for (const BlockId b : blocks.blocks()) loads.move(b, loads.of(best.device[b]));
      for (int i = 0; i < kick; ++i) {
        const BlockId b{random.below(static_cast<std::uint32_t>(blocks.size()))};
        const Loads::Place p = random.below(loads.places());
        if (loads.of(b) != p && loads.takes(b, p)) loads.move(b, p);
      }
    }
    descend(blocks, loads);
    const Duration load = loads.load(loads.busiest());
    if (load >= best.load) continue;
    best.load = load;
    for (const BlockId b : blocks.blocks()) best.device[b] = loads.device(loads.of(b));
  }
  return best;
}

}  // namespace baechi
