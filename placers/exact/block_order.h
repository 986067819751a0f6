/// Which blocks come before which.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/ids.h"

namespace baechi::exact {

enum class BlockId : std::uint32_t {};

class BlockOrder {
 public:
  BlockOrder() = default;
  explicit BlockOrder(std::size_t blocks) : before_(blocks), after_(blocks) {}

  /// From pairs (a, b), sorted, each once: a comes directly before b.
  BlockOrder(std::size_t blocks, std::span<const std::pair<BlockId, BlockId>> pairs)
      : BlockOrder(blocks) {
    for (const auto& [a, b] : pairs) {
      after_[a].push_back(b);
      before_[b].push_back(a);
    }
  }

  std::size_t size() const { return before_.size(); }
  auto blocks() const { return before_.ids(); }
  std::span<const BlockId> before(BlockId b) const { return before_[b]; }  ///< directly; ascending
  std::span<const BlockId> after(BlockId b) const { return after_[b]; }

  /// The same blocks, the last first.
  BlockOrder reversed() const {
    BlockOrder order = *this;
    std::swap(order.before_, order.after_);
    return order;
  }

 private:
  IdVector<BlockId, std::vector<BlockId>> before_, after_;
};

}  // namespace baechi::exact
