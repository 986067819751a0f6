/// The precedence relation of bundles.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/ids.h"

namespace baechi::exact {

enum class BundleId : std::uint32_t {};

class BundleOrder {
 public:
  BundleOrder() = default;
  explicit BundleOrder(std::size_t bundles) : before_(bundles), after_(bundles) {}

  /// From sorted, distinct pairs (a, b): a comes directly before b.
  BundleOrder(std::size_t bundles, std::span<const std::pair<BundleId, BundleId>> pairs)
      : BundleOrder(bundles) {
    for (const auto& [a, b] : pairs) {
      after_[a].push_back(b);
      before_[b].push_back(a);
    }
  }

  std::size_t size() const { return before_.size(); }
  auto bundles() const { return before_.ids(); }
  /// The direct predecessors, ascending.
  std::span<const BundleId> before(BundleId b) const { return before_[b]; }
  std::span<const BundleId> after(BundleId b) const { return after_[b]; }

  /// The reversed order.
  BundleOrder reversed() const {
    BundleOrder order = *this;
    std::swap(order.before_, order.after_);
    return order;
  }

 private:
  IdVector<BundleId, std::vector<BundleId>> before_, after_;
};

}  // namespace baechi::exact
