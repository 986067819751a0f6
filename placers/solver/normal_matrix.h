/// The normal matrix of a linear program, factored as L L^T.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "placers/solver/elimination.h"

namespace baechi::solver {

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
