#include "validate/score.h"

#include "scenarios/read/sections.h"
#include "tests/prelude.h"
#include "tests/scenarios/sweeps.h"
#include "tests/validate/virtual_clock.h"
#include "traces/format/compressed_file.h"
#include "validate/calibrate.h"

using namespace baechi::validate;

namespace {

PlanScore scored(std::string plan, double predicted, double measured, double half_interval = 0.0) {
  PlanScore p;
  p.group = plan.substr(0, plan.find('/'));
  p.content = std::hash<std::string>{}(plan);
  p.plan = std::move(plan);
  p.mode = "graph";
  p.predicted = predicted;
  p.measured = {measured, measured - half_interval, measured + half_interval};
  return p;
}

/// Two spins on a device, a transfer, a spin on another.
ReplayPlan small_plan() {
  ReplayPlan plan;
  plan.name = "small/x/0";
  plan.devices = 2;
  plan.budget = {1000, 1000};
  plan.resident = {0, 0};
  const auto spin = [](int device, std::int64_t ns, std::vector<int> after) {
    return Task{.device = device,
                .length = Duration{ns},
                .body = {.kind = BodyKind::spin, .args = {ns}},
                .after = std::move(after)};
  };
  plan.tasks = {spin(0, 10'000, {}), spin(0, 20'000, {0}),
                Task{.transfer = true,
                     .device = 0,
                     .to = 1,
                     .bytes = 100,
                     .length = Duration{5000},
                     .body = {},
                     .after = {1}},
                spin(1, 30'000, {2})};
  return plan;
}

Calibration small_truth() {
  Calibration c = virtual_truth(2);
  c.modes[0].same_ns = {1000, 1000, 1000};
  c.modes[0].cross_ns = {1500, 1500, 1500};
  c.transfers[0].latency_ns = {4000, 4000, 4000};
  return c;
}

Duration step(const ReplayPlan& plan, const Calibration& c, const Effects& effects) {
  return predict(plan, timing_of(plan, &c, effects)).step();
}

constexpr const char* scenario = R"(
name: held_out
cluster:
  devices: {count: 3, memory: 1 GiB}
  link: {bandwidth: 5 GB/s, latency: 20 us}
engine: {transfers: duplex}
placers: [single, round_robin, m_topo, m_etf, random]
seeds: [0, 1]
sweep:
  graph: [{generate: layered, ops: 40}, {generate: layered, ops: 60, seed: 3}]
)";

/// A run on a virtual clock, its files written and read.
ValidationRun virtual_run(const TemporaryFolder& folder, Unknowns replaying) {
  const Exported exported = export_plans(sweep_of(scenario), {}, folder.file(""));
  CHECK(exported.plans == 20);
  const auto plans = read_plans(folder.file("plans"));
  VirtualClock clock(virtual_truth(3), {.noise = 0.005, .jitter_ns = 20}, 7);
  ValidationRun run;
  run.measurements = run_benchmarks(clock, 20);
  clock.set(replaying);
  replay_plans(clock, plans, {.replays = 10, .timelines = 2}, run);
  write_run(folder.file(""), clock, run);
  ValidationRun again = read_run(folder.file(""));
  CHECK(again.measurements == run.measurements);
  CHECK(again.steps == run.steps);
  CHECK(again.timeline == run.timeline);
  return again;
}

}  // namespace

TEST_SUITE_BEGIN("validate");
TEST_CASE("each effect adds what it says, and is gone when switched off") {
  const ReplayPlan plan = small_plan();
  const Calibration c = small_truth();
  // 10 + 20 + 5 + 30 us, 1 us between the first two, 4 us with the transfer.
  CHECK(step(plan, c, {}) == 70us);
  CHECK(step(plan, c, Effects::bare()) == 65us);
  CHECK(step(plan, c, {.op_gap = false}) == 69us);
  CHECK(step(plan, c, {.latency = false}) == 66us);
  const Replay replay = predict(plan, timing_of(plan, &c, {}));
  // The latency: a hop of 1.5 us before, as much after, and 1 us in the transfer itself.
  CHECK(replay.start == std::vector<Duration>{0us, 11us, 32500ns, 40us});
  CHECK(replay.end == std::vector<Duration>{10us, 31us, 38500ns, 70us});
}

TEST_CASE("two transfers in a row follow at the occupancy, or at the latency without it") {
  ReplayPlan plan = small_plan();
  Task second = plan.tasks[2];
  plan.tasks.insert(plan.tasks.begin() + 3, second);
  plan.tasks[4].after = {3};
  Calibration c = small_truth();
  c.transfers[0].occupancy_ns = {1500, 1500, 1500};
  // The second starts 5 + 1.5 us after the first, or 5 + 4.
  CHECK(step(plan, c, {}) == 76500ns);
  CHECK(step(plan, c, {.occupancy = false}) == 79us);
}

TEST_CASE("an op is slowed while a neighbour runs, and only then") {
  ReplayPlan plan = small_plan();
  plan.tasks.clear();
  const Body ew{.kind = BodyKind::ew, .args = {32}};
  plan.tasks = {Task{.device = 0, .length = 100us, .body = ew},
                Task{.device = 1, .length = 50us, .body = ew}};
  Calibration c = small_truth();
  c.ops.clear();
  c.interference = {{"ew", "ew", {0.25, 0.25, 0.25}}};
  Timing timing = timing_of(plan, nullptr, {});
  timing.slowdown.assign(4, std::vector<double>(4, 0.0));
  timing.slowdown[2][2] = 0.25;
  // Both run at 1 / 1.25: the shorter ends after 62.5 us, when the longer has 50 of 100 us left.
  const Replay replay = predict(plan, timing);
  CHECK(replay.end == std::vector<Duration>{112500ns, 62500ns});
}

TEST_CASE("ops that want more of the memory than it has share it") {
  const Body ew{.kind = BodyKind::ew, .args = {32}};
  ReplayPlan plan = small_plan();
  plan.devices = 3;
  plan.tasks = {Task{.device = 0, .length = 100us, .body = ew},
                Task{.device = 1, .length = 100us, .body = ew},
                Task{.device = 2, .length = 40us, .body = ew}};
  Timing timing = timing_of(plan, nullptr, {});
  timing.capacity = 10.0;
  timing.demand = {5.0, 5.0, 5.0};
  timing.sensitivity = {1.0, 1.0, 0.5};
  // 15 of 10 are wanted: two take 1.5 times as long and the third, which half feels it, 1.25 times:
  // it ends at 50 us. The others have then done 33.3 of 100 us, and two fit beside each other.
  const Replay replay = predict(plan, timing);
  CHECK(replay.end[2] == 50us);
  CHECK(replay.end[0].count() == doctest::Approx(50'000 + 66'667).epsilon(1e-5));
  CHECK(replay.end[1] == replay.end[0]);
}

TEST_CASE("an op behind a real op, and one that waits for two queues, start by their own gaps") {
  ReplayPlan plan = small_plan();
  plan.devices = 3;
  plan.tasks = {
      Task{.device = 0, .length = 10us, .body = {.kind = BodyKind::gemm, .args = {16}}},
      Task{.device = 1, .length = 10us, .body = {.kind = BodyKind::spin, .args = {10'000}}},
      Task{.device = 0, .length = 1us, .body = {.kind = BodyKind::spin, .args = {1'000}}},
      Task{.device = 2,
           .length = 1us,
           .body = {.kind = BodyKind::spin, .args = {1'000}},
           .after = {0, 1}}};
  Calibration c = small_truth();
  c.ops.clear();
  c.ops.push_back({.kind = "gemm", .time = {.table = {{1.0, 10'000.0}, {1e9, 10'000.0}}}});
  c.partitions.resize(3, {24, 8});
  c.modes[0].after = {{"gemm", {1300, 1300, 1300}}};
  c.modes[0].fan_in_ns = {2200, 2200, 2200};
  const Replay replay = predict(plan, timing_of(plan, &c, {}));
  CHECK(replay.start[2] == 11'300ns);
  CHECK(replay.start[3] == 12'200ns);  // 1500 if it waited for one
  CHECK(predict(plan, timing_of(plan, &c, {.cross_gap = false})).start[3] == 10us);
}

TEST_CASE("further placements of a graph are distinct, or the set is refused") {
  const TemporaryFolder folder;
  const Exported exported =
      export_plans(sweep_of(scenario), {.neighbours = 3, .at_random = 4, .least = {.distinct = 12}},
                   folder.file(""));
  CHECK(exported.plans == 20 + 2 * 7);
  CHECK_THROWS_AS(export_plans(sweep_of(scenario), {.least = {.distinct = 12}}, folder.file("")),
                  InputError);
  CHECK(read_plans(folder.file("plans")).size() == exported.plans);  // a refusal writes nothing
}

TEST_CASE("Baechi's procedure and a datasheet say what they would") {
  Calibration ours = virtual_truth(2);
  ours.gpu = "NVIDIA H100 80GB HBM3";
  ours.partitions = {{33, 8}, {33, 8}};  // a quarter of 132
  const auto copy = [](std::int64_t bytes, double ns, const char* way, const std::string& args) {
    return validate::Measurement{.what = "copy",
                                 .mode = "graph",
                                 .way = way,
                                 .subject = std::string(way) == "host" ? "d2h" : "",
                                 .args = fmt::format("{}{}", bytes, args),
                                 .count = 1,
                                 .value = ns};
  };
  // 1000, 2000 and 6000 ns for 0, 1000 and 2000 bytes: slope 2.5, intercept 500. The link takes
  // 300 and 500 ns beyond the 10000 that it is told.
  const Calibration baechi =
      as_baechi(ours, {copy(0, 1000, "host", ""), copy(1000, 2000, "host", ""),
                       copy(2000, 6000, "host", ""), copy(0, 10'300, "link", " 10000"),
                       copy(1000, 10'500, "link", " 10000"), copy(5000, 77, "link", " 0")});
  const auto* host = baechi.find_transfer("graph", "host", "d2h");
  CHECK(host->latency_ns.value == doctest::Approx(500));
  CHECK(host->time(1000) == doctest::Approx(2500));
  CHECK(baechi.find_transfer("graph", "link", "")->latency_ns.value == doctest::Approx(300));
  CHECK(baechi.find_transfer("graph", "link", "")->paced);
  CHECK(baechi.find_mode("graph")->same_ns.value == 0.0);
  CHECK(baechi.find_op("gemm")->time(1e9) == ours.find_op("gemm")->time(1e9));
  const auto sheet = as_datasheet(ours);
  REQUIRE(sheet);
  CHECK(sheet->find_op("gemm")->time(989e6) == doctest::Approx(4000));  // 989e3 / 4 flops per ns
  CHECK(sheet->find_op("ew")->time(3'350'000) == doctest::Approx(1000));
  CHECK_FALSE(as_datasheet(virtual_truth(2)));
}

TEST_CASE("the floor between visits is over plans that both have, and cards have names") {
  const auto run = [](const char* card, double step, std::uint64_t second) {
    ValidationRun r;
    r.machine = Machine{};
    r.machine->more = {{"card", card}};
    for (const std::uint64_t hash : {std::uint64_t{7}, second}) {
      ReplayPlan plan = small_plan();
      plan.name = fmt::format("g/{}", hash);
      plan.hash = hash;
      r.plans.push_back(plan);
      for (const double factor : {1.0, 2.0, 1.1})  // median 1.1
        r.steps.push_back({.plan = plan.name,
                           .mode = "graph",
                           .step = Duration{std::llround(factor * step)},
                           .verdict = Verdict::ok});
    }
    return r;
  };
  const Floor cards = floor_between(run("a", 1000, 8), run("b", 1050, 9));
  CHECK(cards.between == "cards");
  CHECK(cards.plans == 1);  // 8 and 9 are other plans
  CHECK(cards.median == doctest::Approx(0.05));
  CHECK(floor_between(run("a", 1000, 8), run("a", 1000, 8)).between == "visits");
  CHECK(floor_between(run("a", 1000, 8), run("a", 1000, 8)).median == 0.0);
}

TEST_CASE("equal predictions are named, as ties or as one placement") {
  std::vector<PlanScore> plans{scored("g/a/0", 100, 101), scored("g/b/0", 100, 102),
                               scored("g/c/0", 90, 91), scored("g/d/0", 90, 95),
                               scored("g/e/0", 80, 85)};
  plans[0].content = plans[1].content = 5;
  plans[2].content = 6;
  const auto ties = rankings(plans).front().ties;
  REQUIRE(ties.size() == 2);
  CHECK(ties[0].plans == std::vector<std::string>{"g/c/0", "g/d/0"});
  CHECK_FALSE(ties[0].same_plan);
  CHECK(ties[1].plans == std::vector<std::string>{"g/a/0", "g/b/0"});
  CHECK(ties[1].same_plan);
}

TEST_CASE("plans of one placement count once in a ranking, by the median of their steps") {
  // x and y were each planned three times; what differs within them is noise, not an order.
  std::vector<PlanScore> plans{scored("g/x/1", 100, 104), scored("g/x/2", 100, 100),
                               scored("g/x/3", 100, 101), scored("g/y/1", 110, 112),
                               scored("g/y/2", 110, 103), scored("g/y/3", 110, 111),
                               scored("g/z/1", 120, 121)};
  for (PlanScore& p : plans) p.content = static_cast<std::uint64_t>(p.plan[2]);
  const Ranking r = rankings(plans).front();
  CHECK(r.plans == 7);
  CHECK(r.placements == 3);
  CHECK(r.steps == 3);
  CHECK(r.spearman == doctest::Approx(1.0));  // 101 < 111 < 121
  CHECK(r.pairs == 3);
  CHECK(r.kendall == doctest::Approx(1.0));
  CHECK(r.regret == 0.0);  // of two plans the faster one would count:
  CHECK(rankings({plans[3], plans[4], plans[6]}).front().spread ==
        doctest::Approx((119.2 - 104.8) / 112.0));  // quantiles of 103 and 121, median 112
}

TEST_CASE("accuracy, ranking and regret by hand") {
  // Errors +1, -2, +3 % and, of another graph, 0: absolute 0 1 2 3.
  const std::vector<PlanScore> plans{scored("a/x/0", 101, 100), scored("a/y/0", 196, 200),
                                     scored("a/z/0", 309, 300), scored("b/x/0", 50, 50)};
  const Accuracy a = accuracy(plans);
  CHECK(a.plans == 4);
  CHECK(a.median == doctest::Approx(0.015));
  CHECK(a.p95 == doctest::Approx(0.0285));  // 2.85 of the way from 0 to 3 steps
  CHECK(a.bias == doctest::Approx(0.005));
  // Predicted order x y z, measured y x z, z's interval apart from all, x's and y's overlapping.
  const auto ranked = rankings(
      {scored("a/x/0", 100, 110, 6), scored("a/y/0", 101, 100, 6), scored("a/z/0", 300, 200)});
  REQUIRE(ranked.size() == 1);
  CHECK(ranked[0].spearman == doctest::Approx(0.5));  // 1 - 6 * 2 / (3 * 8)
  CHECK(ranked[0].pairs == 2);
  CHECK(ranked[0].kendall == doctest::Approx(1.0));
  CHECK(ranked[0].regret == doctest::Approx(0.1));                    // x is chosen, y is best
  CHECK(ranked[0].spread == doctest::Approx((182.0 - 102.0) / 110));  // quantiles of 100 110 200
}

TEST_CASE("the report finds the error that was injected, and none where there is none") {
  for (const double stretch : {1.0, 1.03}) {
    CAPTURE(stretch);
    const TemporaryFolder folder;
    const ValidationRun run =
        virtual_run(folder, {.noise = 0.005, .jitter_ns = 20, .stretch = stretch});
    const Calibration found = calibrate(*run.machine, run.measurements, "m.csv");
    const Validation v = compare(run, found);
    CHECK(v.plans.size() == 20);
    CHECK(v.failed == 0);
    REQUIRE(v.layers.size() == 1);
    CHECK(v.layers[0].first == Layer::queues);
    const Accuracy& a = v.layers[0].second;
    // Lengths are most of a step, so its error is nearly 1 / stretch - 1, and never more.
    const double injected = 1.0 / stretch - 1.0;
    CHECK(a.bias <= 0.003);
    CHECK(a.bias >= injected - 0.003);
    if (stretch == 1.0) CHECK(a.p95 < 0.01);
    if (stretch != 1.0) CHECK(a.bias < 0.7 * injected);
    CHECK(v.noise_median < 0.005);
    CHECK(v.rankings.size() == 2);
    CHECK(v.rivals[1].accuracy.median > 2 * v.rivals[0].accuracy.median);  // no overheads
    const std::string text = to_text(v);
    CHECK(holds(text, "this is a virtual clock"));
    CHECK(holds(to_html(v), "<h2>Step times</h2>"));
    CHECK(to_html(v) == to_html(compare(run, found)));
  }
}

TEST_CASE("replays that failed stay in the count") {
  const TemporaryFolder folder;
  ValidationRun run = virtual_run(folder, {.noise = 0.002, .jitter_ns = 10});
  run.steps[0].verdict = Verdict::failed;
  run.steps[0].step.reset();
  const Validation v = compare(run, calibrate(*run.machine, run.measurements, "m.csv"));
  CHECK(v.failed == 1);
  CHECK(holds(to_text(v), "; 1 failed;"));
}

TEST_CASE("a calibration is read as it was written, and another schema refused") {
  Calibration truth = virtual_truth(3);
  truth.ops.front().mode = "stream";
  CHECK(parse_calibration(calibration_yaml(truth), "c.yaml") == truth);
  CHECK_REFUSED(
      parse_calibration("schema: baechi-calibration 1\nops: [{kind: ew, mode: strem}]\n", "c.yaml"),
      "c.yaml:2:24: ops.mode: 'strem' is not one of any, graph, stream (did you mean 'stream'?)");
  VirtualClock clock(truth, {.noise = 0.01}, 3);
  const Calibration found = calibrate(clock.machine(), run_benchmarks(clock, 5), "m.csv");
  CHECK(parse_calibration(calibration_yaml(found), "c.yaml") == found);
  CHECK_REFUSED(parse_calibration(
                    "schema: baechi-calibration 9\nsms: many\nmodes: [{mode: graf}]\n", "c.yaml"),
                "c.yaml:1:9: calibration.schema: 'baechi-calibration 9', not 'baechi-calibration "
                "1', which this program reads\n"
                "c.yaml:2:6: calibration.sms: 'many' is not a whole number >= 0\n"
                "c.yaml:3:16: modes.mode: 'graf' is not one of graph, stream");
  CHECK_REFUSED(parse_calibration("schema: baechi-calibration 1\nsms: 4294967297\n"
                                  "partitions: [[1e17, 8], [24, 0.5]]\n",
                                  "c.yaml"),
                "c.yaml:2:6: calibration.sms: 4294967297 is more than 1048576\n"
                "c.yaml:3:14: multiprocessors are a whole number from 0 to 1048576, not 1e+17\n"
                "c.yaml:3:25: multiprocessors are a whole number from 0 to 1048576, not 0.5");
}

TEST_CASE("a scenario's calibration decides its costs, and is refused if it does not match") {
  const TemporaryFolder folder;
  folder.write("c.yaml", calibration_yaml(virtual_truth(2)));
  const std::string text =
      "graph: {generate: layered, ops: 20}\n"
      "cluster: {devices: {count: 2, memory: 1 GiB}, link: {bandwidth: 5 GB/s, latency: 10 us}}\n"
      "calibration: c.yaml\nplacers: [single]\n";
  const auto load = [&](const std::string& what) {
    return sweep_of(what, {}, folder.file("s.yaml"));
  };
  const Sweep sweep = load(text);
  const Experiment experiment = sweep.experiment(sweep.run(0));
  const Problem problem = experiment.problem();
  const CostModel& costs = problem.costs;
  const ProfiledCosts plain(problem.graph, problem.cluster);
  CHECK(costs.compute(OpId{0}, gpu0) == plain.compute(OpId{0}, gpu0) + 1180ns);
  CHECK(costs.transfer(TensorId{0}, gpu0, gpu1) ==
        plain.transfer(TensorId{0}, gpu0, gpu1) + 3300ns);  // two hops of 1.65 us
  std::string three = text;
  three.replace(three.find("count: 2"), 8, "count: 3");
  CHECK_REFUSED(load(three), (folder.file("c.yaml") +
                              ": calibrated for 2 partitions, and the cluster has 3 devices")
                                 .c_str());
}

TEST_CASE("files of a run with mistakes are refused by line") {
  CHECK_REFUSED(parse_steps("plan,replay,round,mode,step_ns,submit_ns,verdict,peak_bytes\n"
                            "p,0,0,graph,,,ok,\np,x,0,graph,1,,good,1;y\n",
                            "steps.csv"),
                "steps.csv:2:13: a replay that is ok has a step time\n"
                "steps.csv:3:3: replay 'x' is not a whole number in [0, 1125899906842624]\n"
                "steps.csv:3:16: 'good' is none of ok, oom, failed\n"
                "steps.csv:3:23: size 'y' is not a whole number in [0, 1125899906842624]");
  CHECK_THROWS_AS(parse_measurements("what\n", "m.csv"), InputError);
  CHECK_THROWS_AS(
      parse_timeline("plan,replay,round,mode,task,start_ns,end_ns\np,0,0,g,0,5,4\n", "t"),
      InputError);
  CHECK_REFUSED(parse_machine("baechi-machine 1\ngpu a b\nsms many\n", "machine.txt"),
                doctest::Contains("sms 'many' is not a whole number"));
}

TEST_CASE("recorded runs are predicted no worse than when they were recorded") {
  // validate/recorded/NAME: a run's folder with its calibration.yaml and accuracy.csv.
  const std::filesystem::path recorded = source_dir() + "/validate/recorded";
  std::size_t runs = 0;
  if (std::filesystem::is_directory(recorded)) {
    for (const auto& entry : std::filesystem::directory_iterator(recorded)) {
      if (!entry.is_directory()) continue;
      const std::string folder = entry.path().string();
      CAPTURE(folder);
      if (!std::filesystem::exists(folder + "/accuracy.csv")) continue;
      ++runs;
      const Validation v =
          compare(read_run(folder), read_calibration(folder + "/calibration.yaml"));
      std::vector<std::string> lines = lines_of(read_file(folder + "/accuracy.csv"));
      CHECK(lines.front() == "layer,median_percent,p95_percent");
      lines.erase(lines.begin());
      for (const std::string& line : lines) {
        CAPTURE(line);
        const std::vector<std::string> cells = lines_of(line, ',');
        const auto found = std::ranges::find(
            v.layers, cells[0], [](const auto& layer) { return to_text(layer.first); });
        REQUIRE(found != v.layers.end());
        // Three digits are written: half of the last may be lost.
        CHECK(100.0 * found->second.median <= std::stod(cells[1]) + 0.0005);
        CHECK(100.0 * found->second.p95 <= std::stod(cells[2]) + 0.0005);
      }
    }
  }
  if (runs == 0) MESSAGE("skipped: no recorded runs in validate/recorded");
}
