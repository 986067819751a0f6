/// Reduces m-SCT's linear program to the part that needs a solver, by deciding edges. Every step
/// keeps the canonical optimum. Inner header of solve_sct.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "placers/sct/sct_decisions.h"
#include "placers/sct/sct_network.h"

namespace baechi {

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

}  // namespace baechi
