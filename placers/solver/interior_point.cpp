#include <algorithm>

#include "placers/solver/normal_matrix.h"
#include "sim/random.h"

namespace baechi::solver {
namespace {

/// One value for each inequality: the rows, then the bounds of columns.
using Values = std::vector<double>;

/// A program as G z <= b: the rows, negated if they have a lower bound; then -z <= -lower and z <=
/// upper.
class Inequalities {
 public:
  struct Bound {
    std::uint32_t column;
    double sign;  // 1: upper
  };

  explicit Inequalities(const LinearProgram& program);

  std::size_t size() const { return b_.size(); }
  std::size_t num_rows() const { return program_.num_rows(); }
  const Values& b() const { return b_; }
  double sign(std::size_t row) const { return sign_[row]; }
  const std::vector<Bound>& bounds() const { return bounds_; }

  void times(std::span<const double> z, Values& y) const;           // y = G z
  void add_transposed(const Values& y, std::span<double> z) const;  // z += G^T y

 private:
  const LinearProgram& program_;
  std::vector<double> sign_;  // [num_rows]
  std::vector<Bound> bounds_;
  Values b_;
};

Inequalities::Inequalities(const LinearProgram& program) : program_(program) {
  for (std::size_t i = 0; i < program.num_rows(); ++i) {
    const bool upper = program.row_upper[i] < LinearProgram::infinity;
    BAECHI_CHECK(upper != (program.row_lower[i] > -LinearProgram::infinity),
                 "row {} has two bounds", i);
    sign_.push_back(upper ? 1.0 : -1.0);
    b_.push_back(upper ? program.row_upper[i] : -program.row_lower[i]);
  }
  for (std::uint32_t j = 0; j < program.num_columns(); ++j) {
    if (program.column_lower[j] > -LinearProgram::infinity) {
      bounds_.push_back({j, -1.0});
      b_.push_back(-program.column_lower[j]);
    }
    if (program.column_upper[j] < LinearProgram::infinity) {
      bounds_.push_back({j, 1.0});
      b_.push_back(program.column_upper[j]);
    }
  }
  // At a degenerate vertex it is ambiguous which rows are in the basis, so each row is perturbed by
  // another amount. 1e-4 of an x is corrected by a few steps of the simplex method.
  constexpr double moved = 1e-4;
  Random random(1);
  for (double& value : b_) value += moved * (1.0 + random.uniform());
}

void Inequalities::times(std::span<const double> z, Values& y) const {
  for (std::size_t i = 0; i < num_rows(); ++i) {
    double sum = 0.0;
    for (std::size_t t = program_.row_begin[i]; t < program_.row_begin[i + 1]; ++t)
      sum += program_.terms[t].factor * z[program_.terms[t].column];
    y[i] = sign_[i] * sum;
  }
  for (std::size_t k = 0; k < bounds_.size(); ++k)
    y[num_rows() + k] = bounds_[k].sign * z[bounds_[k].column];
}

void Inequalities::add_transposed(const Values& y, std::span<double> z) const {
  for (std::size_t i = 0; i < num_rows(); ++i)
    for (std::size_t t = program_.row_begin[i]; t < program_.row_begin[i + 1]; ++t)
      z[program_.terms[t].column] += program_.terms[t].factor * sign_[i] * y[i];
  for (std::size_t k = 0; k < bounds_.size(); ++k)
    z[bounds_[k].column] += bounds_[k].sign * y[num_rows() + k];
}

double largest(std::span<const double> values) {
  double most = 0.0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

/// The largest step along `dx` for which all of `x` stays positive.
double longest_step(const Values& x, const Values& dx) {
  double step = LinearProgram::infinity;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (dx[i] < 0.0) step = std::min(step, -x[i] / dx[i]);
  return step;
}

// At convergence, either the price or the slack of an inequality is almost 0.
constexpr double equal = 1e-4;  // least price / slack of an active inequality
constexpr double clear = 1e2;   // distance from `equal` at which the decision is unambiguous

Basis::Rest& rest(Basis& basis, const InteriorOptimum::Bound& bound) {
  return (bound.of_row ? basis.rows : basis.columns)[bound.index];
}

/// Primal-dual steps with Mehrotra's predictor and corrector, towards G z + slack = b and
/// c + G^T price = 0. Slack and price stay positive, and their products go to 0.
/// Source: Mehrotra, "On the implementation of a primal-dual interior point method" (1992).
class InteriorPoint {
 public:
  InteriorPoint(const LinearProgram& program, NormalMatrix& normal);

  /// True once it is unambiguous which inequalities are active; false if the method does not
  /// converge.
  bool run();
  InteriorOptimum optimum() const;

 private:
  void start();
  void factor(const Values& weight);
  void find_residuals();
  bool done() const;
  void step();
  void find_direction(const Values& product);

  const LinearProgram& program_;
  NormalMatrix& normal_;
  Inequalities g_;
  std::vector<double> c_, z_, dz_, dual_residual_, bounds_weight_;  // [num_columns]
  Values slack_, price_, d_slack_, d_price_, primal_residual_, product_, at_;
  double mean_ = 0.0;  // of price * slack
  double size_ = 1.0;  // the norm of b
};

InteriorPoint::InteriorPoint(const LinearProgram& program, NormalMatrix& normal)
    : program_(program),
      normal_(normal),
      g_(program),
      c_(program.num_columns()),
      z_(c_.size()),
      dz_(c_.size()),
      dual_residual_(c_.size()),
      bounds_weight_(c_.size()),
      slack_(g_.size()),
      price_(g_.size()),
      d_slack_(g_.size()),
      d_price_(g_.size()),
      primal_residual_(g_.size()),
      product_(g_.size()),
      at_(g_.size()),
      size_(1.0 + largest(g_.b())) {
  constexpr std::array weights{1.0, 1e-5, 1e-6};
  for (std::size_t k = 0; k < program.objectives.size(); ++k)
    for (std::size_t j = 0; j < c_.size(); ++j)
      c_[j] += weights[std::min(k, weights.size() - 1)] * program.objectives[k][j];
}

void InteriorPoint::factor(const Values& weight) {
  constexpr double regular = 1e-12;  // a column without any weight keeps a pivot
  std::ranges::fill(bounds_weight_, regular);
  for (std::size_t k = 0; k < g_.bounds().size(); ++k)
    bounds_weight_[g_.bounds()[k].column] += weight[g_.num_rows() + k];
  normal_.factor(std::span(weight).first(g_.num_rows()), bounds_weight_);
}

/// Mehrotra's start: the least-squares slack and price, shifted until both are positive.
void InteriorPoint::start() {
  factor(Values(g_.size(), 1.0));
  g_.add_transposed(g_.b(), z_);
  normal_.solve(z_);
  g_.times(z_, at_);
  for (std::size_t i = 0; i < at_.size(); ++i) slack_[i] = g_.b()[i] - at_[i];
  dz_ = c_;
  normal_.solve(dz_);
  g_.times(dz_, price_);
  for (double& value : price_) value = -value;
  for (Values* values : {&slack_, &price_}) {
    const double least = *std::ranges::min_element(*values);
    for (double& value : *values) value += std::max(0.0, -1.5 * least);
  }
  double product = 0.0, slacks = 0.0, prices = 0.0;
  for (std::size_t i = 0; i < slack_.size(); ++i) {
    product += slack_[i] * price_[i];
    slacks += slack_[i];
    prices += price_[i];
  }
  for (std::size_t i = 0; i < slack_.size(); ++i) {
    slack_[i] += 0.5 * product / prices;
    price_[i] += 0.5 * product / slacks;
  }
}

void InteriorPoint::find_residuals() {
  g_.times(z_, at_);
  double product = 0.0;
  for (std::size_t i = 0; i < at_.size(); ++i) {
    // Rounding errors of z are not residuals: they would be large compared with a small slack.
    const double residual = at_[i] + slack_[i] - g_.b()[i];
    primal_residual_[i] = std::abs(residual) < 3e-15 * size_ ? 0.0 : residual;
    product += price_[i] * slack_[i];
  }
  mean_ = product / static_cast<double>(at_.size());
  dual_residual_ = c_;
  g_.add_transposed(price_, dual_residual_);
}

bool InteriorPoint::done() const {
  constexpr double small = 1e-14, smallest = 1e-18, exact = 1e-7;
  if (mean_ > small) return false;
  std::size_t unclear = 0;
  for (std::size_t i = 0; i < slack_.size(); ++i) {
    const double ratio = price_[i] / slack_[i];
    unclear += ratio < equal * clear && ratio * clear > equal ? 1U : 0U;
  }
  return unclear <= slack_.size() / 5000 || mean_ < smallest || largest(dual_residual_) > exact;
}

/// Newton's direction that reduces price * slack by `product` on each inequality.
void InteriorPoint::find_direction(const Values& product) {
  for (std::size_t i = 0; i < at_.size(); ++i)
    at_[i] = (price_[i] * primal_residual_[i] - product[i]) / slack_[i];
  std::ranges::copy(dual_residual_, dz_.begin());
  g_.add_transposed(at_, dz_);
  for (double& value : dz_) value = -value;
  normal_.solve(dz_);
  g_.times(dz_, d_slack_);
  for (std::size_t i = 0; i < at_.size(); ++i) {
    d_slack_[i] = -primal_residual_[i] - d_slack_[i];
    d_price_[i] = (-product[i] - price_[i] * d_slack_[i]) / slack_[i];
  }
}

void InteriorPoint::step() {
  for (std::size_t i = 0; i < at_.size(); ++i) {
    at_[i] = price_[i] / slack_[i];
    product_[i] = price_[i] * slack_[i];
  }
  factor(at_);
  find_direction(product_);
  const double primal = std::min(1.0, longest_step(slack_, d_slack_));
  const double dual = std::min(1.0, longest_step(price_, d_price_));
  double ahead = 0.0;
  for (std::size_t i = 0; i < at_.size(); ++i)
    ahead += (slack_[i] + primal * d_slack_[i]) * (price_[i] + dual * d_price_[i]);
  ahead /= static_cast<double>(at_.size());
  const double share = ahead / mean_, centre = share * share * share * mean_;
  for (std::size_t i = 0; i < at_.size(); ++i) product_[i] += d_slack_[i] * d_price_[i] - centre;
  find_direction(product_);
  const double keep = std::clamp(1.0 - mean_, 0.95, 0.9995);
  const double along = std::min(1.0, keep * longest_step(slack_, d_slack_));
  const double along_dual = std::min(1.0, keep * longest_step(price_, d_price_));
  for (std::size_t j = 0; j < z_.size(); ++j) z_[j] += along * dz_[j];
  for (std::size_t i = 0; i < at_.size(); ++i) {
    slack_[i] += along * d_slack_[i];
    price_[i] += along_dual * d_price_[i];
  }
}

bool InteriorPoint::run() {
  constexpr int most = 120;  // typical programs take 50 to 75
  start();
  for (int i = 0; i < most; ++i) {
    find_residuals();
    if (done()) return true;
    if (!(mean_ < LinearProgram::infinity)) return false;  // also false for NaN
    step();
  }
  return false;
}

InteriorOptimum InteriorPoint::optimum() const {
  InteriorOptimum result{.basis = {.columns = std::vector(z_.size(), Basis::Rest::basic),
                                   .rows = std::vector(g_.num_rows(), Basis::Rest::basic)},
                         .bounds = {},
                         .x = z_,
                         .cost = c_};
  for (std::size_t i = 0; i < slack_.size(); ++i) {
    const bool row = i < g_.num_rows();
    const double sign = row ? g_.sign(i) : g_.bounds()[i - g_.num_rows()].sign;
    result.bounds.push_back(
        {.hold = price_[i] / slack_[i],
         .of_row = row,
         .index = row ? static_cast<std::uint32_t>(i) : g_.bounds()[i - g_.num_rows()].column,
         .at = sign > 0.0 ? Basis::Rest::at_upper : Basis::Rest::at_lower});
  }
  std::ranges::stable_sort(result.bounds, std::greater{}, &InteriorOptimum::Bound::hold);
  for (const InteriorOptimum::Bound& bound : result.bounds)
    if (bound.hold >= equal) rest(result.basis, bound) = bound.at;
  for (std::uint32_t j = 0; j < z_.size(); ++j)
    result.x[j] = std::clamp(z_[j], program_.column_lower[j], program_.column_upper[j]);
  return result;
}

/// Whether rows have so few terms that all pairs can be stored.
bool rows_are_short(const LinearProgram& program) {
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < program.num_rows(); ++i) {
    const std::size_t terms = program.row_begin[i + 1] - program.row_begin[i];
    pairs += terms * terms;
  }
  return pairs <= 50 * program.terms.size();
}

}  // namespace

void InteriorOptimum::balance() {
  std::size_t basics = 0;
  for (const auto* rests : {&basis.columns, &basis.rows})
    basics += static_cast<std::size_t>(std::ranges::count(*rests, Basis::Rest::basic));
  for (const Bound& bound : bounds) {
    if (basics <= basis.rows.size()) break;
    if (rest(basis, bound) != Basis::Rest::basic) continue;
    rest(basis, bound) = bound.at;
    --basics;
  }
  for (std::size_t i = bounds.size(); i-- > 0 && basics < basis.rows.size();) {
    if (bounds[i].hold < equal || rest(basis, bounds[i]) == Basis::Rest::basic) continue;
    rest(basis, bounds[i]) = Basis::Rest::basic;
    ++basics;
  }
}

std::optional<InteriorOptimum> interior_optimum(const LinearProgram& program,
                                                double most_multiplications) {
  if (!rows_are_short(program)) return std::nullopt;
  NormalMatrix normal(program);
  if (normal.elimination().multiplications() > most_multiplications) return std::nullopt;
  InteriorPoint method(program, normal);
  if (!method.run()) return std::nullopt;
  return method.optimum();
}

}  // namespace baechi::solver
