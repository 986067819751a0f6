/// What learning on one graph came to.
#pragma once
#include <atomic>
#include <span>
#include <vector>

#include "placers/learned/environment.h"

namespace baechi::learned {

/// `stop`: as Watcher::stop, or null.
inline bool stopped(const std::atomic<bool>* stop) {
  return stop != nullptr && stop->load(std::memory_order_relaxed);
}

/// A sample better than all before it.
struct Improvement {
  std::size_t evaluation = 0;  ///< from 1 on
  double value = 0.0;
};
/// The evaluations after which the best was within 1 % of the last of `improvements`; 0: none.
std::size_t settled_after(std::span<const Improvement> improvements);

/// What was found, and after how many evaluations.
struct Found {
  BundleDevices devices{};  ///< the best; empty if nothing was evaluated
  Score score{};
  std::size_t evaluations = 0;
  std::size_t settled = 0;  ///< settled_after() of the samples
  double first = 0.0;       ///< mean value / reference of the first tenth of samples
  double last = 0.0;        ///< of the last
};

/// Sees each sample in turn and keeps the best; ties: the first.
class Keeper {
 public:
  explicit Keeper(const Environment& environment) : environment_(environment) {}  ///< outlives this

  void take(const BundleDevices& devices, const Score& score);
  std::size_t evaluations() const { return found_.evaluations; }
  /// Whether there were so many evaluations, or, with one at least, `stop` says so.
  bool over(std::size_t evaluations, const std::atomic<bool>* stop) const {
    return found_.evaluations >= evaluations || (found_.evaluations > 0 && stopped(stop));
  }
  Found found() const;

 private:
  const Environment& environment_;
  Found found_;
  std::vector<double> values_;
  std::vector<Improvement> improvements_;
};

}  // namespace baechi::learned
