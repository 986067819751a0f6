#include "placers/exact/lines.h"

#include <algorithm>
#include <iterator>

namespace baechi::exact {

std::vector<BundleId> depth_first(const Bundles& bundles, bool reversed) {
  std::vector<BundleId> order, stack;
  IdVector<BundleId, std::size_t> missing(bundles.size());
  const auto push = [&](auto first) {  // the bundle pushed last is next
    const auto from = stack.begin() + first;
    std::sort(from, stack.end());
    if (!reversed) std::reverse(from, stack.end());
  };
  for (const BundleId b : bundles.bundles()) {
    missing[b] = bundles.before(b).size();
    if (missing[b] == 0) stack.push_back(b);
  }
  push(0);
  while (!stack.empty()) {
    const BundleId b = stack.back();
    stack.pop_back();
    order.push_back(b);
    const auto first = std::ssize(stack);
    for (const BundleId next : bundles.after(b))
      if (--missing[next] == 0) stack.push_back(next);
    push(first);
  }
  return order;
}

std::vector<BundleId> depth_last(const Bundles& bundles, bool reversed) {
  std::vector<BundleId> order, stack;
  IdVector<BundleId, std::size_t> missing(bundles.size());
  for (const BundleId b : bundles.bundles()) {
    missing[b] = bundles.after(b).size();
    if (missing[b] == 0) stack.push_back(b);
  }
  if (reversed) std::ranges::reverse(stack);
  while (!stack.empty()) {
    const BundleId b = stack.back();
    stack.pop_back();
    order.push_back(b);
    const auto before = bundles.before(b);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const BundleId next = before[reversed ? before.size() - 1 - i : i];
      if (--missing[next] == 0) stack.push_back(next);
    }
  }
  std::ranges::reverse(order);
  return order;
}

std::vector<BundleId> depth_first_as_added(const OpGraph& graph, const Bundles& bundles) {
  IdVector<BundleId, std::vector<std::pair<std::uint32_t, BundleId>>> after(bundles.size());
  IdVector<BundleId, std::size_t> missing(bundles.size());
  for (const EdgeId e : graph.edges()) {
    const BundleId a = bundles.of(graph.edge(e).src), b = bundles.of(graph.edge(e).dst);
    if (a == b) continue;
    after[a].emplace_back(graph.added(e), b);
    ++missing[b];
  }
  std::vector<BundleId> order, stack;
  for (const BundleId b : bundles.bundles()) {
    std::ranges::sort(after[b]);
    if (missing[b] == 0) stack.push_back(b);
  }
  while (!stack.empty()) {
    const BundleId b = stack.back();
    stack.pop_back();
    order.push_back(b);
    for (const auto& [position, next] : after[b])
      if (--missing[next] == 0) stack.push_back(next);
  }
  return order;
}

}  // namespace baechi::exact
