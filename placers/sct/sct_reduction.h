/// What is left of m-SCT's linear program when all is decided that can be without a solver. Every
/// step keeps the canonical optimum. Inner header of solve_sct.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "placers/sct/sct_network.h"

namespace baechi {

/// A part of the graph that the longest paths cross from end to end, whatever x is: its time and
/// that of the parts before and behind it add up to w. A node is a chain of ops.
struct SctBlock {
  SctGraph graph;                      ///< nodes, and the open edges that may bind
  std::vector<std::uint32_t> edge;     ///< [graph.edges], its id in the whole graph
  std::vector<std::uint32_t> last_op;  ///< [graph.compute], of the node's chain
  bool last = true;                    ///< the paths end here
};

/// What one solver run takes: blocks and edges that no degree links to those of another part. All
/// edges without a block go together.
struct SctPart {
  std::vector<std::uint32_t> blocks;  ///< ascending
  std::vector<std::uint32_t> edges;   ///< ascending ids in the whole graph, all open
};

/// How much the canonical optimum wants an edge to be near (x = 0): by the first, then the second.
struct SctWeight {
  double communication = 0.0;  // ns
  double preference = 0.0;
  auto operator<=>(const SctWeight&) const = default;
  SctWeight operator+(const SctWeight& other) const {
    return {communication + other.communication, preference + other.preference};
  }
};

class SctReduction {
 public:
  enum class Edge : std::uint8_t { open, near, far };  // x unknown, 0, 1

  /// A view: `net` outlives it.
  explicit SctReduction(const SctNetwork& net);

  const SctNetwork& net() const { return net_; }
  Edge edge(std::uint32_t e) const { return edge_[e]; }
  bool timed(std::uint32_t e) const { return timed_[e]; }  ///< may lie on a longest path
  const SctWeight& weight(std::uint32_t e) const { return weight_[e]; }
  const std::vector<SctBlock>& blocks() const { return blocks_; }
  /// [num_edges] Near edges that joined two nodes to one: nothing else that binds leaves their
  /// source or enters their target.
  const std::vector<bool>& chained() const { return chained_; }
  std::vector<SctPart> parts() const;

 private:
  void tighten();
  std::vector<SctBlock> shortened(const SctBlock& block);
  void join_chains(SctBlock& block);
  bool decide();
  bool decide(std::uint32_t e);

  const SctNetwork& net_;
  std::vector<Edge> edge_;         // [num_edges]
  std::vector<bool> timed_;        // [num_edges]
  std::vector<bool> chained_;      // [num_edges]
  std::vector<SctWeight> weight_;  // [num_edges]
  std::vector<SctBlock> blocks_;
};

}  // namespace baechi
