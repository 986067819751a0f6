#include "placers/offload.h"

#include "placers/interface/colocation.h"
#include "placers/interface/wrapped_placer.h"

namespace baechi {
namespace {

/// Weights that wait together.
struct WaitingUnit {
  std::vector<OpId> ops;
  Bytes bytes{};
};

std::vector<WaitingUnit> waiting_units(const OpGraph& graph) {
  const ColocationUnits colocated(graph);
  std::map<std::string, std::size_t> numbers;
  std::vector<WaitingUnit> units;
  for (const OpId v : graph.ops()) {
    const Bytes held = graph.op(v).persistent - graph.cache(v);
    if (held == Bytes{} || graph.op(v).phase == Phase::backward) continue;
    const auto [found, made] =
        numbers.try_emplace(graph.module(v).empty() ? colocated.label(colocated.of(v), graph)
                                                    : std::string(graph.module(v)),
                            units.size());
    if (made) units.emplace_back();
    units[found->second].ops.push_back(v);
    units[found->second].bytes += held;
  }
  return units;
}

/// The step of one problem where some of its weights wait.
class Offloading {
 public:
  Offloading(const Problem& problem, const Placer& placer, std::uint64_t seed,
             const Watcher& watcher, std::int64_t prefetch)
      : problem_(problem),
        placer_(placer),
        seed_(seed),
        watcher_(watcher),
        prefetch_(prefetch),
        gpus_(problem.cluster.computing()),
        units_(waiting_units(problem.graph)) {
    for (const DeviceId d : problem.cluster.devices())
      if (index(d) >= gpus_.num_devices())
        (problem.cluster.device(d).kind == "disk" ? disks_ : hosts_).push_back(d);
    for (std::size_t u = 0; u < units_.size(); ++u) by_size_.push_back(u);
    std::ranges::stable_sort(by_size_, std::greater(),
                             [&](std::size_t u) { return units_[u].bytes; });
  }

  std::size_t size() const { return units_.size(); }
  /// `count` units: the largest, and of equal ones every m-th.
  std::vector<bool> largest(std::size_t count) const {
    std::vector<bool> waits(size());
    for (std::size_t begin = 0, end = 0; begin < size() && count > 0; begin = end) {
      while (end < size() && units_[by_size_[end]].bytes == units_[by_size_[begin]].bytes) ++end;
      const std::size_t equal = end - begin, taken = std::min(count, equal);
      for (std::size_t i = 0; i < taken; ++i)
        waits[by_size_[begin + (i + 1) * equal / taken - 1]] = true;
      count -= taken;
    }
    return waits;
  }

  /// The number of units below which all GPUs together are too small for the weights.
  std::size_t least() const {
    Bytes left, memory;
    for (const WaitingUnit& unit : units_) left += unit.bytes;
    for (const DeviceId d : gpus_.devices()) memory = saturated_sum(memory, gpus_.device(d).memory);
    std::size_t count = 0;
    for (; count < size() && left > memory; ++count) left = left - units_[by_size_[count]].bytes;
    return count;
  }

  /// The placer's placement where `count` units wait. Throws InfeasibleError.
  Placement place(std::size_t count) const {
    const std::vector<bool> waits = largest(count);
    IdVector<OpId, bool> light(problem_.graph.num_ops());
    Bytes copy;
    for (std::size_t u = 0; u < size(); ++u) {
      if (!waits[u]) continue;
      copy = std::max(copy, units_[u].bytes);
      for (const OpId v : units_[u].ops) light[v] = true;
    }
    const Bytes window{(prefetch_ + 1) * copy.count};
    Cluster tighter = gpus_;
    for (const DeviceId d : tighter.devices())
      tighter.set_memory(d, std::max(Bytes{}, gpus_.device(d).memory - window));
    const OpGraph graph = problem_.graph.without_weights(light);
    Watcher watcher = watcher_;
    watcher.step = nullptr;  // its step has the weights in place
    Placement placement =
        placer_.place_watched({graph, tighter, problem_.costs, problem_.engine}, seed_, watcher);
    return count == 0 ? placement : with_homes(std::move(placement), waits);
  }

  Placement with_homes(Placement placement, const std::vector<bool>& waits) const {
    placement.home = placement.device;
    placement.prefetch = prefetch_;
    Bytes left = hosts_.empty() ? Bytes{} : problem_.cluster.device(hosts_.front()).memory;
    if (!disks_.empty() && size() > 0)  // what comes from the disk is twice on the host: in and out
      left = left - Bytes{2 * (prefetch_ + 1) * units_[by_size_.front()].bytes.count};
    for (std::size_t u = 0; u < size(); ++u) {
      if (!waits[u]) continue;
      const bool on_host = units_[u].bytes <= left;
      if (on_host) left = left - units_[u].bytes;
      if (!on_host && disks_.empty()) throw InfeasibleError("the host is too small for weights");
      for (const OpId v : units_[u].ops)
        placement.home[v] =
            on_host ? hosts_[index(placement.device[v]) % hosts_.size()] : disks_.front();
    }
    return placement;
  }

  bool fits(const Placement& placement) const {
    return !watcher_.waiting->simulate(placement, problem_.engine.enforce_memory).oom;
  }

  /// The placement with `count` waiting units, if it fits; else `why` says why not.
  std::optional<Placement> tried(std::size_t count, std::string& why) const {
    try {
      Placement placement = place(count);
      if (fits(placement)) return placement;
      why = "the step runs out of memory";
    } catch (const InfeasibleError& error) {
      why = error.what();
    }
    return std::nullopt;
  }

  /// Takes weights back that need not wait, or exchanges them for smaller ones.
  void improve(Placement& placement, std::vector<bool>& waits) const {
    std::size_t tries = std::max<std::size_t>(16, 200'000 / problem_.graph.num_ops());
    const auto keep_if_fits = [&] {
      if (tries == 0) return false;
      --tries;
      Placement changed = with_homes(placement, waits);
      if (!fits(changed)) return false;
      placement = std::move(changed);
      return true;
    };
    for (const std::size_t u : by_size_) {
      if (!waits[u]) continue;
      waits[u] = false;
      bool changed = keep_if_fits();
      for (auto w = by_size_.rbegin(); !changed && w != by_size_.rend(); ++w) {
        if (units_[*w].bytes >= units_[u].bytes) break;
        if (waits[*w]) continue;
        waits[*w] = true;
        changed = keep_if_fits();
        if (!changed) waits[*w] = false;
      }
      if (!changed) waits[u] = true;
    }
  }

  Placement run() const {
    std::string why, last;
    if (auto all_stay = tried(0, why)) return *std::move(all_stay);
    std::size_t bad = 0, good = std::max<std::size_t>(least(), 1), further = 1;
    std::optional<Placement> found;
    while (!(found = tried(good = std::min(good, size()), last))) {
      if (good == size())
        throw InfeasibleError(fmt::format("{}; where all weights wait: {}", why, last));
      bad = std::exchange(good, good + further);
      further *= 2;
    }
    while (good - bad > 1 && good > least()) {
      const std::size_t middle = bad + (good - bad) / 2;
      if (auto fewer = tried(middle, last))
        found = std::move(fewer), good = middle;
      else
        bad = middle;
    }
    std::vector<bool> waits = largest(good);
    improve(*found, waits);
    Bytes sum;
    for (std::size_t u = 0; u < size(); ++u)
      if (waits[u]) sum += units_[u].bytes;
    found->detail = fmt::format("{} of weights wait on the host{}{}", to_text(sum),
                                found->detail.empty() ? "" : "; ", found->detail);
    found->facts["waiting_bytes"] = static_cast<double>(sum.count);
    return *std::move(found);
  }

  /// What a placer that sees hosts has placed there waits there.
  Placement homed(Placement placement) const {
    const auto stays = [&](DeviceId d) { return index(d) < gpus_.num_devices(); };
    const auto first = std::ranges::find_if(placement.device, stays);
    const DeviceId main = first == placement.device.end() ? DeviceId{0} : *first;
    placement.home = placement.device;
    placement.prefetch = prefetch_;
    for (const OpId v : placement.device.ids()) {
      if (stays(placement.device[v])) continue;
      placement.device[v] = main;
      if (std::ranges::find(hosts_, placement.home[v]) != hosts_.end())
        placement.home[v] = hosts_[index(main) % hosts_.size()];
    }
    return placement;
  }

 private:
  const Problem& problem_;
  const Placer& placer_;
  std::uint64_t seed_;
  const Watcher& watcher_;
  std::int64_t prefetch_;
  Cluster gpus_;
  std::vector<WaitingUnit> units_;    // in the order of their first ops
  std::vector<std::size_t> by_size_;  // units, the largest first
  std::vector<DeviceId> hosts_, disks_;
};

class WithOffload final : public WrappedPlacer {
 public:
  WithOffload(std::unique_ptr<Placer> placer, bool sees_homes, bool never, std::int64_t prefetch)
      : WrappedPlacer(std::move(placer)),
        sees_homes_(sees_homes),
        never_(never),
        prefetch_(prefetch) {}

  Placement place_watched(const Problem& p, std::uint64_t seed,
                          const Watcher& watcher) const override {
    if (p.cluster.num_computing() == p.cluster.num_devices())
      return placer_->place_watched(p, seed, watcher);
    const Offloading offloading(p, *placer_, seed, watcher, prefetch_);
    const bool can = !never_ && watcher.waiting != nullptr;
    if (can && sees_homes_) return offloading.homed(placer_->place_watched(p, seed, watcher));
    if (!can) return offloading.place(0);
    return offloading.run();
  }

 private:
  bool sees_homes_, never_;
  std::int64_t prefetch_;
};

}  // namespace

std::unique_ptr<Placer> with_offload(std::unique_ptr<Placer> placer, const PlacerEntry& entry,
                                     Options& options) {
  const bool never = options.get("offload", std::vector<std::string>{"when_full", "never"},
                                 "in a cluster with a host or disk: weights wait there if the "
                                 "devices that compute are too small, or never") == "never";
  const std::int64_t prefetch = options.get(
      "prefetch", std::int64_t{0}, "modules whose waiting weights are copied ahead", 0, 1024);
  return std::make_unique<WithOffload>(std::move(placer), entry.homes, never, prefetch);
}

}  // namespace baechi
