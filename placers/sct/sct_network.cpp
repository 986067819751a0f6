#include "placers/sct/sct_network.h"

#include <algorithm>

#include "sim/error.h"

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

}  // namespace baechi
