/// The baselines that Tarnawski et al. compare with: PipeDream, local search, Scotch, METIS.

#include "placers/files/placement_file.h"
#include "placers/interface/registry.h"
#include "tests/prelude.h"
#include "tests/traces/msr_files.h"

namespace {

Placement place(const std::string& name, const Problem& problem,
                std::map<std::string, Options::Value> options = {}) {
  return make_placer(name, Options(name, std::move(options)))->place(problem, 0);
}

std::string device_digits(const Placement& placement) {
  std::string text;
  for (const DeviceId d : placement.device) text += std::to_string(index(d));
  return text;
}

Duration max_load(const Problem& problem, const Placement& placement) {
  return make_objective("max_load", Options("max_load"))->score(problem, placement).value;
}

}  // namespace

TEST_SUITE_BEGIN("baselines");
// a -> b -> d -> e and a -> c -> d: two paths lead from a to d. a, b and c, from which they read,
// are contracted.
TEST_CASE("pipedream contracts ops connected by several paths, except the ignored ones") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a1 -0> b8 -0> d1 -0> e1; a -0> c8 -0> d"), gpus(2));
  const Placement joined = place("pipedream", problem);
  CHECK(joined.facts.at("units") == 3.0);    // {a, b, c}, {d}, {e}
  CHECK(max_load(problem, joined) == 17ns);  // a, b, c
  const Placement apart = place("pipedream", problem, {{"ignore", {"a", "", {}}}});
  CHECK(apart.facts.at("units") == 5.0);    // b - d - c, d - e: a tree
  CHECK(max_load(problem, apart) == 10ns);  // a and b or c; the other, d and e
  CHECK_REFUSED(place("pipedream", problem, {{"ignore", {"a x", "", {}}}}),
                "pipedream: no op 'x' to ignore");
}

TEST_CASE("local_search applies the move that gains most, transfers included") {
  const Cluster cluster = gpus(2);
  const OpGraph apart = graph_of("a6; b5; c4; d3");
  const ProfiledCosts costs(apart, cluster);
  CHECK(max_load({apart, cluster, costs}, place("local_search", {apart, cluster, costs})) ==
        9ns);  // 6 + 3, 5 + 4
  // On two devices a and b have 10 + 100 each.
  const OpGraph pair = graph_of("a10 -100> b10");
  const ProfiledCosts pair_costs(pair, cluster);
  const Placement p = place("local_search", {pair, cluster, pair_costs});
  CHECK(max_load({pair, cluster, pair_costs}, p) == 20ns);
  CHECK(p.facts.at("max_load_us") == 0.020);
}

// a = b = c - d = e = f, 10 ns each: the cut of two equal halves is in the middle.
TEST_CASE("scotch and metis cut equal parts with the least edge cut") {
  const OpGraph graph = graph_of("a10 -100> b10 -100> c10 -1> d10 -100> e10 -100> f10");
  const Cluster cluster = gpus(2);
  const Problem& problem = OwnedProblem(graph, cluster).problem;
  for (const char* name : {"scotch", "metis"}) {
    CAPTURE(name);
    const Placement p = place(name, problem);
    CHECK((device_digits(p) == "000111" || device_digits(p) == "111000"));
    CHECK(max_load(problem, p) == 31ns);
  }
}

TEST_CASE("baselines for accelerators leave ops on a core that run only there") {
  const OpGraph graph = graph_of("a0,@acc10,@cpu10; b0,@acc10,@cpu10; c0,@cpu10; d0,@acc10,@cpu10");
  const Problem& problem = OwnedProblem(graph, of_kinds({"cpu", "acc", "acc"})).problem;
  for (const char* name : {"local_search", "scotch", "metis"}) {
    CAPTURE(name);
    const Placement p = place(name, problem);
    for (const OpId v : graph.ops()) CHECK((p.device[v] == gpu0) == (graph.name(v) == "c"));
  }
}

TEST_CASE("an expert's split gives each accelerator its nodes; groups follow") {
  const OpGraph graph = graph_of("node1=0,c:one; node2=0; node1grad=0,c:one");
  const Problem& problem = OwnedProblem(graph, of_kinds({"cpu", "acc", "acc"})).problem;
  const auto parse = [&](const char* text) { return parse_split(text, "s.json", problem); };
  // The accelerators are devices 1 and 2.
  CHECK(device_digits(parse(R"({"fpgas": [{"nodes": [2], "load": -1}, {"nodes": [1]}],
                            "cpus": [{"nodes": []}], "maxLoad": 3})")) == "212");
  CHECK(device_digits(parse(R"({"fpgas": [], "cpus": [{"nodes": [1, 2]}]})")) == "000");
  CHECK_THROWS_WITH_AS(
      parse(R"({"fpgas": [{"nodes": [1]}, {"nodes": []}, {"nodes": [2]}], "cpus": []})"),
      "the split has more than the 2 accelerators of the cluster", InfeasibleError);
  CHECK_REFUSED(parse(R"({"fpgas": [{"nodes": [1, 7, 1]}], "cpus": []})"),
                "s.json:1:1: op 'node2' has no device\n"
                "s.json:1:26: nodes: 7 is not a node of the graph\n"
                "s.json:1:29: nodes: this node was placed before");
  // Node 3 is node1grad: the backward nodes are numbered after the two forward nodes.
  CHECK(device_digits(parse(R"({"fpgas": [{"nodes": [2]}, {"nodes": [3, 1]}], "cpus": []})")) ==
        "212");
  CHECK(is_split(R"({"fpgas": [], "cpus": []})"));
  CHECK_FALSE(is_split(R"({"format": "baechi-placement", "placement": {"\"fpgas\"": 1}})"));
}

TEST_CASE("a split lists ids: with names=ids a graph of named nodes is read by them") {
  const std::string text = R"({"maxSizePerFPGA": 10, "maxFPGAs": 2, "maxCPUs": 0, "nodes": [
      {"name": "mul", "id": 4, "supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": 1},
      {"name": "add", "id": 9, "supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": 1}],
      "edges": [{"sourceId": 4, "destId": 9, "cost": 0, "size": 1}]})";
  const std::string split = R"({"fpgas": [{"nodes": [9]}, {"nodes": [4]}], "cpus": []})";
  const auto placed = [&](const std::string& names) {
    TextFile file("m.json", text);
    const Trace trace =
        read_trace(file, "", Options("dnn_partitioning", {{"names", {names, {}, {}}}}));
    IdVector<DeviceId, Device> devices(2, {.name = "fpga", .kind = "accelerator"});
    const Cluster cluster = Cluster::uniform(std::move(devices), {});
    const ProfiledCosts costs(trace.graph, cluster);
    return parse_split(split, "split.json", {trace.graph, cluster, costs}).device;
  };
  CHECK(placed("ids") == on({gpu1, gpu0}).device);
  CHECK_REFUSED(placed("file"), doctest::Contains("dnn_partitioning:names=ids"));
}

TEST_CASE("pipedream has the authors' values, with their released ids and with them mended") {
  const std::filesystem::path data = testing::published_data();
  const struct {
    const char* workload;
    const char* ignore;
    double milliseconds;
  } values[] = {
      {"OperatorGraphs/bert_l-12_inference", "", 642.78},
      {"OperatorGraphs/bert_l-3_inference", "", 37.46},
      {"OperatorGraphs/bert_l-6_inference", "", 65.56},
      {"OperatorGraphs/resnet50_inference", "", 129.16},
      {"OperatorGraphs/bert_L-12_training", "", 43510.0},
      {"OperatorGraphs/bert_l-3_training", "", 122.99},
      {"OperatorGraphs/bert_l-6_training", "", 192.92},
      {"OperatorGraphs/resnet50_training", "", 684.89},
      {"LayerGraphs/bert24_inference", "node4", 17.79},
      {"LayerGraphs/gnmt_inference", "node2 node40 node46", 33.03},
      {"LayerGraphs/inceptionv3_inference", "", 60.42},
      {"LayerGraphs/resnet50_inference", "", 39.40},
      {"LayerGraphs/bert24_training", "node4 node5grad", 187.91},
      {"LayerGraphs/bert24_training", "node4 node4grad", 41.75},
      {"LayerGraphs/gnmt_training", "node2 node40 node46 node4grad node41grad node46grad", 294.90},
      {"LayerGraphs/gnmt_training", "node2 node40 node46 node2grad node40grad node46grad", 107.35},
      {"LayerGraphs/inceptionv3_training", "", 128.32},
      {"LayerGraphs/resnet50_training", "", 83.67}};
  for (const auto& [workload, ignore, milliseconds] : values) {
    CAPTURE(workload);
    const MsrProblem msr(data / "msr-dnn-partitioning/throughput-inputs" /
                         (std::string(workload) + ".json.zst"));
    const Placement p = place("pipedream", msr.problem(), {{"ignore", {ignore, "", {}}}});
    CHECK(to_us(max_load(msr.problem(), p)) / 1e3 == doctest::Approx(milliseconds).epsilon(2e-4));
  }
}

TEST_CASE("greedy_latency has the authors' values") {
  const std::filesystem::path data = testing::published_data();
  const std::pair<const char*, double> values[] = {
      {"OperatorGraphs/bert_l-12_inference", 867.84}, {"OperatorGraphs/bert_l-3_inference", 416.20},
      {"OperatorGraphs/bert_l-6_inference", 494.13},  {"OperatorGraphs/resnet50_inference", 839.54},
      {"LayerGraphs/bert24_inference", 100.22},       {"LayerGraphs/gnmt_inference", 268.50},
      {"LayerGraphs/inceptionv3_inference", 2485.24}, {"LayerGraphs/resnet50_inference", 4197.06}};
  const auto latency = make_objective("latency", Options("latency"));
  for (const auto& [workload, milliseconds] : values) {
    CAPTURE(workload);
    const MsrProblem msr(data / "msr-dnn-partitioning/latency-inputs" /
                         (std::string(workload) + ".json.zst"));
    const Score score = latency->score(msr.problem(), place("greedy_latency", msr.problem()));
    CHECK(score.feasible());
    CHECK(to_us(score.value) / 1e3 == doctest::Approx(milliseconds).epsilon(2e-5));
  }
}
