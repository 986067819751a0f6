/// Which ops of a group become one: Baechi's operator fusion, on ids and edges alone.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sim/graph/op_graph.h"

namespace baechi {

struct FusionRules {
  /// A pair a -> b that might close a cycle (a has other readers and b other inputs) is fused all
  /// the same if no other path leads from a to b.
  bool disjoint_paths = false;
  /// Every pair is fused; the result may have cycles.
  bool allow_cycle = false;
  /// A pair that might have closed a cycle is asked again once others have been fused. Baechi's
  /// code does not (Q24).
  bool requeue = true;
};

/// One edge, however many tensors it carries. Given in the order that ties are broken by: by src,
/// then as its op's readers are listed.
struct FusionEdge {
  OpId src{};
  OpId dst{};
};

/// Source: Baechi (SoCC'20), section 3.1: u -> v of one group are fused if u has one successor or v
/// one predecessor. Which ops come to be fused depends on the order, and that is the order of
/// Baechi's code: groups by their first op; in each a first-in first-out queue of its edges; the
/// consumer goes into the producer; edges that it brings along come last.
class Fusion {
 public:
  /// Per op, positions among the edges given. [num_ops]
  using Outputs = IdVector<OpId, std::vector<std::uint32_t>>;

  /// Ops without a group stay as they are. `group`: [num_ops]. `outputs`, if given, receives of
  /// each op its out-edges as they stood in order when it last took another in: the order in which
  /// Baechi's code lists a fused op's outputs.
  Fusion(const IdVector<OpId, GroupId>& group, std::span<const FusionEdge> edges,
         const FusionRules& rules, Outputs* outputs = nullptr);

  /// The op that `v` was fused into, or itself.
  OpId leader(OpId v) const { return nodes_[v].leader; }
  /// What was fused into a leader, in that order.
  std::vector<OpId> swallowed(OpId leader) const;
  struct Link {
    OpId dst{};
    std::vector<std::uint32_t> edges;  ///< positions among the edges given, in order
  };
  /// The edges of the fused graph from a leader, in order.
  std::vector<Link> out_links(OpId leader) const;

 private:
  using LinkId = std::uint32_t;
  static constexpr LinkId none = ~LinkId{0};

  /// Links of one op, first to last.
  struct Chain {
    LinkId first = none;
    LinkId last = none;
    std::uint32_t size = 0;
  };
  struct Node {
    OpId leader{};
    GroupId group = no_group;
    std::uint32_t rank = 0;  // disjoint_paths: topological, among the ops that are left
    Chain out{}, in{};
    OpId first_swallowed = no_op;  // a list, by `next_swallowed`
    OpId last_swallowed = no_op;
    OpId next_swallowed = no_op;  // of what this op was fused into
  };
  struct Neighbours {
    LinkId next = none;
    LinkId previous = none;
  };
  /// An edge between two ops that are left. Its edges as given are a list, by `next_given_`.
  struct GraphLink {
    OpId src{};
    OpId dst{};
    Neighbours in_out{}, in_in{};  // among its src's out-links, its dst's in-links
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
  std::vector<std::uint32_t> next_given_;  // [num edges given]
  std::vector<std::uint32_t> seen_;        // [num_ops], the last search that met the op
  std::uint32_t search_ = 0;
};

}  // namespace baechi
