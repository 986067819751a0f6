#include "scenarios/studies/serving/packrat.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace baechi::serving {
namespace {

/// Values by threads and batch.
template <class T>
class ByShare {
 public:
  ByShare(std::int64_t threads, std::int64_t batch, T value)
      : batches_(batch + 1), values_(static_cast<std::size_t>((threads + 1) * batches_), value) {}
  T& at(std::int64_t threads, std::int64_t batch) {
    return values_[static_cast<std::size_t>(threads * batches_ + batch)];
  }

 private:
  std::int64_t batches_;
  std::vector<T> values_;
};

/// opt[t][b] = least over entries of join(opt[t - t'][b - b'], entry); opt[.][0] = `none`.
template <class T>
ByShare<T> fill(const LatencyTable& table, std::int64_t threads, std::int64_t batch, T none,
                T never, const std::function<T(T, Duration)>& join) {
  ByShare<T> opt(threads, batch, never);
  for (std::int64_t t = 0; t <= threads; ++t) {
    opt.at(t, 0) = none;
    for (std::int64_t b = 1; b <= batch; ++b)
      for (const auto& [share, latency] : table) {
        if (share.first > t || share.second > b) continue;
        const T rest = opt.at(t - share.first, b - share.second);
        if (rest != never) opt.at(t, b) = std::min(opt.at(t, b), join(rest, latency));
      }
  }
  return opt;
}

/// The instances of a best configuration: the slowest first, then those of the rest, which is
/// optimal, too. `opt`: as of fill().
ServingPlan plan_of_table(const LatencyTable& table, ByShare<Duration>& opt, std::int64_t threads,
                          std::int64_t batch) {
  ServingPlan plan{.latency = opt.at(threads, batch), .instances = {}};
  while (batch > 0) {
    std::optional<std::pair<std::int64_t, std::int64_t>> slowest;
    Duration least = Duration::max();
    for (auto entry = table.rbegin(); entry != table.rend(); ++entry) {  // most threads first
      const auto [t, b] = entry->first;
      if (entry->second != opt.at(threads, batch) || t > threads || b > batch) continue;
      const Duration rest = opt.at(threads - t, batch - b);
      if (rest >= least) continue;
      least = rest;
      slowest = entry->first;
    }
    const auto [t, b] = *slowest;
    const auto same = std::ranges::find_if(plan.instances, [&](const ServingPlan::Instances& i) {
      return i.threads == t && i.batch == b;
    });
    if (same != plan.instances.end())
      ++same->count;
    else
      plan.instances.push_back({1, t, b});
    threads -= t;
    batch -= b;
  }
  return plan;
}

}  // namespace

std::int64_t ServingPlan::count() const {
  std::int64_t sum = 0;
  for (const Instances& i : instances) sum += i.count;
  return sum;
}

std::optional<ServingPlan> best_serving(const LatencyTable& table, std::int64_t threads,
                                        std::int64_t batch, double interference) {
  auto opt = fill<Duration>(table, threads, batch, Duration{}, Duration::max(),
                            [](Duration a, Duration b) { return std::max(a, b); });
  std::optional<ServingPlan> best;
  if (opt.at(threads, batch) != Duration::max()) {
    best = plan_of_table(table, opt, threads, batch);
    if (best->count() > 1)
      best->latency =
          Duration{std::llround(static_cast<double>(best->latency.count()) * interference)};
  }
  for (std::int64_t t = threads; t > 0 && interference > 1.0; --t) {  // or a single instance
    const auto alone = table.find({t, batch});
    if (alone != table.end() && alone->second < best->latency)
      best = ServingPlan{.latency = alone->second, .instances = {{1, t, batch}}};
  }
  return best;
}

}  // namespace baechi::serving
