#include "placers/sct/sct_star.h"

#include <algorithm>
#include <numeric>

namespace baechi {
namespace {

/// The least time of a star, and its proof.
struct LeastTime {
  long double after_top;  // ns, <= 0; relative to the longest path at x = 1
  std::size_t sharing =
      0;  // the number of longest paths whose edges share 1 - x; if 0, `single` holds
  std::uint32_t single = 0;  // this edge alone takes that long, even with x = 0
};

}  // namespace

// An edge whose path takes `until` at x = 1 needs 1 - x >= (until - w) / communication, and these
// sum to at most 1 over the star. So the least w is the largest of two bounds: until -
// communication over all edges; and, over the k longest paths, the w at which the k edges need 1
// together. In the second case x is determined; in the first, the remaining 1 - x goes to the
// heaviest edges.
std::optional<SctStar> solve_star(const SctReduction& reduction, const SctPart& part) {
  if (part.blocks.size() != 1) return std::nullopt;
  const SctNetwork& net = reduction.net();
  const SctComponent& block = reduction.blocks()[part.blocks.front()];
  if (block.last_op.size() != block.edge.size() + 1) return std::nullopt;
  const auto same = [&](auto end) {
    return std::ranges::all_of(
        part.edges, [&](std::uint32_t e) { return (net.*end)(e) == (net.*end)(part.edges[0]); });
  };
  SctStar star{.x = std::vector(part.edges.size(), 1.0),
               .flow = std::vector(block.edge.size(), 0.0),
               .out = same(&SctNetwork::src)};
  if (!star.out && !same(&SctNetwork::dst)) return std::nullopt;

  const std::vector<SctGraph::Edge>& edges = block.graph.edges;
  const auto until = [&](std::uint32_t i) {
    const auto& [u, v, c] = edges[i];
    return block.graph.compute[u] + c + block.graph.compute[v];
  };
  std::vector<std::uint32_t> longest(edges.size());
  std::iota(longest.begin(), longest.end(), 0U);
  std::ranges::stable_sort(longest, std::greater{}, until);
  const Duration top = until(longest.front());
  const auto ns = [](Duration t) { return static_cast<long double>(t.count()); };

  LeastTime least{.after_top = ns(until(longest[0]) - edges[longest[0]].communication - top),
                  .single = longest[0]};
  long double needed = 0.0, slope = 0.0;
  for (std::size_t k = 0; k < longest.size(); ++k) {
    const std::uint32_t i = longest[k];
    const Duration c = edges[i].communication;
    if (const long double alone = ns(until(i) - c - top); alone > least.after_top)
      least = {.after_top = alone, .single = i};
    if (c <= Duration::zero()) continue;
    needed += ns(until(i) - top) / ns(c);
    slope += 1.0L / ns(c);
    if (const long double shared = (needed - 1.0L) / slope; shared > least.after_top)
      least = {.after_top = shared, .sharing = k + 1};
  }

  const auto near = [&](std::uint32_t e) -> double& {  // 1 - x, until the end
    return star
        .x[static_cast<std::size_t>(std::ranges::lower_bound(part.edges, e) - part.edges.begin())];
  };
  std::ranges::fill(star.x, 0.0);
  long double left = 1.0;
  for (std::uint32_t i = 0; i < edges.size(); ++i) {
    const long double over = ns(until(i) - top) - least.after_top;
    if (over <= 0.0) continue;
    const long double share = std::min(1.0L, over / ns(edges[i].communication));
    left -= share;
    near(block.edge[i]) = static_cast<double>(share);
  }
  if (least.sharing > 0) {
    slope = 0.0;
    for (std::size_t k = 0; k < least.sharing; ++k)
      if (const Duration c = edges[longest[k]].communication; c > Duration::zero())
        slope += star.flow[longest[k]] = static_cast<double>(1.0L / ns(c));
    for (double& f : star.flow) f /= static_cast<double>(slope);
    star.price = static_cast<double>(1.0L / slope);
  } else {
    star.flow[least.single] = 1.0;
    star.price = static_cast<double>(edges[least.single].communication.count());
    std::vector<std::uint32_t> heaviest = part.edges;
    std::ranges::stable_sort(heaviest, std::greater{},
                             [&](std::uint32_t e) { return reduction.weight(e); });
    for (const std::uint32_t e : heaviest) {
      if (left <= 0.0) break;
      const long double more = std::min(left, 1.0L - near(e));
      near(e) += static_cast<double>(more);
      left -= more;
    }
  }
  for (double& x : star.x) x = 1.0 - x;
  return star;
}

}  // namespace baechi
