#include <numeric>
#include <thread>

#include "placers/solver/linear_program.h"
#include "sim/random.h"
#include "tests/placers/sct/plain_program.h"
#include "tests/prelude.h"
#include "traces/generator.h"

using namespace baechi::solver;

namespace {

constexpr double infinity = LinearProgram::infinity;

SctGraph random_sct_graph(Random& random, std::uint32_t num_ops, std::uint32_t max_edges,
                          std::uint32_t max_time) {
  SctGraph g;
  for (std::uint32_t v = 0; v < num_ops; ++v) g.compute.emplace_back(random.below(max_time));
  for (std::uint32_t u = 0; u < num_ops; ++u)
    for (std::uint32_t v = u + 1; v < num_ops; ++v)
      if (g.edges.size() < max_edges && random.uniform() < 0.5)
        g.edges.push_back({u, v, Duration(random.below(max_time))});
  return g;
}

/// The ops in another numbering; edges keep their indices.
SctGraph renumbered(const SctGraph& g, Random& random) {
  std::vector<std::uint32_t> to(g.compute.size());
  std::iota(to.begin(), to.end(), 0U);
  for (std::uint32_t i = static_cast<std::uint32_t>(to.size()); i > 1; --i)
    std::swap(to[i - 1], to[random.below(i)]);
  SctGraph h = g;
  for (std::size_t v = 0; v < to.size(); ++v) h.compute[to[v]] = g.compute[v];
  for (auto& e : h.edges) {
    e.src = to[e.src];
    e.dst = to[e.dst];
  }
  return h;
}

double makespan(const SctGraph& g, const std::vector<double>& x) {  // ids are topological
  std::vector<double> start(g.compute.size());
  double last = 0.0;
  for (std::uint32_t v = 0; v < start.size(); ++v) {
    for (std::size_t e = 0; e < x.size(); ++e) {
      const auto& [src, dst, c] = g.edges[e];
      if (dst != v) continue;
      const double arrives = start[src] + static_cast<double>(g.compute[src].count()) +
                             x[e] * static_cast<double>(c.count());
      start[v] = std::max(start[v], arrives);
    }
    last = std::max(last, start[v] + static_cast<double>(g.compute[v].count()));
  }
  return last;
}

double kept_communication(const SctGraph& g, const std::vector<double>& x) {
  double sum = 0.0;
  for (std::size_t e = 0; e < x.size(); ++e)
    sum += x[e] * static_cast<double>(g.edges[e].communication.count());
  return sum;
}

bool keeps_degrees(const SctGraph& g, const std::vector<double>& x) {
  std::vector<double> out(g.compute.size()), in(g.compute.size());
  for (std::size_t e = 0; e < x.size(); ++e) {
    out[g.edges[e].src] += 1.0 - x[e];
    in[g.edges[e].dst] += 1.0 - x[e];
  }
  const auto fits = [](double sum) { return sum <= 1.0 + 1e-9; };
  return std::ranges::all_of(out, fits) && std::ranges::all_of(in, fits);
}

const Link slow_link{.bandwidth = {5.7e9}, .latency = 134us};  // slow relative to the ops

/// Layers of 16 ops, as in bench/README.md.
SctGraph layers(const char* ops, const char* seed, const Link& link) {
  const Trace trace = generate_trace(
      "layered", Options("layered", {{"ops", {.text = ops, .where = {}, .children = {}}},
                                     {"width", {.text = "16", .where = {}, .children = {}}},
                                     {"seed", {.text = seed, .where = {}, .children = {}}}}));
  const Cluster cluster = Cluster::uniform(4, Bytes{std::int64_t{1} << 50}, link);
  const ProfiledCosts costs(trace.graph, cluster);
  return sct_graph({trace.graph, cluster, costs});
}

}  // namespace

TEST_SUITE_BEGIN("lp");
TEST_CASE("the optimum of a program of two variables, and the duals of its rows") {
  // minimise -x - 2y, x + y <= 4, x + 3y <= 6: at (3, 1). Duals a, b: a + b = -1, a + 3b = -2.
  LinearProgram lp;
  const auto x = lp.add_column(0.0, infinity), y = lp.add_column(0.0, infinity);
  lp.add_row(-infinity, {{{x, 1.0}, {y, 1.0}}}, 4.0);
  lp.add_row(-infinity, {{{x, 1.0}, {y, 3.0}}}, 6.0);
  lp.objectives = {{-1.0, -2.0}};
  const LinearOptimum best = solve(lp);
  REQUIRE(best.status == LinearOptimum::Status::optimal);
  CHECK(best.x[x] == doctest::Approx(3.0));
  CHECK(best.x[y] == doctest::Approx(1.0));
  CHECK(best.row_dual[0] == doctest::Approx(-0.5));
  CHECK(best.row_dual[1] == doctest::Approx(-0.5));
}

TEST_CASE("a second objective chooses among the optima of the first, from any start") {
  // maximise x + y <= 4 with x, y <= 3: then the least x is 1, y = 3.
  LinearProgram lp;
  const auto x = lp.add_column(0.0, 3.0), y = lp.add_column(0.0, 3.0);
  lp.add_row(-infinity, {{{x, 1.0}, {y, 1.0}}}, 4.0);
  lp.objectives = {{-1.0, -1.0}, {1.0, 0.0}};
  const solver::Start vertex{.basis = {.columns = {Basis::Rest::at_upper, Basis::Rest::at_lower},
                                       .rows = {Basis::Rest::basic}}};
  // (3, 3) breaks the row, and no price has a wrong sign there: the dual simplex method goes on
  solver::Start outside = vertex, greedy = vertex;
  outside.basis.columns[y] = Basis::Rest::at_upper;
  outside.cost = {-1.0 + 1e-5, -1.0};
  greedy.cost = {1.0, 1.0};  // leads to (0, 0)
  for (const LinearOptimum& best :
       {solve(lp), solve(lp, &vertex), solve(lp, &outside), solve(lp, &greedy)}) {
    REQUIRE(best.status == LinearOptimum::Status::optimal);
    CHECK(best.x[x] == doctest::Approx(1.0));
    CHECK(best.x[y] == doctest::Approx(3.0));
  }
}

TEST_CASE("a program without a solution, or without an end, says so") {
  LinearProgram lp;
  const auto x = lp.add_column(0.0, infinity);
  lp.objectives = {{-1.0}};
  lp.add_row(1.0, {{{x, 1.0}}}, infinity);
  CHECK(solve(lp).status == LinearOptimum::Status::unbounded);
  lp.add_row(-infinity, {{{x, 1.0}}}, 0.5);
  CHECK(solve(lp).status == LinearOptimum::Status::infeasible);
}

TEST_CASE("a chain stays together") {
  //  a(10) --100--> b(20) --100--> c(30)
  const SctSolution s =
      solve_sct({.compute = {10ns, 20ns, 30ns}, .edges = {{0, 1, 100ns}, {1, 2, 100ns}}});
  CHECK(s.x == std::vector{0.0, 0.0});
  CHECK(s.w == 60.0);
  CHECK(s.lower_bound == 60.0);
}

TEST_CASE("no ops, no edges, no time") {
  CHECK(solve_sct({}).w == 0.0);
  CHECK(solve_sct({.compute = {5ns, 7ns}, .edges = {}}).w == 7.0);
  const SctSolution s =
      solve_sct({.compute = {0ns, 0ns, 0ns}, .edges = {{0, 1, 0ns}, {0, 2, 0ns}}});
  CHECK(s.w == 0.0);
  CHECK(s.x == std::vector{0.0, 1.0});
}

TEST_CASE("two equal children share the saved communication of their parent") {
  //  a(10) --100--> b(20), --100--> c(20):  10 + 20 + 100 max(x) with x_b + x_c >= 1
  const SctGraph g{.compute = {10ns, 20ns, 20ns}, .edges = {{0, 1, 100ns}, {0, 2, 100ns}}};
  const SctSolution s = solve_sct(g);
  CHECK(s.x == std::vector{0.5, 0.5});
  CHECK(s.w == 80.0);
  CHECK(favourite_edges(g, s.x, 0.1).empty());
  CHECK(favourite_edges(g, s.x, 0.5) == std::vector{0U});
  CHECK(favourite_edges(g, s.x, 0.5, /*compat=*/true) == std::vector{0U, 1U});
}

TEST_CASE("the child on the critical path is near, although the other communicates more") {
  //  a(1) --8--> b(10), --6--> c(100):  w = 101 only with x_c = 0, and then x_b = 1
  const SctSolution s =
      solve_sct({.compute = {1ns, 10ns, 100ns}, .edges = {{0, 1, 8ns}, {0, 2, 6ns}}});
  CHECK(s.x == std::vector{1.0, 0.0});
  CHECK(s.w == 101.0);
}

TEST_CASE("off the longest path, the most communication is saved, then earlier edges win") {
  // a -> b, c; another op takes longer than all of these
  SctGraph g{.compute = {1ns, 1ns, 1ns, 1000ns}, .edges = {{0, 1, 6ns}, {0, 2, 8ns}}};
  CHECK(solve_sct(g).x == std::vector{1.0, 0.0});
  g.edges[0].communication = 8ns;
  CHECK(solve_sct(g).x == std::vector{0.0, 1.0});
  //  a, b -> c, d  all equal: a with c, b with d
  g = {.compute = {1ns, 1ns, 1ns, 1ns, 1000ns},
       .edges = {{0, 2, 8ns}, {0, 3, 8ns}, {1, 2, 8ns}, {1, 3, 8ns}}};
  CHECK(solve_sct(g).x == std::vector{0.0, 1.0, 1.0, 0.0});
}

TEST_CASE("at equal w the least communication is kept") {
  //  a(10) -> b(50), c(50), d(10), e(10); to b and c 100 ns, to d 40, to e 20.
  //  w = 60 + 100 max(x_b, x_c), and of y = 1 - x the sum is at most 1: x_b = x_c = 1/2, w = 110.
  const SctSolution s =
      solve_sct({.compute = {10ns, 50ns, 50ns, 10ns, 10ns},
                 .edges = {{0, 1, 100ns}, {0, 2, 100ns}, {0, 3, 40ns}, {0, 4, 20ns}}});
  CHECK(s.w == 110.0);
  CHECK(s.x == std::vector{0.5, 0.5, 1.0, 1.0});
  //  with d(60): x_b, x_c and d's 40 x_d <= w - 70; at w = 110 x_d = 1 still fits
  CHECK(solve_sct({.compute = {10ns, 50ns, 50ns, 60ns, 10ns},
                   .edges = {{0, 1, 100ns}, {0, 2, 100ns}, {0, 3, 40ns}, {0, 4, 20ns}}})
            .w == 110.0);
}

TEST_CASE("no x on a fine grid has a smaller w, or the same w with less communication") {
  Random random(1);
  constexpr int steps = 6;
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    const SctGraph g = random_sct_graph(random, 5, 6, i % 2 == 0 ? 5 : 100);
    const SctSolution s = solve_sct(g);
    const double kept = kept_communication(g, s.x);
    CHECK(makespan(g, s.x) == doctest::Approx(s.w));
    CHECK(keeps_degrees(g, s.x));
    std::vector<double> x(g.edges.size());
    const double points = std::pow(steps + 1, static_cast<double>(x.size()));
    bool beaten = false;
    for (long point = 0; point < std::lround(points); ++point) {
      long digits = point;
      for (double& value : x) {
        value = static_cast<double>(digits % (steps + 1)) / steps;
        digits /= steps + 1;
      }
      if (!keeps_degrees(g, x)) continue;
      const double w = makespan(g, x);
      beaten |= w < s.w - 1e-6 || (w <= s.w && kept_communication(g, x) < kept - 1e-6);
    }
    CHECK_FALSE(beaten);
  }
}

TEST_CASE("the reduced program has the canonical optimum of the whole program") {
  Random random(2);
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    const SctGraph g = random_sct_graph(random, 4 + random.below(9), 30, i % 2 == 0 ? 6 : 1000);
    const std::vector<double> expected = canonical_x_the_long_way(g);
    const std::vector<double> x = solve_sct(g).x;
    for (std::size_t e = 0; e < x.size(); ++e) CHECK(std::abs(x[e] - expected[e]) < 1e-5);
  }
}

TEST_CASE("the same where the graph splits into blocks, with edges that skip blocks") {
  // Random graphs in a row, every path through an op between two of them, and a few edges from
  // one graph to the one after the next, across much more compute than they communicate.
  Random random(6);
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    SctGraph g{.compute = {Duration(random.below(50))}, .edges = {}};
    std::vector<std::uint32_t> begins;
    for (int bundle = 0; bundle < 4; ++bundle) {
      const auto entry = static_cast<std::uint32_t>(g.compute.size() - 1);
      const SctGraph part = random_sct_graph(random, 2 + random.below(4), 6, i % 2 == 0 ? 6 : 1000);
      const auto exit = static_cast<std::uint32_t>(entry + 1 + part.compute.size());
      begins.push_back(entry + 1);
      g.compute.insert(g.compute.end(), part.compute.begin(), part.compute.end());
      g.compute.emplace_back(1000);
      for (std::uint32_t v = entry + 1; v < exit; ++v) {
        g.edges.push_back({entry, v, Duration(random.below(100))});
        g.edges.push_back({v, exit, Duration(random.below(100))});
      }
      for (const auto& [u, v, c] : part.edges) g.edges.push_back({entry + 1 + u, entry + 1 + v, c});
      if (bundle >= 2)
        g.edges.push_back({begins[begins.size() - 3], exit - 1, Duration(random.below(100))});
    }
    const std::vector<double> expected = canonical_x_the_long_way(g);
    const SctSolution s = solve_sct(g);
    CHECK(s.canonical);
    CHECK(s.w - s.lower_bound <= 1e-9 * s.w);
    for (std::size_t e = 0; e < s.x.size(); ++e) CHECK(std::abs(s.x[e] - expected[e]) < 1e-5);
  }
}

TEST_CASE("x does not depend on how the ops are numbered") {
  Random random(3);
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    const SctGraph g = random_sct_graph(random, 40, 100, i % 2 == 0 ? 4 : 1000);
    const SctSolution s = solve_sct(g), t = solve_sct(renumbered(g, random));
    CHECK(s.w == doctest::Approx(t.w).epsilon(1e-9));
    for (std::size_t e = 0; e < s.x.size(); ++e) CHECK(std::abs(s.x[e] - t.x[e]) < 1e-7);
  }
}

TEST_CASE("every solution is proved, also where times differ by many orders of magnitude") {
  Random random(4);
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    SctGraph g = random_sct_graph(random, 30, 200, 1000);
    for (Duration& t : g.compute)
      t *= static_cast<std::int64_t>(std::exp2(28.0 * random.uniform()));
    for (auto& e : g.edges)
      e.communication *= static_cast<std::int64_t>(std::exp2(28.0 * random.uniform()));
    const SctSolution s = solve_sct(g), any = solve_sct(g, {.canonical = false});
    CHECK(s.canonical);
    CHECK_FALSE(any.canonical);
    CHECK(s.w - s.lower_bound <= 1e-7 * s.w);
    CHECK(any.w == doctest::Approx(s.w).epsilon(1e-7));
    CHECK(makespan(g, s.x) == doctest::Approx(s.w).epsilon(1e-12));
    CHECK(keeps_degrees(g, s.x));
  }
}

TEST_CASE("the canonical optimum does not depend on the solver's start") {
  const auto compare = [](const SctGraph& g) {
    const SctSolution from_vertex = solve_sct(g, {.interior = false});
    const SctSolution interior_starts = solve_sct(g, {.interior = true});
    CHECK(interior_starts.canonical);
    CHECK(interior_starts.w - interior_starts.lower_bound <= 1e-9 * interior_starts.w);
    CHECK(interior_starts.w == doctest::Approx(from_vertex.w).epsilon(1e-10));
    for (std::size_t e = 0; e < g.edges.size(); ++e)
      CHECK(std::abs(interior_starts.x[e] - from_vertex.x[e]) < 1e-9);
    for (const double threshold : {0.1, 0.5})
      CHECK(favourite_edges(g, interior_starts.x, threshold) ==
            favourite_edges(g, from_vertex.x, threshold));
  };
  Random random(7);
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    compare(random_sct_graph(random, 8 + random.below(50), 20 + random.below(300),
                             i % 3 == 0   ? 6
                             : i % 3 == 1 ? 1000
                                          : 1'000'000));
  }
  for (const char* seed : {"1", "2", "3"}) {
    CAPTURE(seed);
    compare(layers("700", seed, slow_link));
  }
}

TEST_CASE("only large programs far from their bound start with an interior-point method") {
  // 9,000 ops have more than 20,000 rows: one for each of 1.7 edges per op, and the degree rows.
  const SctSolution large = solve_sct(layers("9000", "1", slow_link));
  CHECK(large.interior_starts == 1);
  CHECK(large.canonical);
  CHECK(large.w - large.lower_bound <= 1e-9 * large.w);
  CHECK(solve_sct(layers("700", "1", slow_link)).interior_starts == 0);
  const Link quick{.bandwidth = {12e9}, .latency = 5us};  // a greedy choice is nearly optimal
  CHECK(solve_sct(layers("9000", "1", quick)).interior_starts == 0);
}

TEST_CASE("several concurrent threads find bitwise the same as one thread") {
  Random random(5);
  std::vector<SctGraph> graphs;
  for (int i = 0; i < 8; ++i) graphs.push_back(random_sct_graph(random, 60, 300, 50));
  std::vector<std::vector<double>> alone, together(graphs.size());
  for (const SctGraph& g : graphs) alone.push_back(solve_sct(g).x);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < graphs.size(); ++i)
    threads.emplace_back([&, i] { together[i] = solve_sct(graphs[i]).x; });
  for (std::thread& t : threads) t.join();
  CHECK(alone == together);
}

TEST_CASE("concurrent and repeated requests solve a program once") {
  Random random(6);
  const SctGraph g = random_sct_graph(random, 60, 300, 50);
  SctGraph other = g;
  other.edges.back().communication += 1ns;
  SctSolutions solutions;
  std::vector<std::shared_ptr<const SctSolution>> found(4);
  std::vector<std::thread> threads;
  for (auto& f : found) threads.emplace_back([&] { f = solutions.of(SctGraph(g)); });
  for (std::thread& t : threads) t.join();
  CHECK(found[0]->x == solve_sct(g).x);
  for (const auto& f : found) CHECK(f == found[0]);
  CHECK(solutions.of(other) != found[0]);
  CHECK(solutions.of(other)->x == solve_sct(other).x);
  CHECK(solutions.of(g) == found[0]);
}

TEST_CASE("a compat parent that loses a child loses its current favourite") {
  //  q -> v, q -> z, u -> v chosen in this order: q's favourite is z when u takes v away
  enum : std::uint32_t { q, u, v, z };
  const SctGraph g{.compute = {1ns, 1ns, 1ns, 1ns},
                   .edges = {{q, v, 1ns}, {q, z, 1ns}, {u, v, 1ns}}};
  const Favourites f = favourites(g, std::vector{0U, 1U, 2U}, /*compat=*/true);
  CHECK(f.favourite == std::vector<std::uint32_t>{no_favourite, v, no_favourite, no_favourite});
  CHECK(f.parent == std::vector<std::uint32_t>{no_favourite, no_favourite, u, q});
}

TEST_CASE("rounding keeps a matching: larger communication first, then the lower index") {
  //  a -> c 5, a -> d 9, b -> d 9 at x = 1/2, 1/2, 1/2: a -> d goes first, then b has none left
  const SctGraph g{.compute = {1ns, 1ns, 1ns, 1ns},
                   .edges = {{0, 2, 5ns}, {0, 3, 9ns}, {1, 3, 9ns}}};
  const std::vector x{0.5, 0.5, 0.5};
  CHECK(favourite_edges(g, x, 0.5) == std::vector{1U});
  const Favourites f = favourites(g, favourite_edges(g, x, 0.5));
  CHECK(f.favourite == std::vector<std::uint32_t>{3, no_favourite, no_favourite, no_favourite});
  CHECK(f.parent == std::vector<std::uint32_t>{no_favourite, no_favourite, no_favourite, 0});
}
