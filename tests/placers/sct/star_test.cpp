#include "placers/sct/sct_reduction.h"
#include "sim/random.h"
#include "tests/placers/sct/plain_program.h"
#include "tests/prelude.h"

namespace {

/// An op of 10 ns, and `n` readers or inputs of 10 ns, each 1000 ns away.
SctGraph equal_star(std::uint32_t n, bool out) {
  SctGraph g{.compute = std::vector<Duration>(n + 1, 10ns), .edges = {}};
  for (std::uint32_t i = 1; i <= n; ++i)
    g.edges.push_back({out ? 0 : i, out ? i : 0, Duration{1000}});
  return g;
}

/// From op 0 by `n` ops to the last op; all times are random.
SctGraph star_diamond(std::uint32_t n) {
  Random random(1);
  SctGraph g;
  for (std::uint32_t v = 0; v < n + 2; ++v) g.compute.emplace_back(random.below(100'000));
  for (std::uint32_t v = 1; v <= n; ++v) {
    g.edges.push_back({0, v, Duration(random.below(100'000))});
    g.edges.push_back({v, n + 1, Duration(random.below(100'000))});
  }
  return g;
}

bool solved_as_star(const SctGraph& g) {
  const SctNetwork net(g);
  const SctReduction reduction(net);
  const auto parts = reduction.parts();
  return parts.size() == 1 && solve_star(reduction, parts.front()).has_value();
}

}  // namespace

TEST_SUITE_BEGIN("lp");
TEST_CASE("equal readers of one tensor share 1 - x equally, without a solver") {
  // 1 - x sums to 1, so it is 1/n each: w = 10 + 1000 (1 - 1/n) + 10
  for (const bool out : {true, false})
    for (const std::uint32_t n : {2U, 4U, 1024U}) {
      CAPTURE(n);
      const SctGraph g = equal_star(n, out);
      const SctSolution s = solve_sct(g);
      CHECK(solved_as_star(g));
      CHECK(s.w == 20.0 + 1000.0 * (1.0 - 1.0 / n));
      CHECK(s.lower_bound == doctest::Approx(s.w).epsilon(1e-12));
      CHECK(s.canonical);
      CHECK(s.x == std::vector(n, 1.0 - 1.0 / n));
    }
}

TEST_CASE("rounding obeys the degree row, also with more than a thousand readers") {
  // 2^36 / 140,000 = 490,853.40..., / 131,071 = 524,292.00..; 2^36 / 150,000 = 458,129.84 rounds
  // up, 150,000 times by 0.16 of 2^-36: 3.5e-7 too much
  for (const std::uint32_t n : {131'071U, 140'000U, 150'000U}) {
    CAPTURE(n);
    const SctSolution s = solve_sct(equal_star(n, /*out=*/true));
    double near = 0.0;
    for (const double x : s.x) near += 1.0 - x;
    CHECK(near <= 1.0 + 0x1p-27);
    CHECK(near > 1.0 - 1e-5);
    CHECK(s.canonical);
  }
}

TEST_CASE("a star has the canonical optimum of the whole program") {
  Random random(11);
  int stars = 0;
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    const std::uint32_t n = 2 + random.below(8), most = i % 3 == 0 ? 6 : 1000;
    SctGraph g = equal_star(n, i % 2 == 0);
    for (Duration& t : g.compute) t = Duration(random.below(most));
    for (auto& e : g.edges) e.communication = Duration(random.below(i % 5 == 0 ? 3 : most));
    if (i % 4 == 0)  // a light op and a long path to or from it: its edge cannot bind
      g.compute[1 + random.below(n)] += Duration(4L * most);
    const std::vector<double> expected = canonical_x_the_long_way(g);
    const SctSolution s = solve_sct(g);
    stars += solved_as_star(g) ? 1 : 0;
    CHECK(s.canonical);
    CHECK(s.w - s.lower_bound <= 1e-9 * s.w);
    for (std::size_t e = 0; e < s.x.size(); ++e) CHECK(std::abs(s.x[e] - expected[e]) < 1e-5);
  }
  CHECK(stars > 100);
}

TEST_CASE("an edge is visited a few times, however many edges an op has") {
  for (const std::uint32_t n : {100U, 10'000U}) {
    CAPTURE(n);
    for (const SctGraph& g : {star_diamond(n), equal_star(n, true), equal_star(n, false)}) {
      const SctNetwork net(g);
      SctDecisions decisions(net);
      std::vector<bool> may_bind(net.num_edges(), false);
      may_bind.front() = true;
      decisions.decide(may_bind);  // first round: only the first edge may bind
      CHECK(decisions.num_visits() <= 8 * net.num_edges());
      if (n == 100U) continue;
      const auto decided = std::ranges::count_if(
          std::views::iota(0U, static_cast<std::uint32_t>(net.num_edges())),
          [&](std::uint32_t e) { return decisions.edge(e) != SctEdge::open; });
      CHECK(decided >= static_cast<std::ptrdiff_t>(net.num_edges() / 2));
    }
  }
}
