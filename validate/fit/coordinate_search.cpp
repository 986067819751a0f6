#include "validate/fit/coordinate_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/random.h"

namespace baechi::validate {
namespace {

class Walk {
 public:
  Walk(const SearchProblem& problem, const std::vector<bool>& use, std::vector<double> from)
      : p_(problem), x_(std::move(from)), loss_(problem.rows, 0.0), used_(problem.numbers.size()) {
    for (std::uint32_t row = 0; row < p_.rows; ++row)
      if (use[row]) loss_[row] = p_.loss(row, x_);
    for (std::size_t i = 0; i < used_.size(); ++i)
      std::ranges::copy_if(p_.numbers[i].rows, std::back_inserter(used_[i]),
                           [&](std::uint32_t row) { return use[row]; });
  }

  void descend(Random& random) {
    constexpr int most_sweeps = 200;
    constexpr double first_step = 0.3, least_step = 2e-3, largest_step = 1.0, little = 1e-3;
    std::vector<double> step(x_.size(), first_step);
    std::vector<std::size_t> order(x_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int sweep = 0; sweep < most_sweeps; ++sweep) {
      for (std::size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
      double gained = 0.0;
      for (const std::size_t i : order) {
        const double at = x_[i];
        // Back to where it is pulled to, before a small step either way.
        if (p_.numbers[i].weight > 0.0 && at != p_.numbers[i].start)
          gained += try_value(i, p_.numbers[i].start);
        if (x_[i] != at) continue;
        for (const double to : {at + step[i], at - step[i]})
          if (x_[i] == at) gained += try_value(i, to);
        step[i] = x_[i] != at ? std::min(1.3 * step[i], largest_step)
                              : std::max(0.5 * step[i], least_step);
      }
      const bool smallest = std::ranges::all_of(step, [](double s) { return s <= least_step; });
      if (gained < little && smallest) return;
    }
  }

  double total() const {
    double sum = std::accumulate(loss_.begin(), loss_.end(), 0.0);
    for (std::size_t i = 0; i < x_.size(); ++i) sum += pulled(i, x_[i]);
    return sum;
  }
  const std::vector<double>& x() const { return x_; }

 private:
  double pulled(std::size_t i, double x) const {
    return p_.pull * p_.numbers[i].weight * std::abs(x - p_.numbers[i].start);
  }

  /// Sets number `i` if that is better; what is gained.
  double try_value(std::size_t i, double to) {
    const double from = x_[i];
    double worse = pulled(i, to) - pulled(i, from);
    x_[i] = to;
    next_.clear();
    for (const std::uint32_t row : used_[i]) {
      next_.push_back(p_.loss(row, x_));
      worse += next_.back() - loss_[row];
    }
    if (!(worse < -1e-7)) {
      x_[i] = from;
      return 0.0;
    }
    for (std::size_t k = 0; k < next_.size(); ++k) loss_[used_[i][k]] = next_[k];
    return -worse;
  }

  const SearchProblem& p_;
  std::vector<double> x_;
  std::vector<double> loss_;                      // [rows], 0 where a row does not count
  std::vector<std::vector<std::uint32_t>> used_;  // [numbers], rows that count
  std::vector<double> next_;
};

}  // namespace

std::vector<double> search(const SearchProblem& problem, const std::vector<bool>& use,
                           int restarts) {
  std::vector<double> best;
  double least = 0.0;
  for (int from = 0; from <= restarts; ++from) {
    Random random(static_cast<std::uint64_t>(from) + 1);
    std::vector<double> start;
    for (const SearchProblem::Number& n : problem.numbers)
      start.push_back(n.start + (from > 0 && n.weight == 0.0 ? 0.3 * random.gauss() : 0.0));
    Walk walk(problem, use, std::move(start));
    walk.descend(random);
    if (const double total = walk.total(); best.empty() || total < least) {
      least = total;
      best = walk.x();
    }
  }
  return best;
}

}  // namespace baechi::validate
