/// Favourite children and the linear program that proposes them. The favourite child of an op is
/// the one successor that m-SCT tries to keep on the op's device. Source: Hanen and Munier, "An
/// approximation algorithm for scheduling dependent tasks on m processors with small communication
/// delays" (1995), as in Baechi (SoCC 2020), m-SCT.
#pragma once
#include <list>
#include <mutex>

#include "sim/problem/problem.h"

namespace baechi {

/// The graph of the linear program; an op or edge is its index in `compute` or `edges`. At most one
/// edge joins a pair of ops: its communication is the sum over all tensors between them. The graph
/// is acyclic; its ops may be in any order.
struct SctGraph {
  struct Edge {
    std::uint32_t src, dst;
    Duration communication;
    friend bool operator==(const Edge&, const Edge&) = default;
  };
  std::vector<Duration> compute;  // [num_ops] time of each op
  std::vector<Edge> edges;
  friend bool operator==(const SctGraph&, const SctGraph&) = default;
};

struct SctOptions {
  /// False: any optimum is accepted, because only w is needed. Takes at most a quarter of the time.
  bool canonical = true;
  /// Whether the solver starts at the result of an interior-point method or at a vertex chosen
  /// greedily. By default, whichever seems faster. The canonical optimum is the same.
  std::optional<bool> interior{};
};

struct SctSolution {
  std::vector<double> x;     ///< [num_edges] 0 to 1: the fraction of the communication that is paid
  double w = 0.0;            ///< ns; the makespan of x, so (x, w) is feasible
  double lower_bound = 0.0;  ///< ns; a lower bound on any makespan, by a dual solution
  bool canonical = false;    ///< x is the canonical optimum; w is proved optimal
  int interior_starts = 0;   ///< solver runs that started from an interior-point method
};

/// The linear program of m-SCT:
///   minimise w  subject to
///   s_u + compute_u + communication_e x_e <= s_v  for every edge e = u->v (time rows),
///   s_v + compute_v <= w                          for every op v (end rows),
///   sum of x_e >= degree - 1                      over the edges out of, and over the edges into,
///                                                 each op (degree rows),
///   0 <= x <= 1,  s >= 0.
/// The degree rows let an op save the communication of one edge out and one edge in.
///
/// Many x reach the same w. The canonical x does not depend on the path of the solver:
/// 1. it has the least total communication paid (sum of communication_e x_e);
/// 2. of these x, it minimises the sum of p_e x_e. p_e = 1 / (i j) for the i-th edge out of its
///    source and the j-th edge into its target (in edge order, from 1), so that the earlier of
///    equal edges is preferred; plus a fixed pseudo-random number below 1/64, chosen by e, so that
///    no tie remains.
/// x is rounded to multiples of 2^-36.
///
/// w (the makespan of x) and lower_bound (the value of a dual solution) are computed here, not by
/// the solver, for the whole program above, including what was left out for the solver. The two
/// agree to 1e-9 of w, or to 1e-7 where times differ by factors of millions. Only with such times
/// may rounding errors keep the solver from the canonical optimum or from the proof; then
/// `canonical` is false. If the solver gives up, x is 1 for every edge that it had to decide,
/// `canonical` is false, and lower_bound bounds the distance from the optimum.
SctSolution solve_sct(const SctGraph& graph, const SctOptions& options = {});

/// The edges whose x is at most `threshold` (to 1e-9), ascending; no two leave or enter the same
/// op. If several of these edges meet at an op (only possible with thresholds of 0.5 and above),
/// the edge with more communication stays. Ties: the lower edge index. With `compat`, Baechi's
/// rounding: all edges for which x - threshold + 0.5 rounds to 0 stay.
std::vector<std::uint32_t> favourite_edges(const SctGraph& graph, std::span<const double> x,
                                           double threshold, bool compat = false);

inline constexpr std::uint32_t no_favourite = ~std::uint32_t{0};

struct Favourites {
  std::vector<std::uint32_t> favourite;  ///< [num_ops] the op's favourite child, or no_favourite
  std::vector<std::uint32_t>
      parent;  ///< [num_ops] the op whose favourite child it is, or no_favourite
};

/// The favourites given by the edges `chosen`. No two of these edges may leave or enter the same
/// op, except with `compat`, which applies Baechi's rule edge by edge in the given order: a parent
/// that loses a child loses its current favourite, even if that is another child by now; a child
/// that is replaced keeps its parent.
Favourites favourites(const SctGraph& graph, std::span<const std::uint32_t> chosen,
                      bool compat = false);

/// The problem's graph for m-SCT's linear program: mean op times over the devices, mean transfer
/// times over the links, and one edge per pair of ops, whose communication is the sum over the
/// tensors between the two ops. Edges are ordered by the first graph edge of each pair.
SctGraph sct_graph(const Problem& problem);

/// Thread-safe. A thread that asks for a program that another thread is solving waits for that
/// solution.
class SctSolutions {
 public:
  /// The canonical solution of `graph`, solved at the first call.
  std::shared_ptr<const SctSolution> of(const SctGraph& graph);

 private:
  struct Entry {
    explicit Entry(const SctGraph& g) : graph(g) {}
    const SctGraph graph;
    std::once_flag once;
    std::shared_ptr<const SctSolution> solution;
  };
  std::shared_ptr<Entry> entry_of(const SctGraph& graph);

  std::mutex mutex_;
  std::list<std::shared_ptr<Entry>> entries_;  // most recently used first
};

/// The favourite child of each op of a problem, by m-SCT's linear program.
struct SctFavourites {
  IdVector<OpId, OpId> of{};  ///< [num_ops], or no_op
  std::size_t count = 0;      ///< ops that have one
  double program = 0.0;       ///< the program's optimum, in ns
};

/// `threshold`: an edge is a favourite if the program's x is at most this.
SctFavourites favourites_of(const Problem& problem, double threshold, SctSolutions& solutions);

}  // namespace baechi
