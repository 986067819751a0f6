/// A set of ids as a bit mask, iterated in ascending order.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/ids.h"

namespace baechi {

/// `small`: all ids are below 64.
template <class Id, bool small = false>
class IdSet {
 public:
  /// For ids below `size`.
  explicit IdSet(std::size_t size = 0) : wide_(size > 64), rest_(wide_ ? (size - 1) / 64 : 0, 0) {}

  bool empty() const {
    return first_ == 0 &&
           (!wide() || std::ranges::all_of(rest_, [](std::uint64_t w) { return w == 0; }));
  }
  void insert(Id d) {
    std::uint64_t& word = !wide() || index(d) < 64 ? first_ : rest_[index(d) / 64 - 1];
    word |= std::uint64_t{1} << (index(d) % 64);
  }
  void insert(const IdSet& other) {
    first_ |= other.first_;
    if (!wide()) return;
    for (std::size_t i = 0; i < rest_.size(); ++i) rest_[i] |= other.rest_[i];
  }
  void clear() {
    first_ = 0;
    if (wide()) std::ranges::fill(rest_, 0);
  }
  /// Removes each id and calls `visit` for it. Ids that `visit` inserts may or may not be visited.
  void drain(auto visit) {
    drain(first_, 0, visit);
    if (!wide()) return;
    for (std::size_t i = 0; i < rest_.size(); ++i) drain(rest_[i], 64 * (i + 1), visit);
  }

 private:
  bool wide() const { return !small && wide_; }

  static void drain(std::uint64_t& word, std::size_t base, auto& visit) {
    for (std::uint64_t w = std::exchange(word, 0); w != 0; w &= w - 1)
      visit(static_cast<Id>(base + static_cast<std::size_t>(std::countr_zero(w))));
  }

  std::uint64_t first_ = 0;  // ids below 64, without allocation
  bool wide_;
  std::vector<std::uint64_t> rest_;
};

using DeviceSet = IdSet<DeviceId>;

}  // namespace baechi
