/// The interface of all placers: a placer decides which device runs each op.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

#include "sim/problem/problem.h"

namespace baechi {

/// How a caller that waits for a placement follows and stops the placer.
struct Watcher {
  const std::atomic<bool>* stop = nullptr;  ///< once true: return the best placement so far
  /// Called now and then with one line on the progress; never from two threads at once. May be
  /// empty.
  std::function<void(std::string_view)> progress{};
};

class Placer {
 public:
  virtual ~Placer() = default;
  /// Gives every op a device; all members of a colocation group get the same device, except with
  /// `adjust: none`. The same problem and seed give the same placement. May be called from several
  /// threads at once: const, and without shared state. Throws InfeasibleError if the placer finds
  /// no placement within the devices' memory.
  virtual Placement place(const Problem& problem, std::uint64_t seed) const = 0;

  /// As place(), with a watcher. Placers with can_stop() obey `stop`: they take long and have a
  /// placement to return at any time.
  virtual Placement place_watched(const Problem& problem, std::uint64_t seed,
                                  const Watcher& /*watcher*/) const {
    return place(problem, seed);
  }
  /// Whether place() looks for any placement that fits where its own way finds none. Then its
  /// caller may do so, too, where more runs than the placer saw.
  virtual bool falls_back() const { return false; }
  /// Whether place_watched() obeys Watcher::stop.
  virtual bool can_stop() const { return false; }
};

}  // namespace baechi
