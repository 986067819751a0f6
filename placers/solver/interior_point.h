/// An interior-point method for large linear programs with short rows. Finds a vertex at or near
/// the optimum, from which the simplex method starts.
#pragma once
#include <optional>
#include <vector>

#include "placers/solver/linear_program.h"

namespace baechi::solver {

struct InteriorOptimum {
  /// A bound that may be active; the larger `hold`, the more certain it is.
  struct Bound {
    double hold;
    bool of_row;  ///< false: of a column
    std::uint32_t index;
    Basis::Rest at;
  };

  /// The bounds that are active in the optimum. A column without bounds is basic, even if no active
  /// bound determines it: then there are more basics than rows.
  Basis basis;
  std::vector<Bound> bounds;   ///< all, the most certain first
  std::vector<double> x;       ///< [num_columns] close to the optimum, within the bounds
  std::vector<double> cost{};  ///< [num_columns] the sum of all objectives that was minimised

  /// Makes as many basic as there are rows, by changing the least certain bounds. Bounds that the
  /// caller has made active are kept.
  void balance();
};

/// Minimises all objectives of `program` at once, the first with weight 1, the second with 1e-5,
/// the others with 1e-6. Each row must have exactly one bound; the first objective should be about
/// 1000, and factors of x near 1. Nothing if a factorisation would take more than
/// `most_multiplications`, if rows are long, or if the method does not converge. Bitwise equal on
/// every machine. Thread-safe.
std::optional<InteriorOptimum> interior_optimum(const LinearProgram& program,
                                                double most_multiplications);

}  // namespace baechi::solver
