/// An interior-point method for large linear programs of short rows. It finds a vertex at, or a few
/// steps before, the optimum: there the simplex method starts, which has the last word.
#pragma once
#include <optional>
#include <vector>

#include "placers/solver/linear_program.h"

namespace baechi::solver {

struct InteriorOptimum {
  /// A bound that may hold as an equation; the larger `hold`, the surer that it does.
  struct Bound {
    double hold;
    bool of_row;  ///< else of a column
    std::uint32_t index;
    Basis::Rest at;
  };

  /// What rests at a bound in the optimum. A column without bounds is basic, also if nothing that
  /// rests holds it: then there are more basics than rows.
  Basis basis;
  std::vector<Bound> bounds;   ///< all, the surest first
  std::vector<double> x;       ///< [num_columns] close to the optimum, within the bounds
  std::vector<double> cost{};  ///< [num_columns] the sum of all objectives that was minimised

  /// Makes as many basic as there are rows: the least sure of the bounds change sides. Bounds that
  /// the caller has made hold stay.
  void balance();
};

/// Minimises all objectives of `program` at once, the first with weight 1, the second with 1e-5,
/// the third and further ones with 1e-6. Each row must have exactly one bound; the first objective
/// should be about 1000, and factors of x near 1. Nothing if a factorisation would take more than
/// `most_multiplications`, if rows are long, or if the method does not get there. The same program,
/// the same answer, on every machine. May be called from several threads at once.
std::optional<InteriorOptimum> interior_optimum(const LinearProgram& program,
                                                double most_multiplications);

}  // namespace baechi::solver
