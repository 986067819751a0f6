/// solve_sct: what is handed to the solver, from where it starts, and the proof of its answer.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "placers/lp/clp.h"
#include "placers/lp/favourite_child.h"
#include "placers/lp/sct_network.h"
#include "sim/error.h"
#include "sim/random.h"

namespace baechi {
namespace {

using Term = LinearProgram::Term;
using Rest = Basis::Rest;
constexpr std::uint32_t none = ~std::uint32_t{0};

/// A good x of zeros and ones: the edges on the longest paths go first. As that makes other paths
/// the longest, it is done again and again, each time on the running mean of the choices so far,
/// and the choice with the least makespan is returned. [num_edges]
std::vector<double> greedy_x(const SctNetwork& net) {
  constexpr int rounds = 20;
  std::vector<double> best(net.num_edges(), 1.0);
  std::vector<double> mean = best;
  double least = net.paths(best).longest;
  std::vector<double> through(net.num_edges());
  std::vector<std::uint32_t> first(net.num_edges());
  for (int round = 0; round < rounds; ++round) {
    const SctNetwork::Paths paths = net.paths(mean);
    for (std::uint32_t e = 0; e < net.num_edges(); ++e)
      through[e] = net.through(paths, e, /*x=*/1.0);
    std::iota(first.begin(), first.end(), 0U);
    std::ranges::sort(first, [&](std::uint32_t a, std::uint32_t b) {
      return through[a] != through[b] ? through[a] > through[b] : a < b;
    });
    std::vector<bool> has_favourite(net.num_ops()), has_parent(net.num_ops());
    std::vector<double> x(net.num_edges(), 1.0);
    for (const std::uint32_t e : first) {
      if (has_favourite[net.src(e)] || has_parent[net.dst(e)]) continue;
      has_favourite[net.src(e)] = has_parent[net.dst(e)] = true;
      x[e] = 0.0;
    }
    for (std::uint32_t e = 0; e < net.num_edges(); ++e) mean[e] = (mean[e] + x[e]) / 2.0;
    if (const double longest = net.paths(x).longest; longest < least) {
      least = longest;
      best = std::move(x);
    }
  }
  return best;
}

/// The program for the solver, without what cannot matter:
/// - an edge that is alone at both its ends has x = 0, and its ops are one (a chain has one start);
/// - an edge on no path longer, at x = 1, than the longest path at x = 0, has no row of time.
/// Times are scaled by a power of two to about 1000.
class SctProgram {
 public:
  /// `about`: a makespan not far from the optimum, which times are scaled by.
  SctProgram(const SctNetwork& net, double about, bool canonical);

  LinearProgram program;

  /// The longest-path tree of x (of zeros and ones), as a vertex.
  Basis vertex_of(const std::vector<double>& x) const;
  std::vector<double> x_of(const LinearOptimum& optimum) const;
  SctNetwork::Duals duals_of(const LinearOptimum& optimum) const;

 private:
  void add_times();
  void add_degrees();
  void add_objectives(bool canonical);

  const SctNetwork& net_;
  double scale_ = 1.0;
  SctNetwork::Paths without_;                // paths at x = 0
  std::vector<std::uint32_t> x_column_;      // [num_edges], or none: fixed at 0
  std::vector<std::uint32_t> start_column_;  // [num_ops], of the chain's first op; or none
  std::vector<double> since_start_;          // [num_ops], from the chain's start to the op's
  std::vector<std::uint32_t> time_row_;      // [num_edges], or none
  std::vector<std::uint32_t> end_row_;       // [num_ops], or none
  std::vector<std::uint32_t> out_row_;       // [num_ops], or none
  std::vector<std::uint32_t> in_row_;        // [num_ops], or none
  std::uint32_t w_column_ = none;
};

SctProgram::SctProgram(const SctNetwork& net, double about, bool canonical)
    : net_(net), without_(net.paths(std::vector(net.num_edges(), 0.0))) {
  if (about > 0.0) scale_ = std::exp2(10 - std::ilogb(about));
  x_column_.assign(net.num_edges(), none);
  for (std::uint32_t e = 0; e < net.num_edges(); ++e)
    if (!net.alone(e)) x_column_[e] = program.add_column(0.0, 1.0);
  add_times();
  add_degrees();
  add_objectives(canonical);
}

void SctProgram::add_times() {
  const SctNetwork::Paths with = net_.paths(std::vector(net_.num_edges(), 1.0));
  std::vector<bool> binds(net_.num_edges());
  std::vector<bool> timed(net_.num_ops()), precedes(net_.num_ops());
  for (std::uint32_t e = 0; e < net_.num_edges(); ++e) {
    if (net_.alone(e) || net_.through(with, e, 1.0) <= without_.longest) continue;
    binds[e] = timed[net_.src(e)] = timed[net_.dst(e)] = precedes[net_.src(e)] = true;
  }

  start_column_.assign(net_.num_ops(), none);
  since_start_.assign(net_.num_ops(), 0.0);
  std::vector<std::uint32_t> chain(net_.num_ops());
  for (const std::uint32_t v : net_.order()) {
    chain[v] = v;
    const auto in = net_.in_edges(v);
    if (in.size() != 1 || !net_.alone(in[0])) continue;
    const std::uint32_t u = net_.src(in[0]);
    chain[v] = chain[u];
    since_start_[v] = since_start_[u] + net_.compute(u);
  }
  for (std::uint32_t v = 0; v < net_.num_ops(); ++v)
    if (timed[v] && start_column_[chain[v]] == none)
      start_column_[chain[v]] =
          program.add_column(without_.head[chain[v]] * scale_, LinearProgram::infinity);
  for (std::uint32_t v = 0; v < net_.num_ops(); ++v) start_column_[v] = start_column_[chain[v]];
  w_column_ = program.add_column(without_.longest * scale_, LinearProgram::infinity);

  time_row_.assign(net_.num_edges(), none);
  for (std::uint32_t e = 0; e < net_.num_edges(); ++e) {
    if (!binds[e]) continue;
    const std::uint32_t u = net_.src(e), v = net_.dst(e);
    time_row_[e] = program.add_row(-LinearProgram::infinity,
                                   {{Term{x_column_[e], net_.communication(e) * scale_},
                                     Term{start_column_[u], 1.0}, Term{start_column_[v], -1.0}}},
                                   -(since_start_[u] + net_.compute(u)) * scale_);
  }

  // A chain whose last op precedes nothing that binds must end in time itself.
  end_row_.assign(net_.num_ops(), none);
  for (std::uint32_t v = 0; v < net_.num_ops(); ++v) {
    const auto out = net_.out_edges(v);
    const bool last = out.size() != 1 || !net_.alone(out[0]);
    if (start_column_[v] == none || !last || precedes[v]) continue;
    end_row_[v] = program.add_row(-LinearProgram::infinity,
                                  {{Term{start_column_[v], 1.0}, Term{w_column_, -1.0}}},
                                  -(since_start_[v] + net_.compute(v)) * scale_);
  }
}

void SctProgram::add_degrees() {
  std::vector<Term> row;
  const auto degree = [&](std::span<const std::uint32_t> edges) {
    if (edges.size() < 2) return none;  // implied by x >= 0
    row.clear();
    for (const std::uint32_t e : edges) row.push_back({x_column_[e], 1.0});
    return program.add_row(static_cast<double>(edges.size()) - 1.0, row, LinearProgram::infinity);
  };
  for (std::uint32_t v = 0; v < net_.num_ops(); ++v) {
    out_row_.push_back(degree(net_.out_edges(v)));
    in_row_.push_back(degree(net_.in_edges(v)));
  }
}

void SctProgram::add_objectives(bool canonical) {
  program.objectives.assign(canonical ? 3 : 1, std::vector(program.num_columns(), 0.0));
  program.objectives[0][w_column_] = 1.0;
  if (!canonical) return;

  double total = 0.0;
  for (std::uint32_t e = 0; e < net_.num_edges(); ++e) total += net_.communication(e);
  const double mean = total > 0.0 ? total / static_cast<double>(net_.num_edges()) : 1.0;
  std::vector<double> preference(net_.num_edges(), 1.0);
  for (std::uint32_t v = 0; v < net_.num_ops(); ++v)
    for (const auto edges : {net_.out_edges(v), net_.in_edges(v)})
      for (std::size_t i = 0; i < edges.size(); ++i)
        preference[edges[i]] /= static_cast<double>(i + 1);
  for (std::uint32_t e = 0; e < net_.num_edges(); ++e) {
    if (x_column_[e] == none) continue;
    program.objectives[1][x_column_[e]] = net_.communication(e) / mean;
    program.objectives[2][x_column_[e]] = preference[e] + Random(e).uniform() / 64.0;
  }
}

Basis SctProgram::vertex_of(const std::vector<double>& x) const {
  Basis basis{.columns = std::vector(program.num_columns(), Rest::at_lower),
              .rows = std::vector(program.num_rows(), Rest::basic)};
  // A chosen edge (x = 0) is basic in place of a degree it uses up: that prices the degree, as the
  // optimum does, and saves the solver most of its steps.
  for (std::uint32_t e = 0; e < net_.num_edges(); ++e) {
    if (x_column_[e] == none) continue;
    Rest& rest = basis.columns[x_column_[e]];
    if (x[e] > 0.0) {
      rest = Rest::at_upper;
      continue;
    }
    const std::uint32_t out = out_row_[net_.src(e)], in = in_row_[net_.dst(e)];
    basis.rows[out != none ? out : in] = Rest::at_lower;  // not both are none: e is not alone
    rest = Rest::basic;
  }

  std::vector<double> start = program.column_lower;  // [num_columns], used for starts and w
  const auto ends = [&](std::uint32_t v) {
    return start[start_column_[v]] + (since_start_[v] + net_.compute(v)) * scale_;
  };
  std::uint32_t last = none;
  for (const std::uint32_t v : net_.order()) {
    if (start_column_[v] == none) continue;
    std::uint32_t tight = none;
    for (const std::uint32_t e : net_.in_edges(v)) {
      if (time_row_[e] == none) continue;
      const double arrives = ends(net_.src(e)) + x[e] * net_.communication(e) * scale_;
      if (arrives <= start[start_column_[v]]) continue;
      start[start_column_[v]] = arrives;
      tight = time_row_[e];
    }
    if (tight != none) {
      basis.columns[start_column_[v]] = Rest::basic;
      basis.rows[tight] = Rest::at_upper;
    }
    if (end_row_[v] == none || ends(v) <= start[w_column_]) continue;
    start[w_column_] = ends(v);
    last = end_row_[v];
  }
  if (last != none) {
    basis.columns[w_column_] = Rest::basic;
    basis.rows[last] = Rest::at_upper;
  }
  return basis;
}

std::vector<double> SctProgram::x_of(const LinearOptimum& optimum) const {
  std::vector<double> near(net_.num_edges(), 1.0);  // 1 - x
  for (std::uint32_t e = 0; e < net_.num_edges(); ++e)
    if (x_column_[e] != none) near[e] = std::clamp(1.0 - optimum.x[x_column_[e]], 0.0, 1.0);
  const auto fit = [&](std::span<const std::uint32_t> edges) {
    double sum = 0.0;
    for (const std::uint32_t e : edges) sum += near[e];
    if (sum <= 1.0) return;
    for (const std::uint32_t e : edges) near[e] /= sum;
  };
  for (std::uint32_t v = 0; v < net_.num_ops(); ++v) {
    fit(net_.out_edges(v));
    fit(net_.in_edges(v));
  }
  std::vector<double> x;
  for (const double y : near) x.push_back(1.0 - std::round(y * 0x1p36) * 0x1p-36);
  return x;
}

SctNetwork::Duals SctProgram::duals_of(const LinearOptimum& optimum) const {
  const auto of = [&](const std::vector<std::uint32_t>& rows, double factor) {
    std::vector<double> dual(rows.size(), 0.0);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i] != none) dual[i] = std::max(0.0, factor * optimum.row_dual[rows[i]]);
    return dual;
  };
  return {.edge = of(time_row_, -1.0),
          .end = of(end_row_, -1.0),
          .out = of(out_row_, 1.0 / scale_),
          .in = of(in_row_, 1.0 / scale_)};
}

}  // namespace

SctSolution solve_sct(const SctGraph& graph, const SctOptions& options) {
  constexpr double proved = 1e-7;
  const SctNetwork net(graph);
  const std::vector<double> greedy = greedy_x(net);
  const SctProgram sct(net, net.paths(greedy).longest, options.canonical);
  const Basis start = sct.vertex_of(greedy);
  const auto attempt = [&](const Basis* from) {
    const LinearOptimum optimum = solve(sct.program, from);
    SctSolution s{.x = {}, .w = LinearProgram::infinity, .lower_bound = 0.0, .canonical = false};
    if (optimum.status != LinearOptimum::Status::optimal) return s;
    s.x = sct.x_of(optimum);
    s.w = net.paths(s.x).longest;
    s.lower_bound = net.lower_bound(sct.duals_of(optimum));
    s.canonical = optimum.objectives == 3 && s.w - s.lower_bound <= proved * s.w;
    return s;
  };
  SctSolution solution = attempt(&start);
  if (solution.w - solution.lower_bound > proved * solution.w)
    if (SctSolution other = attempt(nullptr); other.w < solution.w) solution = std::move(other);
  BAECHI_CHECK(solution.x.size() == net.num_edges(), "no optimum of a program of {} rows",
               sct.program.num_rows());
  BAECHI_CHECK(net.infeasibility(solution.x) <= proved, "x breaks a degree by {}",
               net.infeasibility(solution.x));
  return solution;
}

}  // namespace baechi
