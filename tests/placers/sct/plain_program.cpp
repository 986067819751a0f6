#include "tests/placers/sct/plain_program.h"

#include <doctest/doctest.h>

#include <numeric>

#include "placers/solver/linear_program.h"
#include "sim/random.h"

namespace baechi::testing {

using namespace baechi::solver;

std::vector<double> canonical_x_the_long_way(const SctGraph& g) {
  LinearProgram lp;
  const std::size_t num_edges = g.edges.size(), num_ops = g.compute.size();
  for (std::size_t e = 0; e < num_edges; ++e) lp.add_column(0.0, 1.0);
  for (std::size_t v = 0; v <= num_ops; ++v) lp.add_column(0.0, LinearProgram::infinity);
  const auto start = [&](std::size_t v) { return static_cast<std::uint32_t>(num_edges + v); };
  const auto w = start(num_ops);
  const auto ns = [](Duration d) { return static_cast<double>(d.count()); };
  std::vector<std::vector<LinearProgram::Term>> out(num_ops), in(num_ops);
  std::vector<double> communication(num_edges + num_ops + 1), preference(num_edges + num_ops + 1);
  for (std::uint32_t e = 0; e < num_edges; ++e) {
    const auto& [u, v, c] = g.edges[e];
    lp.add_row(-LinearProgram::infinity, {{{e, ns(c)}, {start(u), 1.0}, {start(v), -1.0}}},
               -ns(g.compute[u]));
    out[u].push_back({e, 1.0});
    in[v].push_back({e, 1.0});
    communication[e] = ns(c);
    preference[e] =
        1.0 / static_cast<double>(out[u].size() * in[v].size()) + Random(e).uniform() / 64.0;
  }
  for (std::size_t v = 0; v < num_ops; ++v) {
    lp.add_row(-LinearProgram::infinity, {{{start(v), 1.0}, {w, -1.0}}}, -ns(g.compute[v]));
    for (const auto& row : {out[v], in[v]})
      if (!row.empty())
        lp.add_row(static_cast<double>(row.size()) - 1.0, row, LinearProgram::infinity);
  }
  std::vector<double> makespan_only(lp.num_columns());
  makespan_only[w] = 1.0;
  std::vector<double> x;
  for (const auto& objective : {makespan_only, communication, preference}) {
    lp.objectives = {objective};
    const LinearOptimum optimum = solve(lp);
    REQUIRE(optimum.status == LinearOptimum::Status::optimal);
    x = optimum.x;
    const double value = std::inner_product(x.begin(), x.end(), objective.begin(), 0.0);
    std::vector<LinearProgram::Term> row;
    for (std::uint32_t c = 0; c < lp.num_columns(); ++c) row.push_back({c, objective[c]});
    lp.add_row(-LinearProgram::infinity, row, value + 1e-8);
  }
  x.resize(num_edges);
  return x;
}

}  // namespace baechi::testing
