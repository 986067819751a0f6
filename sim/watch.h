/// Progress reporting of long computations.
#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

namespace baechi {

/// Called before work begins with the number of work items and the counter of those done. The
/// returned object lives until the work has ended.
using Watch =
    std::function<std::shared_ptr<void>(const std::atomic<std::size_t>& done, std::size_t total)>;

/// The result of `watch`; null if there is none.
inline std::shared_ptr<void> begin_watch(const Watch& watch, const std::atomic<std::size_t>& done,
                                         std::size_t total) {
  return watch ? watch(done, total) : nullptr;
}

}  // namespace baechi
