/// A placer decides which device runs each op.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

#include "sim/problem/problem.h"

namespace baechi {

/// Someone who waits for a placement.
struct Watcher {
  const std::atomic<bool>* stop = nullptr;  ///< once set, the best placement so far will do
  /// Told now and then, in one line, how far things are; never from two threads at once. May be
  /// empty.
  std::function<void(std::string_view)> progress{};
};

class Placer {
 public:
  virtual ~Placer() = default;
  /// Every op gets a device; a colocation group gets one (but for `adjust: none`). Same problem and
  /// seed, same placement. Const and without shared state: may be called from several threads at
  /// once. Throws InfeasibleError if it finds no placement within the devices' memory.
  virtual Placement place(const Problem& problem, std::uint64_t seed) const = 0;

  /// The same, watched. Those that take long and have something at any time obey `stop`.
  virtual Placement place_watched(const Problem& problem, std::uint64_t seed,
                                  const Watcher& /*watcher*/) const {
    return place(problem, seed);
  }
  virtual bool can_stop() const { return false; }
};

}  // namespace baechi
