/// The graph of m-SCT's linear program with edge lists by op, its longest paths, and the two sides
/// of the proof that an x is optimal: the makespan of x and a lower bound. Inner header of
/// solve_sct.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "placers/sct/favourite_child.h"

namespace baechi {

class SctNetwork {
 public:
  /// Keeps a reference to `graph`, which must outlive this. Aborts on an edge with an unknown op, a
  /// negative time, or a cycle.
  explicit SctNetwork(const SctGraph& graph);

  const SctGraph& graph() const { return graph_; }
  std::size_t num_ops() const { return graph_.compute.size(); }
  std::size_t num_edges() const { return graph_.edges.size(); }
  /// The time of op `v` in ns.
  double compute(std::uint32_t v) const { return static_cast<double>(graph_.compute[v].count()); }
  /// The communication of edge `e` in ns.
  double communication(std::uint32_t e) const {
    return static_cast<double>(graph_.edges[e].communication.count());
  }
  std::uint32_t src(std::uint32_t e) const { return graph_.edges[e].src; }
  std::uint32_t dst(std::uint32_t e) const { return graph_.edges[e].dst; }
  std::span<const std::uint32_t> order() const { return order_; }  ///< ops in topological order
  std::span<const std::uint32_t> out_edges(std::uint32_t v) const {
    return {out_.data() + out_begin_[v], out_.data() + out_begin_[v + 1]};
  }
  std::span<const std::uint32_t> in_edges(std::uint32_t v) const {
    return {in_.data() + in_begin_[v], in_.data() + in_begin_[v + 1]};
  }

  /// Lengths of longest paths in ns, if edge e takes x_e times its communication.
  struct Paths {
    std::vector<double> head;  // [num_ops] from the beginning to the op's start
    std::vector<double> tail;  // [num_ops] from the op's start to the end
    double longest = 0.0;
  };
  Paths paths(std::span<const double> x) const;
  /// Length in ns of the longest path through `e`, if `e` takes `x` times its communication.
  double through(const Paths& paths, std::uint32_t e, double x) const {
    return paths.head[src(e)] + compute(src(e)) + x * communication(e) + paths.tail[dst(e)];
  }

  /// The largest amount by which x breaks a degree row or 0 <= x <= 1.
  double infeasibility(std::span<const double> x) const;

  /// Multipliers of the program's rows, all >= 0.
  struct Duals {
    std::vector<double> edge;  // [num_edges] of s_u + compute_u + communication_e x_e <= s_v
    std::vector<double> end;   // [num_ops] of s_v + compute_v <= w
    std::vector<double> out;   // [num_ops] of the degree row of the edges out of the op
    std::vector<double> in;    // [num_ops] of the degree row of the edges into the op
  };
  /// A lower bound on w, in ns. Valid for any multipliers: the multipliers are made feasible first,
  /// so better multipliers only give a larger bound. An edge that is `chained` [num_edges] gets the
  /// sum of its target's multipliers (out-edges and end) instead of its own multiplier.
  double lower_bound(Duals duals, const std::vector<bool>& chained) const;

 private:
  const SctGraph& graph_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> out_, out_begin_;  // edge ids ascending; [num_ops + 1], into out_
  std::vector<std::uint32_t> in_, in_begin_;
};

}  // namespace baechi
