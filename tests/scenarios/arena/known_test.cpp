#include "scenarios/arena/known.h"

#include "placers/interface/registry.h"
#include "scenarios/arena/duel.h"
#include "tests/prelude.h"

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

std::unique_ptr<Placer> placer(const std::string& name) { return make_placer(name, Options(name)); }

}  // namespace

TEST_SUITE_BEGIN("arena");
TEST_CASE("a score is the mean ratio to the best known value; failures count, and ranks follow") {
  const TemporaryFolder folder;
  Arena arena = Arena::read(folder.file("none.json"));
  CHECK(arena.size() == 0);
  CHECK(arena.take(values("x", {100ns, 200ns, std::nullopt})) ==
        std::vector<std::string>{"a.v1", "b.v1"});
  CHECK(arena.take(values("y", {200ns, 100ns, 300ns})) == std::vector<std::string>{"b.v1", "c.v1"});
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
  CHECK_REFUSED(Arena::read(folder.file("broken.json")),
                doctest::Contains("not a file of best known values"));
}

TEST_CASE("an instance whose graph, cluster or engine changed needs a new version") {
  Arena arena;
  arena.take(values("x", {100ns}));
  CHECK_REFUSED(arena.take(values("x", {100ns}, 2)),
                "'a.v1' has another graph, cluster or engine than its best known value: it needs a "
                "new version");
}

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
