/// The elimination order of the columns of a linear program's normal matrix, and its fill-in.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "placers/solver/linear_program.h"

namespace baechi::solver {

/// The normal matrix of a program with rows A is A^T D A + E, with diagonal D and E: two columns
/// are neighbours where a row has both. Columns are renumbered in the order of their elimination
/// ("places"). Consecutive places with similar columns of the factor form a front.
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
  std::vector<Front> fronts;         ///< each after its children; the last child directly before it
  std::vector<std::uint32_t> rows;   ///< places, ascending in each front

  std::size_t entries() const;     ///< of the factor, including explicit zeros in fronts
  double multiplications() const;  ///< of one factorisation
};

/// Deterministic and thread-safe.
Elimination elimination_of(const LinearProgram& program);

}  // namespace baechi::solver
