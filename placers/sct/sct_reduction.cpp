#include "placers/sct/sct_reduction.h"

#include <numeric>

namespace baechi {
namespace {

// Relative tolerance: a sum that is below a bound by less than this counts as equal, because sums
// are rounded.
constexpr double rounding = 1e-12;

struct CompetingEdge {
  double until;          // longest path that ends (begins) with the edge, if x = 1
  double communication;  // reduction of `until` if x = 0
};

/// The least time within which all competing edges can stay, if 1 - x sums to 1 over them.
double shared_bound(std::vector<CompetingEdge>& competing) {
  std::ranges::sort(competing, std::greater{}, &CompetingEdge::until);
  double least = 0.0, saved = 0.0, slope = 0.0;
  for (const auto& [until, c] : competing) {
    if (c <= 0.0) {
      least = std::max(least, until);
      continue;
    }
    least = std::max(least, until - c);
    saved += until / c;
    slope += 1.0 / c;
    least = std::max(least, (saved - 1.0) / slope);
  }
  return least;
}

constexpr std::uint32_t nothing = ~std::uint32_t{0};

/// The part of `block` whose nodes are set in `node` and whose edges are set in `edge`; `last`
/// stays as in `block`.
SctComponent restricted(const SctComponent& block, const std::vector<bool>& node,
                        const std::vector<bool>& edge) {
  SctComponent kept{.graph = {}, .edge = {}, .last_op = {}, .last = block.last};
  std::vector<std::uint32_t> id(node.size(), nothing);
  for (std::uint32_t v = 0; v < node.size(); ++v) {
    if (!node[v]) continue;
    id[v] = static_cast<std::uint32_t>(kept.last_op.size());
    kept.graph.compute.push_back(block.graph.compute[v]);
    kept.last_op.push_back(block.last_op[v]);
  }
  for (std::uint32_t i = 0; i < edge.size(); ++i) {
    if (!edge[i]) continue;
    const auto& [u, v, c] = block.graph.edges[i];
    kept.graph.edges.push_back({id[u], id[v], c});
    kept.edge.push_back(block.edge[i]);
  }
  return kept;
}

/// Splits `block` at the nodes that every path passes. Such a node ends one block, where its time
/// is not counted, and begins the next block, where it is counted.
std::vector<SctComponent> split(SctComponent block) {
  const SctNetwork net(block.graph);
  std::vector<std::uint32_t> position(net.num_ops());
  for (std::uint32_t i = 0; i < net.num_ops(); ++i) position[net.order()[i]] = i;
  std::uint32_t first = 0, last = static_cast<std::uint32_t>(net.num_ops());  // range of cuts
  for (std::uint32_t i = 0; i < net.num_ops(); ++i) {
    if (net.in_edges(net.order()[i]).empty()) first = i;
    if (net.out_edges(net.order()[i]).empty()) last = std::min(last, i);
  }
  std::vector<std::uint32_t> cuts;  // positions in topological order
  for (std::uint32_t i = 0, reach = 0; i < net.num_ops(); ++i) {
    if (i > 0 && i + 1 < net.num_ops() && i >= first && i <= last && reach <= i) cuts.push_back(i);
    for (const std::uint32_t e : net.out_edges(net.order()[i]))
      reach = std::max(reach, position[net.dst(e)]);
  }
  if (cuts.empty()) return {std::move(block)};

  std::vector<SctComponent> blocks(cuts.size() + 1);
  const auto add_node = [&](SctComponent& to, std::uint32_t v, bool counted) {
    to.graph.compute.push_back(counted ? block.graph.compute[v] : Duration::zero());
    to.last_op.push_back(block.last_op[v]);
    return static_cast<std::uint32_t>(to.last_op.size() - 1);
  };
  std::vector<std::uint32_t> id(net.num_ops());  // node id in the block of its out-edges
  for (std::uint32_t i = 0, b = 0; i < net.num_ops(); ++i) {
    const std::uint32_t v = net.order()[i];
    const bool cut = b < cuts.size() && cuts[b] == i;
    const auto add_edges = [&](std::uint32_t target) {
      for (const std::uint32_t e : net.in_edges(v)) {
        blocks[b].graph.edges.push_back(
            {id[net.src(e)], target, block.graph.edges[e].communication});
        blocks[b].edge.push_back(block.edge[e]);
      }
    };
    if (cut) {
      add_edges(add_node(blocks[b], v, false));
      blocks[b++].last = false;
      id[v] = add_node(blocks[b], v, true);
    } else {
      id[v] = add_node(blocks[b], v, true);
      add_edges(id[v]);
    }
  }
  blocks.back().last = block.last;
  return blocks;
}

std::uint32_t root(std::vector<std::uint32_t>& parent, std::uint32_t i) {
  while (parent[i] != i) i = parent[i] = parent[parent[i]];
  return i;
}

}  // namespace

double bound_by_degrees(const SctNetwork& net) {
  std::vector<double> head(net.num_ops()), tail(net.num_ops());
  std::vector<CompetingEdge> competing;
  for (const std::uint32_t v : net.order()) {
    competing.clear();
    for (const std::uint32_t e : net.in_edges(v)) {
      const std::uint32_t u = net.src(e);
      competing.push_back({head[u] + net.compute(u) + net.communication(e), net.communication(e)});
    }
    head[v] = shared_bound(competing);
  }
  double bound = 0.0;
  for (std::size_t i = net.num_ops(); i-- > 0;) {
    const std::uint32_t u = net.order()[i];
    competing.clear();
    for (const std::uint32_t e : net.out_edges(u))
      competing.push_back({tail[net.dst(e)] + net.communication(e), net.communication(e)});
    tail[u] = shared_bound(competing) + net.compute(u);
    bound = std::max(bound, head[u] + tail[u]);
  }
  return bound;
}

SctReduction::SctReduction(const SctNetwork& net)
    : net_(net), decisions_(net), timed_(net.num_edges(), true), chained_(net.num_edges(), false) {
  SctComponent whole{.graph = net.graph(), .edge = {}, .last_op = {}};
  whole.edge.resize(net.num_edges());
  whole.last_op.resize(net.num_ops());
  std::iota(whole.edge.begin(), whole.edge.end(), 0U);
  std::iota(whole.last_op.begin(), whole.last_op.end(), 0U);
  blocks_.push_back(std::move(whole));
  decisions_.decide(timed_);
  do tighten();
  while (decisions_.decide(timed_));
}

/// Removes nodes and edges that cannot bind, until no block gets smaller.
void SctReduction::tighten() {
  std::fill(timed_.begin(), timed_.end(), false);
  std::vector<SctComponent> done;
  std::vector<SctComponent> todo = std::move(blocks_);
  std::ranges::reverse(todo);
  while (!todo.empty()) {
    SctComponent block = std::move(todo.back());
    todo.pop_back();
    join_chains(block);
    const std::size_t size = block.edge.size() + block.last_op.size();
    std::vector<SctComponent> parts = shortened(block);
    if (parts.size() == 1 && parts[0].edge.size() + parts[0].last_op.size() == size) {
      done.push_back(std::move(parts[0]));
      continue;
    }
    for (std::size_t i = parts.size(); i-- > 0;) todo.push_back(std::move(parts[i]));
  }
  blocks_ = std::move(done);
  for (const SctComponent& block : blocks_)
    for (const std::uint32_t e : block.edge) timed_[e] = true;
}

/// `block` without the nodes and edges whose longest path, at x = 1, is shorter than a lower bound
/// on w; split into blocks.
std::vector<SctComponent> SctReduction::shortened(const SctComponent& block) {
  const SctNetwork net(block.graph);
  const double bound = bound_by_degrees(net) * (1.0 - rounding);
  const SctNetwork::Paths with = net.paths(std::vector(net.num_edges(), 1.0));
  std::vector<bool> node(net.num_ops()), edge(net.num_edges());
  for (std::uint32_t v = 0; v < net.num_ops(); ++v) node[v] = with.head[v] + with.tail[v] >= bound;
  for (std::uint32_t i = 0; i < net.num_edges(); ++i)
    edge[i] = node[net.src(i)] && node[net.dst(i)] && net.through(with, i, 1.0) >= bound;
  return split(restricted(block, node, edge));
}

void SctReduction::join_chains(SctComponent& block) {
  std::vector<std::uint32_t> next(block.last_op.size(), nothing), previous = next;
  bool any = false;
  for (std::uint32_t i = 0; i < block.edge.size(); ++i) {
    if (edge(block.edge[i]) != SctEdge::near) continue;
    next[block.graph.edges[i].src] = block.graph.edges[i].dst;
    previous[block.graph.edges[i].dst] = block.graph.edges[i].src;
    chained_[block.edge[i]] = any = true;
  }
  if (!any) return;
  std::vector<bool> node(next.size()), open(block.edge.size());
  for (std::uint32_t v = 0; v < next.size(); ++v) node[v] = previous[v] == nothing;
  std::vector<std::uint32_t> chain(next.size());
  for (std::uint32_t v = 0; v < next.size(); ++v) {
    if (!node[v]) continue;
    for (std::uint32_t u = v; u != nothing; u = next[u]) {
      chain[u] = v;
      if (u == v) continue;
      block.graph.compute[v] += block.graph.compute[u];
      block.last_op[v] = block.last_op[u];
    }
  }
  for (std::uint32_t i = 0; i < block.edge.size(); ++i) {
    auto& [u, v, c] = block.graph.edges[i];
    u = chain[u];
    v = chain[v];
    open[i] = edge(block.edge[i]) == SctEdge::open;
  }
  block = restricted(block, node, open);
}

std::vector<SctPart> SctReduction::parts() const {
  std::vector<std::uint32_t> parent(net_.num_edges());
  std::iota(parent.begin(), parent.end(), 0U);
  const auto link = [&](std::span<const std::uint32_t> edges) {
    std::uint32_t before = nothing;
    for (const std::uint32_t e : edges) {
      if (edge(e) != SctEdge::open) continue;
      if (before != nothing) parent[root(parent, e)] = root(parent, before);
      before = e;
    }
  };
  for (std::uint32_t v = 0; v < net_.num_ops(); ++v) {
    link(net_.out_edges(v));
    link(net_.in_edges(v));
  }
  for (const SctComponent& block : blocks_) link(block.edge);

  std::vector<std::uint32_t> part(net_.num_edges(), nothing);  // [num_edges] the part of each root
  std::vector<SctPart> parts;
  for (std::uint32_t b = 0; b < blocks_.size(); ++b) {
    if (blocks_[b].edge.empty()) continue;
    std::uint32_t& p = part[root(parent, blocks_[b].edge.front())];
    if (p == nothing) {
      p = static_cast<std::uint32_t>(parts.size());
      parts.emplace_back();
    }
    parts[p].blocks.push_back(b);
  }
  SctPart untimed;
  for (std::uint32_t e = 0; e < net_.num_edges(); ++e) {
    if (edge(e) != SctEdge::open) continue;
    const std::uint32_t p = part[root(parent, e)];
    (p == nothing ? untimed : parts[p]).edges.push_back(e);
  }
  if (!untimed.edges.empty()) parts.push_back(std::move(untimed));
  return parts;
}

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
