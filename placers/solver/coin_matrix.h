/// The rows of a program as a matrix of COIN-OR's solvers. For their .cpp files only.
#pragma once
#include <CoinPackedMatrix.hpp>

#include "placers/solver/linear_program.h"

namespace baechi::solver {

inline CoinPackedMatrix coin_matrix(const LinearProgram& program) {
  std::vector<int> columns;
  std::vector<double> factors;
  columns.reserve(program.terms.size());
  factors.reserve(program.terms.size());
  for (const LinearProgram::Term& term : program.terms) {
    columns.push_back(static_cast<int>(term.column));
    factors.push_back(term.factor);
  }
  std::vector<CoinBigIndex> begin;
  begin.reserve(program.row_begin.size());
  for (const std::size_t b : program.row_begin) begin.push_back(static_cast<CoinBigIndex>(b));
  return {/*colordered=*/false,
          static_cast<int>(program.num_columns()),
          static_cast<int>(program.num_rows()),
          static_cast<CoinBigIndex>(columns.size()),
          factors.data(),
          columns.data(),
          begin.data(),
          nullptr};
}

}  // namespace baechi::solver
