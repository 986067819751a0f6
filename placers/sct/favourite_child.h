/// Favourite children: of each op, the one successor that m-SCT tries to keep on the same device,
/// and the linear program that proposes them. Source: Hanen and Munier, "An approximation algorithm
/// for scheduling dependent tasks on m processors with small communication delays" (1995), as in
/// Baechi (SoCC 2020), m-SCT.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sim/units.h"

namespace baechi {

/// Ops and edges by position. At most one edge per pair of ops: what several tensors take to cross
/// is added up. Acyclic; the order of the ops need not be topological.
struct SctGraph {
  struct Edge {
    std::uint32_t src, dst;
    Duration communication;
    friend bool operator==(const Edge&, const Edge&) = default;
  };
  std::vector<Duration> compute;  // [num_ops]
  std::vector<Edge> edges;
  friend bool operator==(const SctGraph&, const SctGraph&) = default;
};

struct SctOptions {
  /// Off: any optimum will do (w is wanted, x is not), which takes a quarter of the time or less.
  bool canonical = true;
};

struct SctSolution {
  std::vector<double> x;     ///< [num_edges] in 0..1; how much of the edge's communication is paid
  double w = 0.0;            ///< ns; the makespan of x, so x is feasible at it
  double lower_bound = 0.0;  ///< ns; no x has a smaller makespan. Proved by a dual solution
  bool canonical = false;    ///< x is the canonical optimum, and proved so far as w goes
};

/// The linear program of m-SCT:
///   minimise w subject to  s_u + compute_u + communication_e x_e <= s_v  for every edge e = u->v,
///   s_v + compute_v <= w,  0 <= x <= 1,  s >= 0,  and of the edges out of (into) an op all but one
///   have x = 1 in sum:  sum x_e >= degree - 1.
/// Many x reach the same w. The canonical one, which does not depend on how the solver walks, is
/// that with the least communication kept in total (sum of communication_e x_e), and of these the
/// one that minimises the sum of p_e x_e. There p_e = 1 / (i j) for the i-th edge out of its source
/// and the j-th into its target (in edge order, from 1), so that the earlier of equal edges is
/// preferred, plus a fixed pseudo-random number of e below 1/64, so that nothing remains equal. x
/// is rounded to multiples of 2^-36.
/// w is the makespan of x and lower_bound the value of a dual solution, both by this code, not the
/// solver's, on the program as it stands above, whatever was left out for the solver. They agree to
/// 1e-9 of w; where times are millions of times apart, to 1e-7. Only there may rounding errors keep
/// the solver from the canonical optimum or the proof: then x is not called canonical. Aborts if
/// the solver ends without any optimum: there always is one.
SctSolution solve_sct(const SctGraph& graph, const SctOptions& options = {});

/// Edges whose x is at most `threshold` (to 1e-9), ascending, no two out of the same op or into the
/// same op: where they meet (only possible at 0.5 and above) the larger communication stays, then
/// the lower position. With `compat`, Baechi's rounding, which keeps them all: x - threshold + 0.5
/// rounds to 0.
std::vector<std::uint32_t> favourite_edges(const SctGraph& graph, std::span<const double> x,
                                           double threshold, bool compat = false);

inline constexpr std::uint32_t nobody = ~std::uint32_t{0};

struct Favourites {
  std::vector<std::uint32_t> favourite;  ///< [num_ops], the favourite child or nobody
  std::vector<std::uint32_t> parent;     ///< [num_ops], whose favourite child it is or nobody
};

/// Favourites from chosen edges, of which no two may leave or enter the same op. With `compat` they
/// may, and Baechi's rule applies, edge by edge in the given order: a parent that loses the child
/// loses the favourite it has, even if that is another child by now, and a child that is replaced
/// keeps its parent.
Favourites favourites(const SctGraph& graph, std::span<const std::uint32_t> chosen,
                      bool compat = false);

}  // namespace baechi
