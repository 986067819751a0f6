/// The normal matrix of a linear program, factored as L L^T.
#pragma once

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

class NormalMatrix {
 public:
  /// The matrix A^T D A + E, where A has the rows of `program`, and D and E are diagonal.
  explicit NormalMatrix(const LinearProgram& program);

  const Elimination& elimination() const { return order_; }

  /// D = `row` [num_rows], E = `column` [num_columns], all >= 0. A pivot that rounds to 0 counts as
  /// infinite, which leaves its column unchanged. Bitwise equal on every machine.
  void factor(std::span<const double> row, std::span<const double> column);

  /// Replaces `b` [num_columns] by the solution of the last factor() for the right side b.
  void solve(std::span<double> b) const;

 private:
  struct Product {          // of two terms of a row
    std::uint32_t row, at;  // its position in the front
    double factor;
  };
  void assemble(const Elimination::Front& front, std::size_t number, std::span<const double> row,
                std::span<const double> column);
  void add_children(const Elimination::Front& front);

  Elimination order_;
  std::vector<std::uint32_t> column_;        // [places] the column of a place
  std::vector<Product> products_;            // by front
  std::vector<std::size_t> products_begin_;  // [fronts + 1]
  std::vector<std::size_t> factor_begin_;    // [fronts] into factor_
  std::vector<double> factor_;               // of each front, its columns of L
  std::vector<double> front_;                // the current front
  std::vector<double> waiting_;          // stack of the children's contributions to their parents
  std::vector<std::uint32_t> children_;  // fronts of waiting_
  std::vector<std::uint32_t> where_;     // [places] position in the current front
};

}  // namespace baechi::solver
