/// A cache of recently used values, each computed once.
#pragma once
#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

namespace baechi {

/// Keeps the 64 most recent values. Thread-safe: a thread that requests a value that another thread
/// is computing waits for it.
template <class T>
class RecentCache {
 public:
  /// The value of `key`. If it is not kept, calls `make` and returns its result as
  /// std::shared_ptr<const T>. If `make` throws, nothing is kept.
  std::shared_ptr<const T> of(std::uint64_t key, const auto& make) {
    const std::shared_ptr<Entry> entry = entry_of(key);
    std::call_once(entry->once, [&] { entry->value = make(); });
    return entry->value;
  }

 private:
  static constexpr std::size_t most = 64;
  struct Entry {
    explicit Entry(std::uint64_t k) : key(k) {}
    const std::uint64_t key;
    std::once_flag once;
    std::shared_ptr<const T> value;
  };

  std::shared_ptr<Entry> entry_of(std::uint64_t key) {
    const std::lock_guard lock(mutex_);
    const auto it = std::ranges::find(entries_, key, [](const auto& e) { return e->key; });
    if (it != entries_.end()) return *it;
    entries_.push_front(std::make_shared<Entry>(key));
    if (entries_.size() > most) entries_.pop_back();
    return entries_.front();
  }

  std::mutex mutex_;
  std::list<std::shared_ptr<Entry>> entries_;  // most recent first
};

}  // namespace baechi
