#include <oneapi/tbb/global_control.h>

#include "placers/files/placement_file.h"
#include "placers/search/chain.h"
#include "placers/search/portfolio.h"
#include "tests/placers/exact/brute_force.h"
#include "tests/placers/place_by_name.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"
#include "tests/traces/msr_files.h"

using namespace baechi::search;

namespace {

Options::Value list_of(std::initializer_list<const char*> items) {
  Options::Value all;
  for (const char* item : items) all.children.emplace_back("", value(item));
  return all;
}

std::unique_ptr<Placer> searcher(Values values) {
  return make_placer("search", Options("search", std::move(values)));
}

Score score(const std::string& objective, const Problem& problem, const Placement& placement) {
  return make_objective(objective, Options(objective))->score(problem, placement);
}

/// The graph with ops that run on accelerators only, on cores only, or on both.
OpGraph with_cores(const OpGraph& graph) {
  IdVector<OpId, Duration> slow(graph.num_ops()), fast(graph.num_ops());
  for (const OpId v : graph.ops()) {
    fast[v] = graph.op(v).compute;
    slow[v] = 3 * graph.op(v).compute;
  }
  return graph.with_times("acc", fast).with_times("cpu", slow);
}

Cluster two_and_a_core(Bytes memory) {
  IdVector<DeviceId, Device> all;
  for (int i = 0; i < 2; ++i) all.push_back({.name = "acc", .kind = "acc", .memory = memory});
  all.push_back({.name = "cpu", .kind = "cpu"});
  return Cluster::uniform(std::move(all), {.bandwidth = 1.0_GBps, .latency = 10ns});
}

/// Eleven ops with weights, workspace and outputs of similar sizes.
OpGraph eleven_ops(std::uint64_t seed) {
  Random random(seed);
  OpGraphBuilder b;
  std::vector<TensorId> outputs;
  for (std::uint32_t i = 0; i < 11; ++i) {
    const OpId v = b.add_op({.name = "op" + std::to_string(i),
                             .compute = Duration{1000 + random.below(20'000)},
                             .persistent = Bytes{100 + random.below(4000)},
                             .temporary = Bytes{random.below(1000)}});
    for (std::uint32_t k = 0; k < std::min(i, 2U); ++k)
      b.add_edge(outputs[i - 1 - k - random.below(std::max(i, 6U) - 5)], v);
    outputs.push_back(b.add_tensor(v, Bytes{50 + random.below(2000)}));
  }
  return std::move(b).build();
}

/// The peak of the fullest device and the step time, for each placement.
std::vector<std::pair<Bytes, Duration>> all_steps(const Problem& problem) {
  std::vector<std::pair<Bytes, Duration>> all;
  Simulator simulator(problem);
  Placement placement{.device = IdVector<OpId, DeviceId>(problem.graph.num_ops())};
  for (std::uint32_t at = 0; at < 1U << problem.graph.num_ops(); ++at) {
    for (const OpId v : problem.graph.ops()) placement.device[v] = DeviceId{at >> index(v) & 1U};
    const StepResult& step = simulator.run(placement);
    all.emplace_back(std::max(step.devices[gpu0].peak, step.devices[gpu1].peak), step.makespan);
  }
  return all;
}

}  // namespace

TEST_SUITE_BEGIN("search");
// A descent in missing memory finds no placement that fits for the third graph.
TEST_CASE("a chain leaves placements that lack memory, and crosses them to better ones") {
  const auto placer = searcher({{"evaluations", value("8000")}, {"fallback", value("false")}});
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const OpGraph graph = eleven_ops(seed);
    Cluster cluster = gpus(2);
    const ProfiledCosts costs(graph, cluster);
    const Problem problem{graph, cluster, costs};
    const auto all = all_steps(problem);
    const Bytes least = std::ranges::min(all).first;
    for (const double times : {1.0, 1.1}) {
      CAPTURE(times);
      const Bytes memory = times * least;
      Duration shortest = Duration::max();
      for (const auto& [peak, step] : all)
        if (peak <= memory) shortest = std::min(shortest, step);
      cluster.set_memory(gpu0, memory);
      cluster.set_memory(gpu1, memory);
      CHECK(simulate(problem, placer->place(problem, 1)).makespan == shortest);
    }
    cluster = gpus(2);
  }
}

TEST_CASE("two independent ops are placed on two devices") {
  //   a(10), b(10): 20 ns on one device, 10 ns on two
  const auto& [graph, cluster, costs, problem] = OwnedProblem(graph_of("a10; b10"), gpus(2));
  const Placement p =
      searcher({{"portfolio", value("single")}, {"evaluations", value("40")}})->place(problem, 0);
  CHECK(p.device[OpId{0}] != p.device[OpId{1}]);
  CHECK(p.facts.at("portfolio_us") == 0.020);
  CHECK(p.facts.at("found_us") == 0.010);
  CHECK(p.facts.at("evaluations") == 40.0);
  CHECK(p.facts.at("improvements") == 1.0);
}

TEST_CASE("a search of one evaluation is not behind auto") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    const RandomProblem random({.ops = 30}, 3, seed);
    const Cluster tight = with_memory(random.cluster, gpu1, {1500});
    const Problem problem = random.under({}, tight);
    const Placement own = make_placer("auto", Options("auto"))->place(problem, seed);
    CHECK(searcher({{"evaluations", value("1")}})->place(problem, seed).facts.at("found_us") <=
          to_us(score("step_time", problem, own).value));
  }
}

TEST_CASE("a search reports the objective's value, never worse than that of its start") {
  for (const char* objective : {"step_time", "max_load", "latency"}) {
    CAPTURE(objective);
    const auto placer = searcher({{"objective", value(objective)}, {"evaluations", value("200")}});
    for (std::uint64_t seed = 0; seed < (thorough() ? 30 : 6); ++seed) {
      CAPTURE(seed);
      const RandomProblem random({.ops = 30}, 3, seed);
      const Cluster tight = with_memory(random.cluster, gpu1, {1500});
      const Problem problem = random.under({}, tight);
      const Placement found = placer->place(problem, seed);
      const Score own = score(objective, problem, found);
      CHECK(own.feasible());
      CHECK(to_us(own.value) == found.facts.at("found_us"));
      for (const PlacerEntry& entry : placers()) {
        if (entry.quick_ops == 0) continue;
        CAPTURE(entry.name);
        try {
          const Placement other = make_placer(entry.name)->place(problem, seed);
          CHECK(own <= score(objective, problem, other));
        } catch (const InfeasibleError&) {
        }
      }
    }
  }
}

TEST_CASE("the same seed and budget give the same placement on any number of threads") {
  std::size_t estimated = 0;
  for (const char* objective : {"step_time", "max_load", "latency"}) {
    CAPTURE(objective);
    for (const std::uint64_t seed : {6U, 7U, 8U}) {
      CAPTURE(seed);
      const RandomProblem random({.ops = 60}, 4, seed);
      const auto evaluator = make_objective(objective, Options(objective))->on(random.under({}));
      evaluator->begin(random.placement);
      estimated += evaluator->estimates() > 1 ? 1U : 0U;
      const auto placer = searcher({{"objective", value(objective)},
                                    {"evaluations", value("1000")},
                                    {"chains", value("5")}});
      std::vector<Placement> found;
      for (const std::size_t threads : {1U, 2U, 4U}) {
        const oneapi::tbb::global_control limit(
            oneapi::tbb::global_control::max_allowed_parallelism, threads);
        found.push_back(placer->place(random.under({}), 3));
      }
      for (const Placement& p : found) {
        CHECK(p.device == found.front().device);
        CHECK(p.facts == found.front().facts);
        CHECK(p.detail == found.front().detail);
      }
      CHECK(found.front().facts.at("evaluations") == 1000.0);
    }
  }
  CHECK(estimated > 0);  // if all devices are equal and the objective is the step
}

TEST_CASE("on graphs small enough for brute force the search finds the optimum") {
  for (const char* objective : {"step_time", "max_load", "latency"}) {
    CAPTURE(objective);
    const auto placer = searcher({{"objective", value(objective)}, {"evaluations", value("4000")}});
    const auto measure = make_objective(objective, Options(objective));
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      CAPTURE(seed);
      const RandomProblem random({.ops = 6}, 3, seed);
      const Cluster tight = with_memory(random.cluster, gpu0, {500});
      const Problem problem = random.under({}, tight);
      const auto best = best_placement(problem, *measure, any_placement);
      REQUIRE(best.has_value());
      CHECK(measure->score(problem, placer->place(problem, seed)).value == best->makespan);
    }
  }
}

TEST_CASE("every move changes units once, each to another device that can run it") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const RandomProblem random({.ops = 40}, 4, seed);
    const SearchSpace space(random.under({}));
    UnitDevices at(space.units().size());
    for (const UnitId u : space.units().units())
      at[u] = random.placement.device[space.units().members(u).front()];
    Random draw(seed);
    for (const MoveEntry& move : moves()) {
      CAPTURE(move.name);
      std::size_t made = 0;
      for (int i = 0; i < 200; ++i) {
        std::vector<Change> changes;
        move.propose(space, at, draw, changes);
        made += changes.empty() ? 0U : 1U;
        std::vector<UnitId> units;
        for (const Change& c : changes) {
          CHECK(c.to != at[c.unit]);
          CHECK(space.can_run(c.unit, c.to));
          units.push_back(c.unit);
        }
        std::ranges::sort(units);
        CHECK(std::ranges::adjacent_find(units) == units.end());
      }
      CHECK(made > 0);
    }
  }
}

TEST_CASE("changes are scored as whole placements are") {
  for (const bool apart : {false, true}) {
    const auto objective = make_objective(
        "max_load", Options("max_load", {{"phases", value(apart ? "apart" : "together")}}));
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(seed);
      Random random(seed);
      const auto& [graph, cluster, costs, problem] =
          OwnedProblem(with_cores(random_graph({.ops = 30}, random)), two_and_a_core({1000}));
      const auto evaluator = objective->on(problem);
      Placement base = random_placement(graph, cluster, random);
      CHECK(evaluator->begin(base) == objective->score(problem, base));
      for (int i = 0; i < 100; ++i) {
        Placement next = base;
        std::vector<OpId> moved;
        for (const OpId v : graph.ops()) {
          if (random.below(5) > 0) continue;
          next.device[v] = DeviceId{random.below(3)};
          moved.push_back(v);
        }
        const Score score = evaluator->attempt(next, moved);
        const Score whole = objective->score(problem, next);
        CHECK(score == whole);
        CHECK(score.guide == whole.guide);
        CHECK(score.misplaced == whole.misplaced);
        CHECK(score.split_groups == whole.split_groups);
        if (random.below(2) == 0) continue;
        evaluator->keep();
        base = next;
      }
    }
  }
}

TEST_CASE("an infeasible placement is scored by the excess of each device's peak") {
  // Three ops of 10 ns and 100 B of weights each, on devices of 120 B.
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a10,w100; b10,w100; c10,w100"), gpus(3, 120_B));
  const auto evaluator = make_objective("step_time", Options("step_time"))->on(problem);
  const DeviceId d0{0}, d1{1}, d2{2};

  const Score all = evaluator->score(on({d0, d0, d0}));
  CHECK(all.over == 180_B);  // 300 of 120
  CHECK(all.value == 30ns);
  CHECK(evaluator->score(on({d0, d0, d1})).over == 80_B);
  CHECK(evaluator->score(on({d0, d1, d2})).feasible());

  // The same by changes, to a feasible placement and back.
  CHECK(evaluator->begin(on({d0, d0, d0})) == all);
  const OpId a{0}, c{2};
  CHECK(evaluator->attempt(on({d0, d0, d1}), std::array{c}).over == 80_B);
  evaluator->keep();
  const Score fits = evaluator->attempt(on({d2, d0, d1}), std::array{a});
  CHECK(fits.feasible());
  CHECK(fits.value == 10ns);
  evaluator->keep();
  CHECK_FALSE(evaluator->attempt(on({d0, d0, d1}), std::array{a}).feasible());

  // The base has 100 B on each device: a second op makes it 200 of 120, a swap changes nothing.
  CHECK_FALSE(evaluator->may_fit(std::array{OpMove{a, d1}}));
  CHECK(evaluator->may_fit(std::array{OpMove{a, d1}, OpMove{c, d2}}));
  CHECK(evaluator->begin(on({d0, d0, d0})) == all);
  CHECK(evaluator->may_fit(std::array{OpMove{a, d1}}));  // an infeasible base gives no information
}

TEST_CASE("a chain with until_feasible ends at the first placement that fits") {
  // 14 ops of 1 B on two devices of 7 B: all on one lack 7 B, so 7 moves or more are needed.
  OpGraphBuilder b;
  for (int i = 0; i < 14; ++i)
    b.add_op({.name = std::to_string(i), .compute = 1ns, .persistent = 1_B});
  const auto& [graph, cluster, costs, problem] = OwnedProblem(std::move(b).build(), gpus(2, 7_B));
  const search::SearchSpace space(problem);
  const auto objective = make_objective("step_time", Options("step_time"));
  const Placement start{.device = IdVector<OpId, DeviceId>(graph.num_ops())};
  search::Chain chain(space, *objective, start, 1);
  chain.run(10'000, {.begin = 0.05, .end = 0.05}, {.until_feasible = true});
  CHECK(chain.best_score().feasible());
  CHECK(chain.evaluations() < 10'000);
  CHECK(chain.improvements().back().evaluation == chain.evaluations());
}

TEST_CASE("estimates prefer the change that shortens the step most") {
  //   a(10) --100 B--> b(20)    all on gpu0, a, c, b, d: 60 ns. c and d on gpu1: 10 + 20.
  //   c(10) --100 B--> d(20)    d alone: 20 + 100 + 20. b and d: 10 + 100 + 100 + 20.
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a10; b20; c10; d20; a -100> b; c -100> d"), gpus(2));
  constexpr OpId b{1}, c{2}, d{3};
  REQUIRE(graph.name(c) == "c");
  const auto evaluator = make_objective("step_time", Options("step_time"))->on(problem);
  CHECK(evaluator->begin(on({gpu0, gpu0, gpu0, gpu0})).value == 60ns);
  REQUIRE(evaluator->estimates() >= 3);
  const std::vector<std::vector<OpMove>> changes{
      {{d, gpu1}}, {{c, gpu1}, {d, gpu1}}, {{b, gpu1}, {d, gpu1}}};
  CHECK(evaluator->best_estimate(changes) == 1);
  CHECK(evaluator->best_estimate(std::span(changes).first(1)) == 0);
}

TEST_CASE("after any attempts, estimates equal those of a new evaluator of the placement") {
  const auto objective = make_objective("step_time", Options("step_time"));
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    Random draw(seed);
    const auto& [graph, cluster, costs, problem] =
        OwnedProblem(random_graph({.ops = 40}, draw),
                     Cluster::uniform(3, {2000}, {.bandwidth = {1e9}, .latency = 7ns}));
    const auto some = [&] {
      std::vector<OpMove> moves;
      for (const OpId v : problem.graph.ops())
        if (draw.below(8) == 0) moves.push_back({v, DeviceId{draw.below(3)}});
      return moves;
    };
    const auto evaluator = objective->on(problem);
    Placement base = random_placement(graph, cluster, draw);
    CHECK(evaluator->begin(base) == objective->score(problem, base));
    REQUIRE(evaluator->estimates() > 1);
    for (int i = 0; i < 50; ++i) {
      std::vector<std::vector<OpMove>> changes(evaluator->estimates());
      std::ranges::generate(changes, some);
      const auto fresh = objective->on(problem);
      fresh->begin(base);
      const std::size_t best = evaluator->best_estimate(changes);
      CHECK(best == fresh->best_estimate(changes));
      Placement next = base;
      std::vector<OpId> moved;
      for (const auto& [v, to] : changes[best]) {
        next.device[v] = to;
        moved.push_back(v);
      }
      const Score whole = objective->score(problem, next);
      const Score score = evaluator->attempt(next, moved);
      CHECK(score.feasible() == whole.feasible());
      if (score.feasible()) CHECK(score == whole);
      if (draw.below(2) == 0) continue;
      evaluator->keep();
      base = next;
    }
  }
}

TEST_CASE("placers too slow for a graph run if the option names them") {
  // local_search is quick up to 2,000 ops, m_etf always.
  OpGraphBuilder b;
  for (int i = 0; i < 2001; ++i) b.add_op({.name = std::to_string(i), .compute = 1ns});
  const auto& [graph, cluster, costs, problem] = OwnedProblem(std::move(b).build(), gpus(2));
  const auto objective = make_objective("step_time", Options("step_time"));
  const auto asks = [&](const std::map<std::string, Options::Value>& values, const char* placer) {
    Options options("search", values);
    const auto answers = Portfolio(options, "step_time", true).run(problem, *objective, 0);
    return std::ranges::find(answers, placer, &Candidate::placer) != answers.end();
  };
  CHECK(asks({}, "m_etf"));
  CHECK_FALSE(asks({}, "local_search"));
  CHECK(asks({{"portfolio", value("local_search")}}, "local_search"));
}

TEST_CASE("a portfolio that ran out of memory is reported as such, not as a step of 0 ns") {
  // Two ops with weights of 600 B on two devices of 1000 B fit only on different devices, both
  // done at 10 ns.
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a10,w600; b10,w600"), gpus(2, {1000}));
  const Placement found =
      searcher({{"portfolio", value("single")}, {"evaluations", value("48")}})->place(problem, 0);
  CHECK(found.detail == "no placement of the portfolio fits, 10 ns after 48 evaluations");
  CHECK(found.facts.at("portfolio_us") == -1.0);
  CHECK(found.facts.at("found_us") == 0.01);
}

TEST_CASE("a search that is stopped, or has no budget, returns its best placement") {
  const RandomProblem random({.ops = 40}, 3, 1);
  const Problem problem = random.under({});
  const std::atomic<bool> stop = true;
  const auto placer = searcher({});
  CHECK(placer->can_stop());
  const Placement stopped = placer->place_watched(problem, 0, {.stop = &stop});
  CHECK(stopped.facts.at("evaluations") == 0.0);
  CHECK(stopped.facts.at("found_us") == stopped.facts.at("portfolio_us"));
  CHECK(searcher({{"evaluations", value("0")}})->place(problem, 0).device == stopped.device);
}

TEST_CASE("a search reports its progress, and writes its improvements") {
  const TemporaryFolder folder;
  const std::string file = folder.file("trace.csv");
  const RandomProblem random({.ops = 40}, 3, 1);
  std::vector<std::string> lines;
  std::vector<double> done;
  const auto progress_line = [&](std::string_view line, double part) {
    lines.emplace_back(line);
    done.push_back(part);
  };
  const Placement p = searcher({{"trace", value(file)}, {"evaluations", value("800")}})
                          ->place_watched(random.under({}), 0, {.progress = progress_line});
  REQUIRE(lines.size() == 16);
  CHECK(lines.front().starts_with("round 1 of 16: "));
  CHECK(done.front() == 1.0 / 16.0);
  CHECK(done.back() == 1.0);
  const std::vector<std::string> rows = lines_of(folder.read("trace.csv"));
  CHECK(rows.front() == "evaluation,objective_us,feasible,by");
  double last = 1e300;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const std::vector<std::string> cells = lines_of(rows[i], ',');
    CHECK(std::stod(cells[1]) < last);
    last = std::stod(cells[1]);
    CHECK((i == 1) == (cells[0] == "0"));
  }
  CHECK(static_cast<double>(rows.size()) == p.facts.at("improvements") + 2.0);
  CHECK(last == p.facts.at("found_us"));
}

TEST_CASE("a search may start from a placement file") {
  const TemporaryFolder folder;
  const RandomProblem random({.ops = 6}, 3, 4);
  const Problem problem = random.under({});
  const auto objective = make_objective("step_time", Options("step_time"));
  const auto best = best_placement(problem, *objective, any_placement);
  REQUIRE(best.has_value());
  write_placement(folder.file("best.json"), best->placement, random.graph, "random", 3);
  const Placement found = searcher({{"portfolio", value("random")},
                                    {"start", value(folder.file("best.json"))},
                                    {"evaluations", value("0")}})
                              ->place(problem, 0);
  CHECK(objective->score(problem, found).value == best->makespan);
}

TEST_CASE("with a wall-clock budget a search ends, and is no worse than the portfolio") {
  const RandomProblem random({.ops = 40}, 3, 1);
  const Placement p = searcher({{"seconds", value("0.05")}})->place(random.under({}), 0);
  CHECK(p.facts.at("found_us") <= p.facts.at("portfolio_us"));
  CHECK_REFUSED(
      searcher({{"seconds", value("1e300")}}),
      "search.seconds: '1e300' is not a number from 0 to 1000000000");  // no clock counts so far
}

TEST_CASE("splits beyond the best contiguous ones are found where such are known") {
  const std::filesystem::path data = testing::published_data();
  // The least known max loads that are not contiguous; the best contiguous: 41.75, 107.00 ms.
  for (const auto& [name, known] :
       {std::pair("bert24_training", 39'940us), std::pair("gnmt_training", 90'950us)}) {
    CAPTURE(name);
    const MsrProblem workload(data / "msr-dnn-partitioning/throughput-inputs/LayerGraphs" /
                              (std::string(name) + ".json.zst"));
    const Placement p = searcher({{"objective", value("max_load")},
                                  {"portfolio", value("linearized_dp")},
                                  {"evaluations", value("100000")}})
                            ->place(workload.problem(), 0);
    CHECK(score("max_load", workload.problem(), p).value <= known);
  }
}

// A step holds 36.2 GiB of weights, and 18.1 GiB of outputs that backward ops read, at once: four
// devices of 13.56 GiB are the least that could do.
TEST_CASE("ResNet-50's layers: what fits is found, what cannot is said") {
  const std::filesystem::path data = testing::published_data();
  const auto search = [&](std::string backward, Bytes memory) {
    const Trace trace = read_trace(
        data / "msr-dnn-partitioning/throughput-inputs/LayerGraphs/resnet50_training.json.zst", {},
        Options("dnn_partitioning", {{"backward", value(std::move(backward))}}));
    IdVector<DeviceId, Device> devices(4, {.name = "gpu", .kind = "accelerator", .memory = memory});
    const Cluster cluster =
        Cluster::uniform(std::move(devices), {.bandwidth = 12.0_GBps, .latency = 10us});
    const ProfiledCosts costs(trace.graph, cluster);
    return searcher({{"evaluations", value("60000")}})->place({trace.graph, cluster, costs}, 0);
  };
  const auto gib = [](double count) { return Bytes{static_cast<std::int64_t>(count * 0x1p30)}; };
  CHECK(search("as_given", gib(10.5)).facts.at("found_us") > 0);
  CHECK(search("mirrored", gib(13.8)).facts.at("found_us") > 0);
  for (const double memory : {10.5, 13.55}) {
    CAPTURE(memory);
    CHECK(message<InfeasibleError>([&] {
            search("mirrored", gib(memory));
          }).starts_with("search: no placement fits: while op 'node172grad' runs"));
  }
}

TEST_CASE("unknown objectives and placers are refused by name") {
  const auto said = [](Values values) {
    return message<InputError>([&] { searcher(std::move(values)); });
  };
  CHECK(holds(said({{"objective", value("max_lod")}}), "did you mean 'max_load'?"));
  CHECK(holds(said({{"portfolio", list_of({"m_etf", "search"})}}), "cannot start from another"));
  CHECK(holds(said({{"portfolio", list_of({"m_eft"})}}), "did you mean 'm_etf'?"));
}
