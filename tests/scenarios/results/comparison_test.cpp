#include <cmath>

#include "scenarios/results/tables.h"
#include "tests/prelude.h"

using Texts = std::vector<std::string>;

namespace {

/// Results written by hand: graphs "g0", "g1", ..., one point each.
class HandMade {
 public:
  explicit HandMade(std::vector<Duration> bounds) : bounds_(std::move(bounds)) {
    results.scenarios.push_back({.name = "by_hand", .path = {}, .text = {}, .sets = {}});
    for (std::size_t g = 0; g < bounds_.size(); ++g)
      results.graphs.push_back({.name = "g" + std::to_string(g),
                                .label = {},
                                .hash = std::to_string(g),
                                .source = {},
                                .format = {},
                                .op_names = {}});
  }
  HandMade& run(std::size_t graph, const std::string& placer, Status status, Duration time = {},
                std::uint64_t seed = 0, Duration placing = 1us) {
    RunResult row;
    row.id = results.rows.size();
    row.graph = graph;
    row.point = graph;
    row.placer = placer;
    row.seed = seed;
    row.status = status;
    if (status == Status::ok) row.value = time;
    row.lower_bound = bounds_[graph];
    row.placing = placing;
    results.rows.push_back(row);
    return *this;
  }
  Contest contest() const {
    ContestBuilder builder;
    for (const RunResult& row : results.rows) builder.add(row);
    return builder.contest();
  }

  Results results;

 private:
  std::vector<Duration> bounds_;
};

//            g0 (bound 50)   g1 (100)   g2 (100)
//   slow         400            OOM     infeasible
//   x            100            200       100
//   y            200            100       100
HandMade three_graphs() {
  HandMade set({50ns, 100ns, 100ns});
  set.run(0, "slow", Status::ok, 400ns).run(0, "x", Status::ok, 100ns);
  set.run(0, "y", Status::ok, 200ns);
  set.run(1, "slow", Status::oom).run(1, "x", Status::ok, 200ns).run(1, "y", Status::ok, 100ns);
  set.run(2, "slow", Status::infeasible).run(2, "x", Status::ok, 100ns);
  set.run(2, "y", Status::ok, 100ns);
  return set;
}

AxisScale::Kind kind(const Texts& values) { return axis_scale(values).kind; }

}  // namespace

TEST_SUITE_BEGIN("comparison");
TEST_CASE("means over commonly solved points, and with failures as ten or the largest ratio") {
  const baechi::Comparison c = compare(three_graphs().contest(), 0.0);
  CHECK(c.points == 3);
  CHECK(c.solved_by_all == 1);  // g0
  CHECK(c.graphs == 3);
  REQUIRE(c.placers.size() == 3);
  const PlacerScore &x = c.placers[0], &y = c.placers[1], &slow = c.placers[2];
  CHECK(x.placer == "x");  // as good as y, and run earlier
  CHECK(y.placer == "y");
  CHECK(slow.placer == "slow");
  CHECK(std::tuple(slow.solved, slow.oom, slow.infeasible, slow.error) == std::tuple(1, 1, 1, 0));
  CHECK(std::tuple(x.best, y.best, slow.best) == std::tuple(2, 2, 0));
  CHECK(x.to_best.points == 1);
  CHECK(x.to_best.mean == doctest::Approx(1.0));
  CHECK(y.to_best.mean == doctest::Approx(2.0));
  CHECK(slow.to_best.mean == doctest::Approx(4.0));
  CHECK(slow.to_bound.mean == doctest::Approx(8.0));  // 400 / 50
  // x: 1, 2, 1; y: 2, 1, 1; slow: 4, and twice 10, because no ratio is larger.
  CHECK(x.to_best_or_worst.points == 3);
  CHECK(x.to_best_or_worst.mean == doctest::Approx(std::cbrt(2.0)));
  CHECK(y.to_best_or_worst.mean == doctest::Approx(std::cbrt(2.0)));
  CHECK(slow.to_best_or_worst.mean == doctest::Approx(std::cbrt(400.0)));
  // To the bound, x: 2, 2, 1; slow: 8, and twice 10.
  CHECK(x.to_bound_or_worst.mean == doctest::Approx(std::cbrt(4.0)));
  CHECK(slow.to_bound_or_worst.mean == doctest::Approx(std::cbrt(800.0)));
  CHECK(std::tuple(x.failures, slow.failures) == std::tuple(0, 2));
}

// far: 1 and 25 times the best; x: 1 and failed, which counts no less than 25.
TEST_CASE("a failure costs at least as much as the largest ratio of any placer") {
  HandMade set({1ns, 1ns, 1ns});
  set.run(0, "far", Status::ok, 100ns).run(0, "x", Status::ok, 100ns);
  set.run(1, "far", Status::ok, 2500ns).run(1, "y", Status::ok, 100ns);
  set.run(2, "far", Status::ok, 100ns).run(2, "x", Status::oom);
  const baechi::Comparison c = compare(set.contest(), 0.0);
  for (const PlacerScore& s : c.placers)
    if (s.placer == "x") CHECK(s.to_best_or_worst.mean == doctest::Approx(5.0));  // 1 and 25
}

TEST_CASE("a placer that solves nothing has no ratio and is last") {
  HandMade set({1ns, 1ns});
  for (std::size_t g = 0; g < 2; ++g)
    set.run(g, "none", Status::infeasible).run(g, "only", Status::ok, 100ns);
  const baechi::Comparison c = compare(set.contest(), 0.0);
  CHECK(c.placers[0].placer == "only");
  CHECK(c.placers[1].to_best_or_worst.points == 0);
  CHECK(c.placers[1].to_bound_or_worst.points == 0);
  CHECK(summary_of(c).rows[1][6] == "-");
}

// fails: 1.0 at nine points, a failure at the tenth: 10^(1/10) = 1.26. solves: 1.3 at nine, 1.0
// at the tenth: 1.3^(9/10) = 1.27, the larger mean.
TEST_CASE("a placer with failures ranks below one without, although its mean is less") {
  HandMade set(std::vector<Duration>(10, 1ns));
  for (std::size_t g = 0; g < 9; ++g)
    set.run(g, "fails", Status::ok, 100ns).run(g, "solves", Status::ok, 130ns);
  set.run(9, "fails", Status::oom).run(9, "solves", Status::ok, 130ns);
  const baechi::Comparison c = compare(set.contest(), 0.0);
  CHECK(c.placers[0].placer == "solves");
  CHECK(c.placers[0].to_best_or_worst.mean > c.placers[1].to_best_or_worst.mean);
}

TEST_CASE("placements of fallback are marked, and the note gives the number of points") {
  HandMade set({1ns, 1ns});
  for (std::size_t g = 0; g < 2; ++g)
    set.run(g, "m_etf", Status::ok, 100ns).run(g, "heft", Status::ok, 100ns);
  set.results.rows[0].placed_by = "fallback:heft";
  const Summary summary = summary_of(compare(set.contest(), 0.0));
  CHECK(summary.rows[0][0] == "m_etf †");
  CHECK(summary.rows[1][0] == "heft");
  CHECK(summary.note.ends_with("found nothing that fits, points: m_etf at 1."));
}

TEST_CASE("duels: wins, ties and losses, signed ranks of graphs, Holm's correction") {
  const baechi::Comparison c = compare(three_graphs().contest(), 0.0);
  REQUIRE(c.duels.size() == 3);
  const Duel &xy = c.duels[0], &x_slow = c.duels[1], &y_slow = c.duels[2];
  CHECK(std::tuple(xy.wins, xy.ties, xy.losses) == std::tuple(1, 1, 1));
  CHECK(xy.ratio.points == 3);
  CHECK(xy.ratio.mean == doctest::Approx(1.0));  // 1/2, 2, 1
  CHECK(xy.graphs == 2);
  CHECK(xy.p == 1.0);
  CHECK(std::tuple(x_slow.wins, x_slow.ties, x_slow.losses) == std::tuple(3, 0, 0));
  CHECK(x_slow.ratio.points == 1);
  // Three graphs, all on one side: 2 of 2^3 choices of signs are as one-sided.
  CHECK(x_slow.p == doctest::Approx(0.25));
  CHECK(y_slow.p == doctest::Approx(0.25));
  CHECK(x_slow.p_holm == doctest::Approx(0.75));  // the smallest of three, times 3
  CHECK(y_slow.p_holm == doctest::Approx(0.75));  // times 2, but not below the one before
  CHECK(xy.p_holm == 1.0);
}

TEST_CASE("step times within the tolerance are a tie") {
  HandMade set({1ns});
  set.run(0, "x", Status::ok, 1000ns).run(0, "y", Status::ok, 1010ns);
  CHECK(compare(set.contest(), 0.005).duels[0].wins == 1);
  CHECK(compare(set.contest(), 0.01).duels[0].ties == 1);
}

TEST_CASE("two copies of one placer have equal scores") {
  HandMade set = three_graphs();
  Results copies = set.results;
  copies.rows.clear();
  for (const RunResult& row : set.results.rows) {
    for (const char* copy : {" 1", " 2"}) {
      copies.rows.push_back(row);
      copies.rows.back().placer += copy;
    }
  }
  ContestBuilder builder;
  for (const RunResult& row : copies.rows) builder.add(row);
  const Contest contest = builder.contest();
  const baechi::Comparison c = compare(contest, 0.0);
  REQUIRE(c.placers.size() == 6);
  for (const PlacerScore& one : c.placers) {
    for (const PlacerScore& other : c.placers) {
      if (one.placer.substr(0, one.placer.size() - 1) !=
          other.placer.substr(0, other.placer.size() - 1))
        continue;
      CHECK(one.to_best.mean == other.to_best.mean);
      CHECK(one.to_bound_or_worst.mean == other.to_bound_or_worst.mean);
      CHECK(one.solved == other.solved);
      CHECK(one.best == other.best);
      REQUIRE(one.to_best_or_worst.interval.has_value() ==
              other.to_best_or_worst.interval.has_value());
      CHECK(one.to_best_or_worst.interval->low == other.to_best_or_worst.interval->low);
      CHECK(one.to_best_or_worst.interval->high == other.to_best_or_worst.interval->high);
    }
  }
  for (const Duel& duel : c.duels) {
    const std::string &a = c.placers[duel.a].placer, &b = c.placers[duel.b].placer;
    if (a.substr(0, a.size() - 1) != b.substr(0, b.size() - 1)) continue;
    CHECK(std::tuple(duel.wins, duel.ties, duel.losses) == std::tuple(0, 3, 0));
    CHECK(duel.ratio.mean == 1.0);
    CHECK(duel.graphs == 0);
    CHECK(duel.p_holm == 1.0);
  }
}

TEST_CASE("seeds of a placer do not compete with each other: the median counts") {
  HandMade set({1ns});
  set.run(0, "lucky", Status::ok, 50ns, 1, 9us).run(0, "lucky", Status::ok, 300ns, 2, 3us);
  set.run(0, "lucky", Status::oom, {}, 3, 5us).run(0, "steady", Status::ok, 200ns);
  const baechi::Comparison c = compare(set.contest(), 0.0);
  CHECK(c.placers[0].placer == "steady");
  CHECK(c.placers[0].best == 1);
  CHECK(c.placers[1].to_best.mean == doctest::Approx(1.5));  // 50, 300, failed: 300
  CHECK(c.placers[1].placing == 5us);
  // Two values: the slower one counts.
  HandMade two({1ns});
  two.run(0, "lucky", Status::ok, 50ns, 1).run(0, "lucky", Status::oom, {}, 2);
  CHECK(compare(two.contest(), 0.0).placers[0].oom == 1);
}

TEST_CASE("the interval resamples graphs, not runs") {
  CHECK_FALSE(bootstrap_interval(std::vector<LogSum>{{.sum = 3.0, .count = 2}}).has_value());
  // Two graphs with ratios 1 and 4: a resample of two has the mean 1, 2 or 4 with probabilities
  // 1/4, 1/2, 1/4, also if each ratio represents many runs.
  for (const std::size_t runs : {1UL, 1000UL}) {
    const auto interval = bootstrap_interval(
        std::vector<LogSum>{{.sum = 0.0, .count = runs},
                            {.sum = std::log(4.0) * static_cast<double>(runs), .count = runs}});
    REQUIRE(interval.has_value());
    CHECK(interval->low == doctest::Approx(1.0));
    CHECK(interval->high == doctest::Approx(4.0));
  }
}

TEST_CASE("signed ranks: exact, with ties; the normal approximation agrees") {
  CHECK(signed_rank_p(std::vector<double>{}) == 1.0);
  CHECK(signed_rank_p(std::vector<double>{0.0, 0.0}) == 1.0);
  CHECK(signed_rank_p(std::vector<double>{1, 2, 3, 4, 5}) == doctest::Approx(2.0 / 32));
  // Ranks 1 to 5, the 1 negative: {} and {1} are as one-sided.
  CHECK(signed_rank_p(std::vector<double>{-1, 2, 3, 4, 5}) == doctest::Approx(4.0 / 32));
  // Equal values share rank 2: of 8 choices, 4 have at most one minus, twice.
  CHECK(signed_rank_p(std::vector<double>{1, 1, -1}) == 1.0);
  std::vector<double> many;
  for (int i = 1; i <= 50; ++i) many.push_back(i % 3 == 0 ? -i : i);
  const double exact = signed_rank_p(many);
  many.push_back(-0.5);  // one more, of the least rank: 51 exceed the limit of the exact test
  CHECK(signed_rank_p(many) == doctest::Approx(exact).epsilon(0.1));
}

TEST_CASE("profiles: the fraction of points at which a placer is within a factor of the least") {
  const Contest contest = three_graphs().contest();
  const baechi::Comparison c = compare(contest, 0.0);
  const std::vector<Profile> steps = step_profiles(contest, c);
  REQUIRE(steps.size() == 3);
  CHECK(steps[0].ratios == std::vector<double>{1.0, 1.0, 2.0});
  CHECK(steps[2].ratios == std::vector<double>{4.0});  // it failed at the other two
  CHECK(steps[2].points == 3);
  CHECK(steps[2].share(0) == doctest::Approx(1.0 / 3));
  CHECK(placing_profiles(contest, c)[0].ratios == std::vector<double>{1.0, 1.0, 1.0});
}

TEST_CASE("folders are joined by point: a placer of both becomes two, others are compared") {
  HandMade first({50ns, 60ns}), second({50ns, 60ns});
  first.run(0, "x", Status::ok, 100ns).run(0, "only", Status::ok, 200ns);
  second.run(0, "x", Status::ok, 50ns).run(1, "x", Status::ok, 70ns);
  const std::vector<Results> folders{first.results, second.results};
  const std::vector<std::string> names{"old", "new"};
  const Contest contest = joined_contest(folders, names, "");
  CHECK(contest.placers == std::vector<std::string>{"x (old)", "only", "x (new)"});
  REQUIRE(contest.points.size() == 2);
  CHECK(contest.points[0].entries.size() == 3);
  CHECK(contest.points[1].entries.size() == 1);
  CHECK_REFUSED(joined_contest(folders, names, "graph.seed"),
                "--replicate: 'graph.seed' is not a swept key of graphs (those: none)");
}

TEST_CASE("points of one name with different links are not joined") {
  HandMade slow({50ns}), fast({50ns});
  slow.run(0, "x", Status::ok, 100ns);
  fast.run(0, "y", Status::ok, 70ns);
  fast.results.rows[0].point = 7;
  const std::vector<Results> folders{slow.results, fast.results};
  const std::vector<std::string> names{"slow", "fast"};
  const Contest contest = joined_contest(folders, names, "");
  REQUIRE(contest.points.size() == 2);
  CHECK(compare(contest, 0.0).duels[0].p == 1.0);
}

TEST_CASE("replicates are one graph of the sample") {
  HandMade set({1ns, 1ns, 1ns});
  set.results.axes = {"graph.seed", "graph.ops"};
  for (std::size_t g = 0; g < 3; ++g) {
    set.run(g, "x", Status::ok, 1ns).run(g, "y", Status::ok, 2ns);
    for (std::size_t i = 0; i < 2; ++i) {
      RunResult& row = set.results.rows[set.results.rows.size() - 1 - i];
      row.at = {g == 1 ? "2" : "1", g == 2 ? "200" : "100"};
    }
    set.results.graphs[g].name = "layered";
  }
  const std::vector<Results> folders{set.results};
  const std::vector<std::string> names{"set"};
  CHECK(compare(joined_contest(folders, names, ""), 0.0).graphs == 3);
  CHECK(compare(joined_contest(folders, names, "graph.seed"), 0.0).graphs == 2);
}

TEST_CASE("the page has the summary of the terminal") {
  const Summary summary = summary_of(compare(three_graphs().contest(), usual_tolerance));
  REQUIRE(summary.rows.size() == 3);
  CHECK(summary.rows[2] == std::vector<std::string>{"slow", "1", "1", "1", "0", "0", "7.368",
                                                    "4.000", "8.000", "1.00 us"});
  CHECK(holds(summary.note, "1 points that every placer solves"));
}

TEST_SUITE_BEGIN("axis scale");
TEST_CASE("quantities of one unit are numeric, logarithmic if their ratios are uniform") {
  CHECK(kind({"0.2", "0.4", "1.0"}) == AxisScale::Kind::linear);
  CHECK(kind({"2", "4", "8"}) == AxisScale::Kind::linear);  // less than 8 times the smallest
  CHECK(kind({"1", "2", "4", "8", "16"}) == AxisScale::Kind::logarithmic);
  CHECK(kind({"10", "20", "30", "40", "50", "60", "70", "80"}) == AxisScale::Kind::linear);
  CHECK(kind({"125 MB/s", "1 GB/s", "10 GB/s"}) == AxisScale::Kind::logarithmic);
  CHECK(axis_scale(Texts{"1 KiB", "1 MiB"}).at == std::vector<double>{1024.0, 1048576.0});
  CHECK(axis_scale(Texts{"1 ms", "5 us"}).at == std::vector<double>{1e6, 5e3});  // as swept
  CHECK(kind({"0", "100"}) == AxisScale::Kind::linear);  // 0 has no logarithm
}

TEST_CASE("other values are words, one after another") {
  CHECK(kind({"parallel", "sequential"}) == AxisScale::Kind::words);
  CHECK(kind({"1 ms", "1 MiB"}) == AxisScale::Kind::words);
  CHECK(kind({"4", "fuse"}) == AxisScale::Kind::words);
  CHECK(kind({"1.0", "1"}) == AxisScale::Kind::words);  // two values, one number
  CHECK(axis_scale(Texts{"a", "b", "c"}).at == std::vector<double>{0.0, 1.0, 2.0});
}

TEST_CASE("short values lose folders and brackets, and stay distinct") {
  CHECK(short_values(Texts{"../traces/gnmt.trace.json.zst", "{fuse: {limit: 3}}", "[]"}) ==
        Texts{"gnmt", "fuse: limit: 3", "none"});
  const std::string lengthy(50, 'x');
  const Texts both = short_values(Texts{lengthy + "1", lengthy + "2"});
  CHECK(both[0] != both[1]);
  CHECK(both[0].size() < 40);
}
