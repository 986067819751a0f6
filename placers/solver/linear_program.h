/// Linear and integer programs, and their solvers: CLP, CBC, and an interior point method.
#pragma once

#include "sim/options.h"

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

/// Where the simplex method starts.
struct Start {
  Basis basis;
  /// [num_columns] An objective for which no or few reduced costs of `basis` have a wrong sign. It
  /// is minimised first, by the dual simplex method. Empty: none.
  std::vector<double> cost{};
};

/// Minimises the objectives of `program` in turn by the simplex method: primal from `start` if
/// given, else dual from the slack basis. Between two objectives every column and row with a
/// reduced cost is fixed at its bound, which leaves exactly the optima so far. The same program and
/// start give the same answer. Thread-safe. The caller checks the status.
LinearOptimum solve(const LinearProgram& program, const Start* start = nullptr);

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

/// A linear program with columns that must be integers. It has one objective.
struct MixedProgram {
  LinearProgram relaxation;
  std::vector<std::uint32_t> whole;  ///< columns
};

/// Early stops. Iterations are those of the simplex method, checked after each node. If `nodes` is
/// below a hundredth of them, there are 100 for each node, at least 2,000, and they also end the
/// relaxation, and as many rounds of cuts at the root as nodes, at least 10; otherwise the
/// relaxation may take ten times as many.
struct MixedLimits {
  std::int64_t nodes = 0;
  std::int64_t iterations = 0;
  std::int64_t terms = 0;  ///< a program with more nonzeros is not solved
  Duration time{};         ///< wall-clock; none if 0. The only limit whose effect may vary
};

/// The limits as options of a placer. With the defaults a small program takes seconds, the largest
/// that is solved about a minute.
MixedLimits mixed_limits(Options& options);

struct MixedOptimum {
  std::string_view limit{};     ///< the option of mixed_limits() that was reached; empty: none
  std::vector<double> x;        ///< the best found [num_columns]; empty if there is none
  double bound = 0.0;           ///< a lower bound on the objective of any solution; -inf: not begun
  std::int64_t nodes = 0;       ///< nodes of branch and bound
  std::int64_t iterations = 0;  ///< of the simplex method

  bool finished() const { return limit.empty(); }
};

/// Minimises with one thread. The same program and limits, except for time, give the same answer.
/// Thread-safe.
MixedOptimum solve(const MixedProgram& program, const MixedLimits& limits);

}  // namespace baechi::solver
