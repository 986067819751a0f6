#include "placers/learned/found.h"

#include <algorithm>
#include <numeric>

namespace baechi::learned {

std::size_t settled_after(std::span<const Improvement> improvements) {
  for (const Improvement& i : improvements)
    if (i.value <= 1.01 * improvements.back().value) return i.evaluation;
  return 0;
}

void Keeper::take(const BundleDevices& devices, const Score& score) {
  ++found_.evaluations;
  values_.push_back(environment_.value(score));
  if (!found_.devices.empty() && !(score < found_.score)) return;
  found_.devices = devices;
  found_.score = score;
  improvements_.push_back({found_.evaluations, values_.back()});
}

Found Keeper::found() const {
  Found all = found_;
  if (values_.empty()) return all;
  const std::size_t tenth = std::max<std::size_t>(values_.size() / 10, 1);
  const auto mean = [&](auto begin) {
    return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(tenth), 0.0) /
           static_cast<double>(tenth) / environment_.reference();
  };
  all.first = mean(values_.begin());
  all.last = mean(values_.end() - static_cast<std::ptrdiff_t>(tenth));
  all.settled = settled_after(improvements_);
  return all;
}

}  // namespace baechi::learned
