#include "placers/exact/lines.h"

#include <algorithm>
#include <iterator>

namespace baechi::exact {

std::vector<BlockId> depth_first(const Blocks& blocks, bool reversed) {
  std::vector<BlockId> order, stack;
  IdVector<BlockId, std::size_t> missing(blocks.size());
  const auto push = [&](auto first) {  // the last of what was pushed is the next to go
    const auto from = stack.begin() + first;
    std::sort(from, stack.end());
    if (!reversed) std::reverse(from, stack.end());
  };
  for (const BlockId b : blocks.blocks()) {
    missing[b] = blocks.before(b).size();
    if (missing[b] == 0) stack.push_back(b);
  }
  push(0);
  while (!stack.empty()) {
    const BlockId b = stack.back();
    stack.pop_back();
    order.push_back(b);
    const auto first = std::ssize(stack);
    for (const BlockId next : blocks.after(b))
      if (--missing[next] == 0) stack.push_back(next);
    push(first);
  }
  return order;
}

std::vector<BlockId> depth_last(const Blocks& blocks, bool reversed) {
  std::vector<BlockId> order, stack;
  IdVector<BlockId, std::size_t> missing(blocks.size());
  for (const BlockId b : blocks.blocks()) {
    missing[b] = blocks.after(b).size();
    if (missing[b] == 0) stack.push_back(b);
  }
  if (reversed) std::ranges::reverse(stack);
  while (!stack.empty()) {
    const BlockId b = stack.back();
    stack.pop_back();
    order.push_back(b);
    const auto before = blocks.before(b);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const BlockId next = before[reversed ? before.size() - 1 - i : i];
      if (--missing[next] == 0) stack.push_back(next);
    }
  }
  std::ranges::reverse(order);
  return order;
}

std::vector<BlockId> depth_first_as_added(const OpGraph& graph, const Blocks& blocks) {
  IdVector<BlockId, std::vector<std::pair<std::uint32_t, BlockId>>> after(blocks.size());
  IdVector<BlockId, std::size_t> missing(blocks.size());
  for (const EdgeId e : graph.edges()) {
    const BlockId a = blocks.of(graph.edge(e).src), b = blocks.of(graph.edge(e).dst);
    if (a == b) continue;
    after[a].emplace_back(graph.added(e), b);
    ++missing[b];
  }
  std::vector<BlockId> order, stack;
  for (const BlockId b : blocks.blocks()) {
    std::ranges::sort(after[b]);
    if (missing[b] == 0) stack.push_back(b);
  }
  while (!stack.empty()) {
    const BlockId b = stack.back();
    stack.pop_back();
    order.push_back(b);
    for (const auto& [position, next] : after[b])
      if (--missing[next] == 0) stack.push_back(next);
  }
  return order;
}

}  // namespace baechi::exact
