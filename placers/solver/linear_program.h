/// A linear program in rows, independent of any solver.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace baechi::solver {

/// column_lower <= x <= column_upper and row_lower <= A x <= row_upper. The solution minimises the
/// first objective; among its minima, the second; and so on.
struct LinearProgram {
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  struct Term {
    std::uint32_t column;
    double factor;
  };

  std::vector<double> column_lower, column_upper;  // [num_columns]
  std::vector<double> row_lower, row_upper;        // [num_rows]
  std::vector<Term> terms;                         // of row 0, then of row 1, ...
  std::vector<std::size_t> row_begin{0};           // [num_rows + 1], into terms
  std::vector<std::vector<double>> objectives;     // each [num_columns]

  std::size_t num_columns() const { return column_lower.size(); }
  std::size_t num_rows() const { return row_lower.size(); }

  std::uint32_t add_column(double lower, double upper) {
    column_lower.push_back(lower);
    column_upper.push_back(upper);
    return static_cast<std::uint32_t>(num_columns() - 1);
  }
  std::uint32_t add_row(double lower, std::span<const Term> row, double upper) {
    terms.insert(terms.end(), row.begin(), row.end());
    row_begin.push_back(terms.size());
    row_lower.push_back(lower);
    row_upper.push_back(upper);
    return static_cast<std::uint32_t>(num_rows() - 1);
  }
};

/// A vertex, given by the rows and columns that rest at a bound. The number of `basic` rows and
/// columns together equals the number of rows.
struct Basis {
  enum class Rest : std::uint8_t { basic, at_lower, at_upper };
  std::vector<Rest> columns;  // [num_columns]
  std::vector<Rest> rows;     // [num_rows]
};

struct LinearOptimum {
  enum class Status : std::uint8_t { optimal, infeasible, unbounded, gave_up };
  Status status = Status::gave_up;  ///< unless optimal, the other members are meaningless
  std::vector<double> x;            ///< [num_columns]
  std::vector<double> row_dual;     ///< [num_rows], of the first objective; < 0 at an upper bound
  /// The number of objectives that x minimises in turn: fewer than the program has (but at least
  /// one) if rounding errors stopped the solver.
  std::size_t objectives = 0;
};

}  // namespace baechi::solver
