#include "scenarios/arena/known.h"

#include "placers/interface/registry.h"
#include "scenarios/arena/duel.h"
#include "tests/prelude.h"
#include "tests/scenarios/sweeps.h"
#include "tests/small_graphs.h"
#include "tests/temporary_folder.h"
#include "tests/this_build.h"

namespace {

/// The values of one placer on instances "a.v1", "b.v1", ...; nothing means that it failed.
Results values(const std::string& placer, const std::vector<std::optional<Duration>>& times,
               std::uint64_t point = 1) {
  Results results;
  for (std::size_t i = 0; i < times.size(); ++i) {
    results.scenarios.push_back({.name = std::string(1, static_cast<char>('a' + i)) + ".v1",
                                 .path = {},
                                 .text = {},
                                 .sets = {}});
    results.graphs.push_back(
        {.name = "g", .label = "g", .hash = {}, .source = {}, .format = {}, .op_names = {}});
    RunResult row;
    row.id = row.scenario = row.graph = i;
    row.point = point + i;
    row.placer = placer;
    row.status = times[i] ? Status::ok : Status::oom;
    row.value = times[i];
    row.lower_bound = 1ns;
    results.rows.push_back(row);
  }
  return results;
}

}  // namespace

TEST_SUITE("arena") {
  TEST_CASE("a score is the mean ratio to the best known value; failures count, and ranks follow") {
    const TemporaryFolder folder;
    Arena arena = Arena::read(folder.file("none.json"));
    CHECK(arena.size() == 0);
    CHECK(arena.take(values("x", {100ns, 200ns, std::nullopt})) ==
          std::vector<std::string>{"a.v1", "b.v1"});
    CHECK(arena.take(values("y", {200ns, 100ns, 300ns})) ==
          std::vector<std::string>{"b.v1", "c.v1"});
    // Best: 100, 100, 300. x: 1, 2, failed (10); y: 2, 1, 1.
    CHECK(arena.score("x").score.value() == doctest::Approx(std::cbrt(20.0)));
    CHECK(arena.score("x").solved == 2);
    CHECK(arena.score("y").score.value() == doctest::Approx(std::cbrt(2.0)));
    CHECK_FALSE(arena.score("unknown").score);
    const std::vector<ArenaScore> ranking = arena.ranking();
    REQUIRE(ranking.size() == 2);
    CHECK(ranking[0].placer == "y");
  }

  // Best: 100, 100. "never": no score, the last. fails: 1 and 10, mean 3.2; solves: 9 and 9.
  TEST_CASE("a placer with failures ranks below all without, one that solves nothing is last") {
    Arena arena;
    arena.take(values("best", {100ns, 100ns}));
    arena.take(values("never", {std::nullopt, std::nullopt}));
    arena.take(values("fails", {100ns, std::nullopt}));
    arena.take(values("solves", {900ns, 900ns}));
    std::string order;
    for (const ArenaScore& s : arena.ranking()) order += s.placer + (s.score ? " " : " none");
    CHECK(order == "best solves fails never none");
  }

  TEST_CASE("an instance that two placers improve at once is listed once") {
    Arena arena;
    Results both = values("x", {100ns});
    both.rows.push_back(both.rows.front());
    both.rows.back().placer = "y";
    both.rows.back().value = 50ns;
    CHECK(arena.take(both) == std::vector<std::string>{"a.v1"});
  }

  TEST_CASE("for each kind of failure the first and their number are reported") {
    Results results = values("x", {100ns, std::nullopt, std::nullopt, std::nullopt});
    results.rows[1].detail = "gpu0 is full";
    results.rows[3].status = Status::error;
    results.rows[3].detail = "it crashed";
    results.rows[0].placed_by = "fallback:heft";
    const ArenaOutcome outcome = outcome_of(results, "x");
    CHECK(std::tuple(outcome.instances, outcome.solved, outcome.fell_back) == std::tuple(4, 1, 1));
    REQUIRE(outcome.failures.size() == 2);
    CHECK(outcome.failures.at(Status::oom).count == 2);
    CHECK(outcome.failures.at(Status::oom).first == "b.v1: gpu0 is full");
    CHECK(outcome.failures.at(Status::error).first == "d.v1: it crashed");
  }

  TEST_CASE("best values only decrease, and the file holds all values") {
    const TemporaryFolder folder;
    Arena arena;
    arena.take(values("x", {100ns, std::nullopt}));
    CHECK(arena.take(values("slow", {150ns, std::nullopt})).empty());
    arena.write(folder.file("known.json"));
    const Arena read = Arena::read(folder.file("known.json"));
    CHECK(read.size() == 2);
    CHECK(read.score("slow").score.value() == doctest::Approx(1.5));  // no placer solves the second
    read.write(folder.file("again.json"));
    CHECK(folder.read("again.json") == folder.read("known.json"));
    folder.write("broken.json", "{\"instances\": [{}]}");
    CHECK_THROWS_WITH_AS(Arena::read(folder.file("broken.json")),
                         doctest::Contains("not a file of best known values"), InputError);
  }

  TEST_CASE("an instance whose graph, cluster or engine changed needs a new version") {
    Arena arena;
    arena.take(values("x", {100ns}));
    CHECK_THROWS_WITH_AS(arena.take(values("x", {100ns}, 2)),
                         "'a.v1' has another graph, cluster or engine than its best known value: "
                         "it needs a new version",
                         InputError);
  }

  // Best: 100, 100 and 100. x: 1 and 4, the mean of which is 2, and a failure; y: 1 in each.
  TEST_CASE("instances are classified by their names, and scored where there is a step") {
    Arena arena;
    Results results = values("x", {100ns, 400ns, std::nullopt});
    for (const auto& row : values("y", {100ns, 100ns, 100ns}).rows) results.rows.push_back(row);
    for (std::size_t i = 0; i < 3; ++i) results.graphs[i].ops = 300 + i;
    results.scenarios[0].name = results.scenarios[1].name = results.scenarios[2].name = "g.2.v1";
    results.axes = {"cluster.link.bandwidth"};
    for (RunResult& row : results.rows)
      row.at = {row.scenario == 0 ? "4 GB/s" : row.scenario == 1 ? "100 GB/s" : "50 GB/s"};
    arena.take(results);
    const std::vector<ArenaClass> classes = arena_classes(arena, {"x", "y"});
    std::string text;
    for (const ArenaClass& c : classes)
      text += fmt::format("{} {}: {:.2f} {}, {:.2f} {}\n", c.instances, c.name, c.scores[0].ratio,
                          c.scores[0].solved, c.scores[1].ratio, c.scores[1].solved);
    CHECK(text ==
          "1 up to 300 ops: 1.00 1, 1.00 1\n"
          "2 301 to 1000 ops: 4.00 1, 1.00 2\n"
          "1 links of 4 GB/s: 1.00 1, 1.00 1\n"
          "1 links of 100 GB/s: 4.00 1, 1.00 1\n"
          "3 two equal devices: 2.00 2, 1.00 3\n");
  }
}

TEST_SUITE("arena") {
  // One device holds each of the graphs; four must be faster.
  TEST_CASE("the evolved placer and its start place a graph of every family") {
    const std::string program = "exec:" + source_dir() + "/scenarios/examples/formula_placer.py";
    for (const char* family : {"cells", "recurrent", "seq2seq", "blocks", "layered"}) {
      CAPTURE(family);
      const Results results = run_all(sweep_of(fmt::format(
          R"(
name: family
graph: {{generate: {}, seed: 3}}
cluster: {{devices: {{count: 4, kind: v100_fp32, memory: 4 GiB}}, link: {{bandwidth: 16 GB/s, latency: 10 us}}}}
placers: [single, "{}", {{exec: {{path: "{}", args: [start]}}}}]
)",
          family, program, program.substr(5))));
      REQUIRE(results.rows.size() == 3);
      for (const RunResult& row : results.rows) {
        CAPTURE(row.placer);
        CAPTURE(row.detail);
        CHECK(row.status == Status::ok);
      }
      CHECK(results.rows[1].value < results.rows[0].value);
    }
  }
}

namespace {

std::unique_ptr<Placer> placer(const std::string& name) { return make_placer(name, Options(name)); }

}  // namespace

TEST_SUITE("arena") {
  TEST_CASE("duel steps are those of the engine; failures count if the option says so") {
    // Two ops of 1 us without edges: single takes 2 us, m_etf 1 us.
    DuelInstance instance{.ops = {{.compute = 1us}, {.compute = 1us}},
                          .speed = {1.0, 1.0},
                          .memory = 100_B,
                          .link = {.bandwidth = 1.0_GBps, .latency = 0ns}};
    const auto single = placer("single"), etf = placer("m_etf");
    const DuelSteps steps = duel_steps(instance, *single, *etf);
    CHECK(steps.loser == Duration(2us));
    CHECK(steps.winner == Duration(1us));
    CHECK(steps.ratio(false) == doctest::Approx(2.0));
    // Each op now has 60 B of weights: one device is too small for both.
    instance.ops[0].persistent = instance.ops[1].persistent = 60_B;
    const DuelSteps tight = duel_steps(instance, *single, *etf);
    CHECK_FALSE(tight.loser);
    CHECK(tight.ratio(false) == 0.0);
    CHECK(tight.ratio(true) == 10.0);
  }

  TEST_CASE("single loses to m_etf by about the number of devices, with few ops") {
    const auto single = placer("single"), etf = placer("m_etf");
    const DuelResult result = duel(*single, *etf, {.evaluations = 400, .seed = 3});
    CHECK(result.found_ratio > 2.0);
    CHECK(result.small_ratio >= 1.0 + 0.99 * (result.found_ratio - 1.0));
    CHECK(result.small.ops.size() <= result.found.ops.size());
    CHECK(duel_steps(result.small, *single, *etf).ratio(false) == result.small_ratio);
    const DuelResult again = duel(*single, *etf, {.evaluations = 400, .seed = 3});
    CHECK(again.small_ratio == result.small_ratio);
    CHECK(again.evaluations == result.evaluations);
  }
}
