/// Union-find over colocation groups, and Baechi's operator fusion, on ids and edges alone.
#pragma once
#include "sim/graph/op_graph.h"

namespace baechi {

/// Fusing a -> b may close a cycle if a has other readers and b has other inputs. Such pairs are
/// rejected unless the rules allow more.
struct FusionRules {
  /// Fuse the pair if there is no other path from a to b.
  bool disjoint_paths = false;
  /// Fuse every pair; the result may have cycles.
  bool allow_cycle = false;
  /// Retry a rejected pair once other pairs have been fused. Baechi's code does not (Q24).
  bool requeue = true;
};

/// An edge between two ops, for any number of tensors. Edges are sorted by src, then in the order
/// of the readers of src; this order breaks ties.
struct FusionEdge {
  OpId src{};
  OpId dst{};
};

/// Fuses pairs u -> v of one group if u has one successor or v one predecessor. The result depends
/// on the order of the pairs, which is the order of Baechi's code: groups by their first op; in
/// each group a first-in first-out queue of its edges; v is fused into u, and the edges of v join
/// the end of the queue. Source: Baechi (SoCC'20), section 3.1.
class Fusion {
 public:
  /// [num_ops], positions in `edges`.
  using Outputs = IdVector<OpId, std::vector<std::uint32_t>>;

  /// Ops without a group are not fused. `group`: [num_ops]. `outputs`, if given, receives the
  /// out-edges of each op in the order they had when the last op was fused into it: Baechi's code
  /// lists the outputs of a fused op in this order.
  Fusion(const IdVector<OpId, GroupId>& group, std::span<const FusionEdge> edges,
         const FusionRules& rules, Outputs* outputs = nullptr);

  /// The op into which `v` was fused; `v` itself if it was not.
  OpId leader(OpId v) const { return nodes_[v].leader; }
  /// The ops that were fused into a leader, in the order of fusion.
  std::vector<OpId> swallowed(OpId leader) const;
  struct Link {
    OpId dst{};
    std::vector<std::uint32_t> edges;  ///< positions in the edges given, in order
  };
  /// The edges of the fused graph from a leader, in order.
  std::vector<Link> out_links(OpId leader) const;

 private:
  using LinkId = std::uint32_t;
  static constexpr LinkId none = ~LinkId{0};

  struct Chain {
    LinkId first = none;
    LinkId last = none;
    std::uint32_t size = 0;
  };
  struct Node {
    OpId leader{};
    GroupId group = no_group;
    std::uint32_t rank = 0;  // topological rank among the leaders; for disjoint_paths only
    Chain out{}, in{};
    OpId first_swallowed = no_op;  // a list, by `next_swallowed`
    OpId last_swallowed = no_op;
    OpId next_swallowed = no_op;  // the next op in the list of this op's leader
  };
  struct Neighbours {
    LinkId next = none;
    LinkId previous = none;
  };
  /// An edge between two leaders. Its input edges are a list by `next_given_`.
  struct GraphLink {
    OpId src{};
    OpId dst{};
    Neighbours in_out{}, in_in{};  // in the list of src's out-links, of dst's in-links
    std::uint32_t first_given = 0;
    std::uint32_t last_given = 0;
  };

  void swallow(OpId first, OpId last, Node& into);
  void append(Chain& chain, LinkId link, Neighbours GraphLink::* side);
  void remove(Chain& chain, LinkId link, Neighbours GraphLink::* side);
  void add_link(OpId src, OpId dst, LinkId given);
  LinkId find_link(OpId src, OpId dst) const;
  void join(LinkId onto, LinkId from);

  bool fuse_all(std::vector<FusionEdge>& queue, std::vector<FusionEdge>& refused);
  bool may_fuse(OpId a, OpId b);
  void fuse(OpId a, OpId b, std::vector<FusionEdge>& queue);

  void rank_all();
  bool other_path(OpId a, OpId b);
  std::vector<OpId> between(OpId from, OpId to, bool forward);
  void move_together(OpId a, OpId b);

  FusionRules rules_;
  Outputs* outputs_;
  IdVector<OpId, Node> nodes_;
  std::vector<GraphLink> links_;
  std::vector<std::uint32_t> next_given_;  // [num input edges]
  std::vector<std::uint32_t> seen_;        // [num_ops], number of the last search that reached it
  std::uint32_t search_ = 0;
};

/// Initially each group of the graph is a set, and each op without a group is a set with the op's
/// name. The graph must outlive this.
class GroupSets {
 public:
  explicit GroupSets(const OpGraph& graph);
  void join(OpId a, OpId b);
  /// The graph with these sets as groups; ids stay. The name of a united set is the least name, by
  /// (length, text), of the sets in it. An op that was never joined stays without a group.
  OpGraph regrouped();

 private:
  OpId root(OpId v);

  const OpGraph& graph_;
  IdVector<OpId, OpId> parent_;  // [num_ops], ids decrease towards the root
};

}  // namespace baechi
