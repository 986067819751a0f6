/// How a long computation shows its progress: to whom it says what it counts.
#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

namespace baechi {

/// Told of `total` pieces of work that are about to begin and of the counter of those that are
/// done. The object that it returns lives until the work has ended.
using Watch =
    std::function<std::shared_ptr<void>(const std::atomic<std::size_t>& done, std::size_t total)>;

/// `watch`'s object, or nothing where nobody watches.
inline std::shared_ptr<void> begin_watch(const Watch& watch, const std::atomic<std::size_t>& done,
                                         std::size_t total) {
  return watch ? watch(done, total) : nullptr;
}

}  // namespace baechi
