/// Decides edges of m-SCT's linear program by their weight. Inner header of solve_sct.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "placers/sct/sct_network.h"

namespace baechi {

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

}  // namespace baechi
