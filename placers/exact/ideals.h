/// The ideals of a set of bundles: sets that contain all predecessors of their bundles. The first
/// devices of a pipeline together hold an ideal.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "placers/exact/bundles.h"

namespace baechi::exact {

enum class IdealId : std::uint32_t {};

/// Ideal 0 is empty, the last is everything. An ideal's id is above the ids of the ideals in it.
class Ideals {
 public:
  /// An ideal with one bundle less.
  struct Lower {
    BundleId bundle;  ///< the bundle removed: nothing of the ideal comes after it
    IdealId ideal;
  };

  /// All ideals; nothing if there are more than `most`.
  static std::optional<Ideals> enumerate(const BundleOrder& order, std::size_t most);
  /// Only the prefixes of `order`, a topological order of all bundles.
  static Ideals chain(std::span<const BundleId> order);

  std::size_t size() const { return begin_.size() - 1; }
  auto ideals() const { return id_range<IdealId>(0, size()); }
  IdealId all() const { return static_cast<IdealId>(size() - 1); }
  std::span<const Lower> lower(IdealId i) const {
    return {lower_.data() + begin_[index(i)], lower_.data() + begin_[index(i) + 1]};
  }

 private:
  Ideals() = default;
  std::vector<Lower> lower_;
  std::vector<std::uint32_t> begin_{0};  // [num_ideals + 1], into lower_
};

}  // namespace baechi::exact
