#include <nlohmann/json.hpp>

#include "placers/planners/simulated_batch.h"
#include "placers/planners/stages_program.h"
#include "tests/prelude.h"
#include "traces/format/compressed_file.h"

namespace {

using namespace baechi::planners;
using nlohmann::json;

PlannerInput read(const json& instance) {
  const std::string text = instance.dump();
  TextFile file("instance.json", text);
  return read_planner_input(file);
}

json mode(double time, double weights, double a, double b, const json& in, const json& out) {
  return {{"id", "vanilla"},   {"timePerSample", time}, {"parameterSize", weights},
          {"memoryUsageA", a}, {"memoryUsageB", b},     {"syncTimeFw", in},
          {"syncTimeBw", out}};
}

//   1 (8 s) --3 B--> 2 (4 s)      2 devices, 1 B/s, 4 micro-batches; 1 has 2 B of weights
json two_nodes() {
  return {{"maxDevices", 2},
          {"maxMemoryPerDevice", 10.0},
          {"bandwidth", 1.0},
          {"mbsInBatch", 4},
          {"nodes",
           {{{"id", 1}, {"TMPCs", {{"1", {mode(8, 2, 1, 0, json::object(), {{"2", 0}})}}}}},
            {{"id", 2}, {"TMPCs", {{"1", {mode(4, 0, 1, 0, {{"1", 0}}, json::object())}}}}}}},
          {"edges", {{{"sourceId", 1}, {"destId", 2}, {"communicationCost", 3.0}}}}};
}

/// The authors' planners by the names of the reference results.
std::unique_ptr<Planner> planner_of(const std::string& name, const std::string& micro_batches) {
  std::map<std::string, Options::Value> values{{"file", {"unused", "", {}}}};
  values["micro_batches"] = {micro_batches, "", {}};
  const auto is = [&](std::string_view part) { return holds(name, part); };
  const bool equal = name.starts_with("equi");
  if (is("no data")) values["data_parallel"] = {"false", "", {}};
  if (is("no tensor") || (equal && !is("tensor"))) values["tensor_parallel"] = {"false", "", {}};
  if (is("no recomp")) values["recompute"] = {"false", "", {}};
  if (is("by count")) values["stages"] = {"nodes", "", {}};
  Options options(name, values);
  auto planner = equal ? make_pipedream_2bw(options) : make_piper(options);
  options.finish();
  return planner;
}

void check_time(const Planner& planner, PlannerInput input, const json& expected) {
  input = planner.prepared(std::move(input));
  if (expected.is_null()) {
    CHECK_THROWS_AS(planner.plan(input), InfeasibleError);
    return;
  }
  const StagedPlan plan = planner.plan(input).plan;
  CHECK(mistake_in(plan, input).value_or("") == "");
  CHECK(plan.time_per_sample == doctest::Approx(expected.get<double>()).epsilon(1e-6));
}

std::vector<json> json_lines(const std::filesystem::path& path) {
  std::vector<json> all;
  for (const auto& line : lines_of(read_file(path.string()))) all.push_back(json::parse(line));
  return all;
}

}  // namespace

TEST_SUITE_BEGIN("plans");
TEST_CASE("two replicas of all nodes beat two stages, and a stage pays for its edges") {
  const PlannerInput input = read(two_nodes());
  // One stage on one device: 8 + 4 = 12. Two stages: 8 + 2 x 3 = 14. Two replicas of all:
  // (8 + 4) / 2 + 4 x (2 - 1) x 2 / (2 x 4) = 7.
  const auto plan = search_plans(input, ModeChoice::greedy, 100).plan;
  REQUIRE(plan);
  CHECK(plan->stages.size() == 1);
  CHECK(plan->time_per_sample == doctest::Approx(7.0));
  PlannerInput alone = input;
  alone.most_replicas = 1;
  CHECK(search_plans(alone, ModeChoice::greedy, 100).plan->time_per_sample ==
        doctest::Approx(12.0));
}

TEST_CASE("a plan without replicas takes the formula's time in the engine") {
  json instance = two_nodes();
  instance["mbsInBatch"] = 64;
  instance["edges"][0]["communicationCost"] = 0.5;
  PlannerInput input = read(instance);
  input.most_replicas = 1;
  // 8 + 2 x 0.5 = 9 against 12 on one device.
  const auto plan = search_plans(input, ModeChoice::greedy, 100).plan;
  REQUIRE(plan);
  CHECK(plan->time_per_sample == doctest::Approx(9.0));
  const SimulatedBatch run = simulate(*plan, input);
  CHECK(run.at(StageTransfers::apart) == doctest::Approx(9.0));
  CHECK(run.at(StageTransfers::overlap) == doctest::Approx(8.0));
  CHECK(run.seconds == doctest::Approx(64 * 9.0 + 5.0));  // the last sample's second stage: 4 + 1
}

TEST_CASE("simulated batches may choose another plan than the formula") {
  //   1 (4 s) --0.5 B--> 2 (4 s)      2 devices, 1 B/s, 8 micro-batches; 1 has 3 B of weights
  json instance = two_nodes();
  instance["mbsInBatch"] = 8;
  instance["edges"][0]["communicationCost"] = 0.5;
  json& modes = instance["nodes"][0]["TMPCs"]["1"][0];
  modes["timePerSample"] = 4;
  modes["parameterSize"] = 3;
  const PlannerInput input = read(instance);
  // Two replicas of all: (4 + 4) / 2 + 4 x 3 / (2 x 8) = 4.75. Two stages: 4 + 2 x 0.5 = 5.
  const auto formula = best_equal_split(input, EqualParts::nodes);
  REQUIRE(formula);
  CHECK(formula->stages.size() == 1);
  CHECK(formula->time_per_sample == doctest::Approx(4.75));
  // Two replicas: 4 x 8, then 4 x 3 / 2 of exchange. Two stages: the second works from 4 + 1 on,
  // 8 x 4, because transfers overlap with compute.
  CHECK(simulated_batch(*formula, input) == doctest::Approx(38.0));
  const auto simulated = best_simulated_split(input, EqualParts::nodes);
  REQUIRE(simulated);
  CHECK(simulated->plan.stages.size() == 2);
  CHECK(simulated->plan.time_per_sample == doctest::Approx(5.0));
  CHECK(simulated->batch == doctest::Approx(37.0));
  CHECK(simulated->fitting == 6);  // also one device; each twice: no node recomputes
  CHECK(least_batch(simulated->plan, input) == doctest::Approx(36.0));
  Options options("pipedream_2bw", {{"file", {"unused", "", {}}}, {"simulate", {"all", "", {}}}});
  const Planned planned = make_pipedream_2bw(options)->plan(input);
  CHECK(planned.facts.at("simulated_per_sample_us") == doctest::Approx(37e6 / 8));
  CHECK(planned.facts.at("data_parallel") == 1.0);
}

TEST_CASE("no simulated batch is shorter than its bound, and the search finds none longer") {
  const std::filesystem::path data = testing::published_data();
  std::size_t better = 0, checked = 0;
  for (const json& line : json_lines(data / "piper-golden/random.jsonl.zst")) {
    CAPTURE(line["name"]);
    const PlannerInput input = read(line["instance"]);
    const auto formula = best_equal_split(input, EqualParts::nodes);
    const auto found = best_simulated_split(input, EqualParts::nodes);
    REQUIRE(formula.has_value() == found.has_value());
    if (!found) continue;
    CHECK(mistake_in(found->plan, input).value_or("") == "");
    for (const StagedPlan* plan : {&*formula, &found->plan})
      CHECK(least_batch(*plan, input) <= simulated_batch(*plan, input));
    CHECK(found->batch <= simulated_batch(*formula, input));
    CHECK(found->batch == simulated_batch(found->plan, input));
    CHECK(found->plan.time_per_sample >= formula->time_per_sample * (1.0 - 1e-9));
    better += found->batch < simulated_batch(*formula, input) ? 1U : 0U;
    ++checked;
  }
  CHECK(checked > 40);
  CHECK(better > 0);
}

TEST_CASE("mistakes in an input are reported with their positions") {
  json instance = two_nodes();
  instance["mbsInBatch"] = 0;
  instance["edges"].push_back({{"sourceId", 2}, {"destId", 1}, {"communicationCost", 1}});
  const std::string said = testing::message<InputError>([&] { read(instance); });
  CHECK(holds(said, "mbsInBatch: 0 is not a whole number from 1 to 10000000"));
  CHECK(holds(said, "the edge of node 2 is missing"));
  CHECK(holds(said, "the edges form a cycle"));
}

TEST_CASE("time per sample is the authors' on instances drawn at random") {
  const std::filesystem::path data = testing::published_data();
  const auto all = json_lines(data / "piper-golden/random.jsonl.zst");
  CHECK(all.size() == 120);
  for (const json& line : all) {
    CAPTURE(line["name"]);
    for (const auto& [name, expected] : line["tps_s"].items()) {
      CAPTURE(name);
      check_time(*planner_of(name, "0"), read(line["instance"]), expected);
    }
  }
}

TEST_CASE("time per sample is the authors' on their own inputs") {
  const std::filesystem::path data = testing::published_data();
  std::size_t checked = 0;
  for (const json& line : json_lines(data / "piper-golden/grid.jsonl.zst")) {
    if (line["devices"] > 32) continue;  // takes longer
    CAPTURE(line.dump());
    PlannerInput input = read_planner_input(
        (data / "piper/inputs" / (line["input"].get<std::string>() + ".json.zst")).string());
    if (input.nodes.size() > 40 && line["planner"] == "piper") continue;
    input.devices = line["devices"];
    input.memory = line["memory_GiB"].get<double>() * 0x1p30;
    input.bandwidth = line["bandwidth_Bps"];
    const auto planner =
        planner_of(line["planner"], std::to_string(line["microbatches"].get<int>()));
    check_time(*planner, std::move(input), line["tps_s"]);
    ++checked;
  }
  CHECK(checked > 40);
}
