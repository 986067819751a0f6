/// A search for numbers that explain measurements, one number at a time.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace baechi::validate {

/// Minimises, over x, the sum over the rows of loss(row, x), and `pull` times the sum over the
/// numbers of weight |x - start|: a number that no row has much to say about stays where it starts.
struct SearchProblem {
  struct Number {
    double start = 0.0;
    double weight = 0.0;                ///< of the pull towards `start`
    std::vector<std::uint32_t> rows{};  ///< those whose loss depends on it
  };
  std::vector<Number> numbers;
  std::size_t rows = 0;
  double pull = 0.0;
  std::function<double(std::uint32_t row, std::span<const double> x)> loss;
};

/// Coordinate search with a step per number, which grows where it succeeds and halves where it
/// fails; first from the starts, then from `restarts` random points around those that have no
/// weight. The best x of all; ties: the first. The same for the same problem. `use` [rows]: rows
/// that count.
std::vector<double> search(const SearchProblem& problem, const std::vector<bool>& use,
                           int restarts);

}  // namespace baechi::validate
