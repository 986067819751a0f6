#include "placers/learned/bundles.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/problem/mean_costs.h"

namespace baechi::learned {
namespace {

/// Units that are merged in rounds.
class Merger {
 public:
  Merger(const Problem& problem, const ColocationUnits& units)
      : problem_(problem),
        units_(units),
        count_(units.size()),
        root_(units.size()),
        time_(units.size(), Duration{}),
        weights_(units.size()),
        able_(units.size()) {
    std::iota(root_.begin(), root_.end(), 0U);
    const auto compute = mean_compute(problem);
    least_memory_ = Bytes{std::int64_t{1} << 62};
    for (const DeviceId d : problem.cluster.devices())
      least_memory_ = std::min(least_memory_, problem.cluster.device(d).memory);
    for (const UnitId u : units.units()) {
      weights_[index(u)] = units.needs(u).persistent;
      for (const OpId v : units.members(u)) time_[index(u)] += compute[v];
      all_ += time_[index(u)];
      for (const DeviceId d : problem.cluster.devices())
        able_[index(u)].push_back(std::ranges::all_of(
            units.members(u), [&](OpId v) { return problem.costs.compute(v, d) != cannot_run; }));
    }
    const auto transfer = mean_transfer(problem);
    for (const EdgeId e : problem.graph.edges()) {
      const Edge& edge = problem.graph.edge(e);
      joined_.push_back({transfer[edge.tensor], unit(edge.src), unit(edge.dst)});
    }
  }

  std::size_t count() const { return count_; }

  /// Whether anything was merged.
  bool round(Duration most_time) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, Duration> between;
    for (const Joined& j : joined_) {
      const std::uint32_t a = root(j.a), b = root(j.b);
      if (a != b) between[std::minmax(a, b)] += j.transfer;
    }
    std::vector<Joined> pairs;
    pairs.reserve(between.size());
    for (const auto& [ends, transfer] : between)
      pairs.push_back({transfer, ends.first, ends.second});
    std::ranges::stable_sort(pairs, std::greater{}, &Joined::transfer);
    std::vector<bool> taken(root_.size(), false);
    const std::size_t before = count_;
    for (const auto& [transfer, a, b] : pairs) {
      if (taken[a] || taken[b] || time_[a] + time_[b] > most_time || able_[a] != able_[b]) continue;
      if (weights_[a] + weights_[b] > 0.25 * least_memory_) continue;
      taken[a] = taken[b] = true;
      root_[b] = a;  // a < b
      time_[a] += time_[b];
      weights_[a] += weights_[b];
      --count_;
    }
    return count_ < before;
  }

  Duration share(std::size_t parts) const { return all_ / static_cast<std::int64_t>(parts); }

  IdVector<OpId, std::uint32_t> bundles() {
    constexpr std::uint32_t none = ~0U;
    std::vector<std::uint32_t> number(root_.size(), none);
    IdVector<OpId, std::uint32_t> of(problem_.graph.num_ops());
    std::uint32_t next = 0;
    for (const OpId v : problem_.graph.ops()) {
      std::uint32_t& known = number[root(unit(v))];
      if (known == none) known = next++;
      of[v] = known;
    }
    return of;
  }

 private:
  struct Joined {
    Duration transfer;
    std::uint32_t a, b;
  };

  std::uint32_t unit(OpId v) const { return static_cast<std::uint32_t>(index(units_.of(v))); }
  std::uint32_t root(std::uint32_t u) {
    while (root_[u] != u) u = root_[u] = root_[root_[u]];
    return u;
  }

  const Problem& problem_;
  const ColocationUnits& units_;
  std::size_t count_;
  std::vector<std::uint32_t> root_;
  std::vector<Duration> time_;
  std::vector<Bytes> weights_;
  std::vector<std::vector<bool>> able_;
  std::vector<Joined> joined_;
  Duration all_{};
  Bytes least_memory_{};
};

}  // namespace

IdVector<OpId, std::uint32_t> bundles_of(const Problem& problem, const ColocationUnits& units,
                                         std::size_t most) {
  Merger merger(problem, units);
  Duration limit = 2 * merger.share(most) + Duration{1};
  for (int widened = 0; merger.count() > most && widened < 8;) {
    if (merger.round(limit)) continue;
    limit *= 2;
    ++widened;
  }
  return merger.bundles();
}

}  // namespace baechi::learned
