#include <numeric>

#include "placers/sct/sct_reduction.h"
#include "sim/error.h"
#include "sim/random.h"

namespace baechi {

SctNetwork::SctNetwork(const SctGraph& graph)
    : graph_(graph),
      out_(graph.edges.size()),
      out_begin_(graph.compute.size() + 1),
      in_(graph.edges.size()),
      in_begin_(graph.compute.size() + 1) {
  for (const Duration t : graph.compute)
    BAECHI_CHECK(t >= Duration::zero(), "an op takes {} ns", t.count());
  for (const auto& [u, v, c] : graph.edges) {
    BAECHI_CHECK(u < num_ops() && v < num_ops(), "edge {} -> {} of {} ops", u, v, num_ops());
    BAECHI_CHECK(c >= Duration::zero(), "edge {} -> {} takes {} ns", u, v, c.count());
    ++out_begin_[u + 1];
    ++in_begin_[v + 1];
  }
  for (std::size_t v = 0; v < num_ops(); ++v) {
    out_begin_[v + 1] += out_begin_[v];
    in_begin_[v + 1] += in_begin_[v];
  }
  std::vector<std::uint32_t> next_out = out_begin_, next_in = in_begin_;
  for (std::uint32_t e = 0; e < num_edges(); ++e) {
    out_[next_out[src(e)]++] = e;
    in_[next_in[dst(e)]++] = e;
  }

  std::vector<std::size_t> missing(num_ops());
  order_.reserve(num_ops());
  for (std::uint32_t v = 0; v < num_ops(); ++v) {
    missing[v] = in_edges(v).size();
    if (missing[v] == 0) order_.push_back(v);
  }
  for (std::size_t i = 0; i < order_.size(); ++i)
    for (const std::uint32_t e : out_edges(order_[i]))
      if (--missing[dst(e)] == 0) order_.push_back(dst(e));
  BAECHI_CHECK(order_.size() == num_ops(), "{} ops lie on or after a cycle",
               num_ops() - order_.size());
}

SctNetwork::Paths SctNetwork::paths(std::span<const double> x) const {
  Paths p{.head = std::vector(num_ops(), 0.0), .tail = std::vector(num_ops(), 0.0), .longest = 0.0};
  for (const std::uint32_t v : order_) {
    double& head = p.head[v];
    for (const std::uint32_t e : in_edges(v))
      head = std::max(head, p.head[src(e)] + compute(src(e)) + x[e] * communication(e));
    p.longest = std::max(p.longest, head + compute(v));
  }
  for (std::size_t i = order_.size(); i-- > 0;) {
    const std::uint32_t v = order_[i];
    double& tail = p.tail[v];
    for (const std::uint32_t e : out_edges(v))
      tail = std::max(tail, x[e] * communication(e) + p.tail[dst(e)]);
    tail += compute(v);
  }
  return p;
}

double SctNetwork::infeasibility(std::span<const double> x) const {
  double worst = 0.0;
  for (const double value : x) worst = std::max({worst, -value, value - 1.0});
  const auto degree = [&](std::span<const std::uint32_t> edges) {
    double near = 0.0;  // exact for multiples of 2^-36, for any number of edges
    for (const std::uint32_t e : edges) near += 1.0 - x[e];
    worst = std::max(worst, near - 1.0);
  };
  for (std::uint32_t v = 0; v < num_ops(); ++v) {
    degree(out_edges(v));
    degree(in_edges(v));
  }
  return worst;
}

// The bound is a solution of the dual program. With y = 1 - x, the time row of an edge u->v with
// communication c reads
//   s_v - s_u + c y >= compute_u + c,
// and the degree rows read sum y <= 1. If the multipliers of the time rows form a flow f of 1
// through the graph, every s cancels, so that
//   w >= sum f (compute_u + c) - sum f c y,   and   sum f c y <= sum out + sum in
// if out_u + in_v >= f c on every edge. The flow may begin at any v, because s_v is at least the
// longest path to v at x = 0. The flow may end at any v, because s_v + compute_v <= w.
double SctNetwork::lower_bound(Duals duals, const std::vector<bool>& chained) const {
  const Paths without = paths(std::vector(num_edges(), 0.0));

  // The flow that the multipliers imply through each op.
  std::vector<double> wanted(num_ops());
  for (std::size_t i = order_.size(); i-- > 0;) {
    const std::uint32_t v = order_[i];
    wanted[v] = duals.end[v];
    for (const std::uint32_t e : out_edges(v)) {
      if (chained[e]) duals.edge[e] = wanted[dst(e)];
      wanted[v] += duals.edge[e];
    }
  }

  // The actual flow: the flow into an op is split in proportion to the multipliers.
  std::vector<double> flow(num_edges());
  double begun = 0.0, bound = 0.0;
  for (const std::uint32_t v : order_) {
    double arrived = 0.0;
    for (const std::uint32_t e : in_edges(v)) arrived += flow[e];
    const double begins = std::max(0.0, wanted[v] - arrived);
    begun += begins;
    bound += begins * without.head[v] + (arrived + begins) * compute(v);
    if (wanted[v] <= 0.0) continue;  // all flow ends at v
    const double share = (arrived + begins) / wanted[v];
    for (const std::uint32_t e : out_edges(v)) {
      flow[e] = duals.edge[e] * share;
      bound += flow[e] * communication(e);
    }
  }
  if (begun <= 0.0) return without.longest;

  for (std::uint32_t e = 0; e < num_edges(); ++e)
    duals.out[src(e)] = std::max(duals.out[src(e)], flow[e] * communication(e) - duals.in[dst(e)]);
  for (std::uint32_t v = 0; v < num_ops(); ++v) bound -= duals.out[v] + duals.in[v];
  return std::max(without.longest, bound / begun);
}

namespace {

constexpr std::uint32_t no_edge = ~std::uint32_t{0};

}  // namespace

SctDecisions::SctDecisions(const SctNetwork& net)
    : net_(net),
      edge_(net.num_edges(), SctEdge::open),
      sides_(2 * net.num_ops()),
      by_weight_(2 * net.num_edges()) {
  std::vector<double> preference(net.num_edges(), 1.0);
  for (std::uint32_t v = 0; v < net.num_ops(); ++v)
    for (const auto edges : {net.out_edges(v), net.in_edges(v)})
      for (std::size_t i = 0; i < edges.size(); ++i)
        preference[edges[i]] /= static_cast<double>(i + 1);
  weight_.reserve(net.num_edges());
  for (std::uint32_t e = 0; e < net.num_edges(); ++e)
    weight_.push_back({net.communication(e), preference[e] + Random(e).uniform() / 64.0});

  std::vector<std::uint32_t> heaviest_first(net.num_edges());
  std::iota(heaviest_first.begin(), heaviest_first.end(), 0U);
  std::ranges::stable_sort(heaviest_first, std::greater{},
                           [&](std::uint32_t e) { return weight_[e]; });
  std::uint32_t begin = 0;
  for (std::uint32_t s = 0; s < sides_.size(); ++s) {
    const auto v = static_cast<std::uint32_t>(s % net.num_ops());
    sides_[s].begin = sides_[s].end = begin;
    begin += static_cast<std::uint32_t>(s < net.num_ops() ? net.out_edges(v).size()
                                                          : net.in_edges(v).size());
  }
  for (const std::uint32_t e : heaviest_first)
    for (const std::uint32_t s : sides(e)) by_weight_[sides_[s].end++] = e;
  for (Side& side : sides_) {
    side.first = side.begin;
    side.second = side.begin + 1;
  }
}

bool SctDecisions::decide(const std::vector<bool>& may_bind) {
  may_bind_ = may_bind;
  for (Side& side : sides_) {
    side.open = side.may_bind = 0;
    side.sum = 0;
    side.swept = side.end;
    side.alone = no_edge;
  }
  for (std::uint32_t e = 0; e < net_.num_edges(); ++e) {
    if (edge_[e] != SctEdge::open) continue;
    for (const std::uint32_t s : sides(e)) {
      ++sides_[s].open;
      sides_[s].may_bind += may_bind_[e] ? 1U : 0U;
      sides_[s].sum += e;
    }
  }
  num_visits_ += net_.num_edges();
  for (std::uint32_t s = 0; s < sides_.size(); ++s) {
    if (sides_[s].open > 0) enqueue(s);
    note_alone(s);
  }
  bool any = false;
  while (!todo_.empty()) {
    Side& side = sides_[todo_.back()];
    todo_.pop_back();
    side.waits = false;
    const std::uint32_t before = side.open;
    drop_beaten(side);
    find_heaviest(side);
    if (side.open > 0) keep_heaviest(side);
    any = any || side.open < before;
  }
  return any;
}

void SctDecisions::enqueue(std::uint32_t side) {
  if (sides_[side].waits) return;
  sides_[side].waits = true;
  todo_.push_back(side);
}

/// If `side` has a single open edge, updates the other side of that edge.
void SctDecisions::note_alone(std::uint32_t side) {
  if (sides_[side].open != 1) return;
  const auto e = static_cast<std::uint32_t>(sides_[side].sum);
  const auto [out, in] = sides(e);
  const std::uint32_t other = side == out ? in : out;
  std::uint32_t& alone = sides_[other].alone;
  if (alone != no_edge && weight_[alone] >= weight_[e]) return;
  alone = e;
  enqueue(other);
}

void SctDecisions::fix_edge(std::uint32_t e, SctEdge as) {
  edge_[e] = as;
  for (const std::uint32_t s : sides(e)) {
    --sides_[s].open;
    sides_[s].may_bind -= may_bind_[e] ? 1U : 0U;
    sides_[s].sum -= e;
    if (sides_[s].open > 0) enqueue(s);
    note_alone(s);
  }
}

void SctDecisions::find_heaviest(Side& side) {
  const auto skip = [&](std::uint32_t& at) {
    while (at < side.end && edge_[by_weight_[at]] != SctEdge::open) ++at, ++num_visits_;
  };
  skip(side.first);
  side.second = std::max(side.second, side.first + 1);
  skip(side.second);
}

/// Edges of `side` are far if they cannot bind and weigh less than the heaviest edge without
/// competitors at its other end.
void SctDecisions::drop_beaten(Side& side) {
  if (side.alone == no_edge || edge_[side.alone] != SctEdge::open) return;
  const SctWeight best = weight_[side.alone];
  for (; side.swept > side.begin; --side.swept, ++num_visits_) {
    const std::uint32_t e = by_weight_[side.swept - 1];
    if (weight_[e] >= best) return;
    if (edge_[e] == SctEdge::open && !may_bind_[e]) fix_edge(e, SctEdge::far);
  }
}

/// The heaviest open edge of `side` is near if it outweighs its competitors. No lighter edge can
/// be: it does not outweigh the heaviest.
void SctDecisions::keep_heaviest(const Side& side) {
  const std::uint32_t e = by_weight_[side.first];
  SctWeight competing;
  for (const std::uint32_t s : sides(e)) {
    Side& at = sides_[s];
    find_heaviest(at);
    if (by_weight_[at.first] != e || at.may_bind > (may_bind_[e] ? 1U : 0U)) return;
    if (at.second < at.end) competing = competing + weight_[by_weight_[at.second]];
  }
  if (weight_[e] <= competing) return;
  for (const std::uint32_t s : sides(e))
    for (std::uint32_t i = sides_[s].second; i < sides_[s].end; ++i, ++num_visits_)
      if (edge_[by_weight_[i]] == SctEdge::open) fix_edge(by_weight_[i], SctEdge::far);
  fix_edge(e,
           SctEdge::near);  // last, so that no competitor is mistaken for the only edge of a side
}

}  // namespace baechi
