/// Parts of m-SCT's linear program: flows, decided edges, reduction, stars. Inner header of
/// solve_sct.
#pragma once

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

/// How much the canonical optimum gains if an edge is near (x = 0): compares communication first,
/// then preference.
struct SctWeight {
  double communication = 0.0;  // ns
  double preference = 0.0;     // p_e of solve_sct
  auto operator<=>(const SctWeight&) const = default;
  SctWeight operator+(const SctWeight& other) const {
    return {communication + other.communication, preference + other.preference};
  }
};

enum class SctEdge : std::uint8_t { open, near, far };  // x unknown, 0, 1

/// The edges decided so far. The competitors of an edge are the other open edges out of its source
/// and into its target.
/// - An edge is near if no competitor can bind, and it weighs more than the heaviest competitor at
///   its source and the heaviest one at its target together. Any 1 - x of these competitors is then
///   worth more at the edge.
/// - An edge is far if it cannot bind, and a heavier competitor has no competitors at its other
///   end.
/// A decision stays valid for all later decisions, so their order does not matter.
class SctDecisions {
 public:
  /// Keeps a reference to `net`, which must outlive this.
  explicit SctDecisions(const SctNetwork& net);

  SctEdge edge(std::uint32_t e) const { return edge_[e]; }
  const SctWeight& weight(std::uint32_t e) const { return weight_[e]; }

  /// Decides as many open edges as possible, if the edges `may_bind` [num_edges] may lie on a
  /// longest path. Returns whether any edge was decided. Besides one pass over all edges, takes
  /// time in proportion to the edges decided, however many edges an op has.
  bool decide(const std::vector<bool>& may_bind);

  /// Edges visited by all calls of decide().
  std::size_t num_visits() const { return num_visits_; }

 private:
  /// The edges out of an op, or into an op.
  struct Side {
    std::uint32_t begin = 0, end = 0;      // into by_weight_
    std::uint32_t first = 0, second = 0;   // the heaviest two open edges, into by_weight_
    std::uint32_t open = 0, may_bind = 0;  // edges; may_bind counts only open ones
    std::uint64_t sum = 0;                 // of the ids of the open edges
    std::uint32_t swept = 0;               // from here on, all edges that cannot bind are decided
    std::uint32_t alone = 0;               // the heaviest edge without competitors at its other end
    bool waits = false;                    // in todo_
  };

  std::array<std::uint32_t, 2> sides(std::uint32_t e) const {
    return {net_.src(e), static_cast<std::uint32_t>(net_.num_ops()) + net_.dst(e)};
  }
  void enqueue(std::uint32_t side);
  void note_alone(std::uint32_t side);
  void fix_edge(std::uint32_t e, SctEdge as);
  void find_heaviest(Side& side);
  void drop_beaten(Side& side);
  void keep_heaviest(const Side& side);

  const SctNetwork& net_;
  std::vector<SctEdge> edge_;             // [num_edges]
  std::vector<SctWeight> weight_;         // [num_edges]
  std::vector<bool> may_bind_;            // [num_edges]
  std::vector<Side> sides_;               // [2 num_ops] out of each op, then into each op
  std::vector<std::uint32_t> by_weight_;  // edges of each side, the heaviest first
  std::vector<std::uint32_t> todo_;       // sides to check
  std::size_t num_visits_ = 0;
};

/// A block: a part of the graph that the longest paths cross from end to end, for every x. The
/// times of consecutive blocks add up to w. A node of a block is a chain of ops.
struct SctComponent {
  SctGraph graph;                      ///< nodes, and the open edges that may lie on a longest path
  std::vector<std::uint32_t> edge;     ///< [graph.edges] the edge's id in the whole graph
  std::vector<std::uint32_t> last_op;  ///< [graph.compute] the last op of the node's chain
  bool last = true;                    ///< whether the longest paths end in this block
};

/// A part: the blocks and open edges of one solver run. No degree row links edges of two parts. All
/// edges that are linked to no block form one part.
struct SctPart {
  std::vector<std::uint32_t> blocks;  ///< ascending
  std::vector<std::uint32_t> edges;   ///< ascending ids in the whole graph, all open
};

/// A lower bound on w. For each op, the sum of two bounds: on the longest path to the op, with only
/// the degree rows of edges into ops; and on the longest path from the op, with only the degree
/// rows of edges out of ops. Returns the largest sum.
double bound_by_degrees(const SctNetwork& net);

/// The reduction of one network: decided edges, blocks and parts.
class SctReduction {
 public:
  /// Keeps a reference to `net`, which must outlive this.
  explicit SctReduction(const SctNetwork& net);

  const SctNetwork& net() const { return net_; }
  SctEdge edge(std::uint32_t e) const { return decisions_.edge(e); }
  bool timed(std::uint32_t e) const { return timed_[e]; }  ///< may lie on a longest path
  const SctWeight& weight(std::uint32_t e) const { return decisions_.weight(e); }
  const std::vector<SctComponent>& blocks() const { return blocks_; }
  /// [num_edges] Whether a near edge joined two nodes to one. No other edge that can bind leaves
  /// the source or enters the target of a joined edge.
  const std::vector<bool>& chained() const { return chained_; }
  std::vector<SctPart> parts() const;

 private:
  void tighten();
  std::vector<SctComponent> shortened(const SctComponent& block);
  void join_chains(SctComponent& block);

  const SctNetwork& net_;
  SctDecisions decisions_;
  std::vector<bool> timed_;    // [num_edges]
  std::vector<bool> chained_;  // [num_edges]
  std::vector<SctComponent> blocks_;
};

struct SctStar {
  std::vector<double> x;     // [part.edges] the canonical optimum
  std::vector<double> flow;  // [block.edge] multipliers of the time rows, of sum 1
  bool out = false;          // whether the edges leave the op, else enter it
  double price = 0.0;        // ns; multiplier of the op's degree row
};

/// Nothing if `part` is not a star. A star is one block; each of its edges has a node of its own at
/// one end, and no other open edge touches its nodes. Takes O(E log E) time for E edges.
std::optional<SctStar> solve_star(const SctReduction& reduction, const SctPart& part);

}  // namespace baechi
