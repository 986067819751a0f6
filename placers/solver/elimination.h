/// In which order the columns of a linear program are eliminated from its normal matrix, and what
/// fills up meanwhile.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "placers/solver/linear_program.h"

namespace baechi::solver {

/// The normal matrix of a program with rows A is A^T D A + E, with diagonal D and E: two columns
/// meet where a row has both. Columns are renumbered in the order of their elimination ("places").
/// Consecutive places whose columns of the factor look alike form a front.
/// Source: nested dissection by METIS; fronts as in Duff and Reid, "The multifrontal solution of
/// indefinite sparse symmetric linear equations" (1983).
struct Elimination {
  struct Front {
    std::uint32_t first, pivots;  ///< its places are [first, first + pivots)
    std::size_t begin, end;       ///< its rows, into `rows`: pivots first, then later places
    std::uint32_t parent;         ///< front; `none` for a root
    std::uint32_t size() const { return static_cast<std::uint32_t>(end - begin); }
  };
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  std::vector<std::uint32_t> place;  ///< [num_columns] the place of a column
  std::vector<Front> fronts;         ///< each behind its children; the last child right before
  std::vector<std::uint32_t> rows;   ///< places, ascending in each front

  std::size_t entries() const;     ///< of the factor, zeros in fronts included
  double multiplications() const;  ///< of one factorisation
};

/// The same program, the same order. May be called from several threads at once.
Elimination elimination_of(const LinearProgram& program);

}  // namespace baechi::solver
