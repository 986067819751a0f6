/// A tournament tree over keys: finds the first index whose key is at most a limit.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace baechi::list {

/// set() and find() take logarithmic time in the number of keys.
class FirstAtMost {
 public:
  using Key = std::int64_t;
  static constexpr Key never = std::numeric_limits<Key>::max();  ///< no limit finds this key

  /// All keys are `never`.
  explicit FirstAtMost(std::size_t places)
      : first_leaf_(std::bit_ceil(std::max<std::size_t>(places, 1))),
        least_(2 * first_leaf_, never) {}

  void set(std::size_t place, Key key) {
    std::size_t i = first_leaf_ + place;
    least_[i] = key;
    while (i > 1) {
      i /= 2;
      const Key least = std::min(least_[2 * i], least_[2 * i + 1]);
      if (least_[i] == least) return;
      least_[i] = least;
    }
  }
  bool has(std::size_t place) const { return least_[first_leaf_ + place] != never; }
  Key least() const { return least_[1]; }
  /// The first place whose key is at most `limit`, which must be in least() .. `never` - 1.
  std::size_t find(Key limit) const {
    std::size_t i = 1;
    while (i < first_leaf_) i = 2 * i + (least_[2 * i] > limit ? 1 : 0);
    return i - first_leaf_;
  }

 private:
  std::size_t first_leaf_;
  std::vector<Key> least_;  // [2 first_leaf_], the least key of each subtree; [0] is unused
};

}  // namespace baechi::list
