#include "sim/report/timeline.h"

#include "sim/error.h"
#include "tests/device_models.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"
#include "tests/sim/report/timeline_checks.h"
#include "traces/format/compressed_file.h"

using Json = nlohmann::json;

namespace {

constexpr TimePoint at(Duration time) { return TimePoint{time}; }

/// The step's timeline file, checked; `busy`: the busy time of each device in it.
std::string timeline_of(const Problem& problem, const Placement& placement,
                        const std::string& name = "step.json") {
  const TemporaryFolder folder;
  Timeline timeline;
  StepObserver* observers[] = {&timeline};
  const StepResult step = simulate(problem, placement, observers);
  write_file(folder.file(name),
             [&](const TextSink& sink) { write_perfetto(sink, problem, timeline, step); });
  CHECK(folder.num_files() == 1);
  std::string text = folder.read(name);
  if (name.ends_with(".gz")) return text;
  auto computing = check_timeline(text);
  for (const DeviceId d : problem.cluster.devices())
    CHECK(computing[static_cast<std::int64_t>(index(d))] == step.devices[d].busy.count());
  return text;
}

std::vector<std::string> thread_names(const std::string& text) {
  std::vector<std::string> names;
  const nlohmann::json json = nlohmann::json::parse(text);
  for (const auto& event : json["traceEvents"]) {
    if (event["name"] == "thread_name") names.push_back(event["args"]["name"]);
  }
  return names;
}

}  // namespace

TEST_SUITE_BEGIN("timeline");
TEST_CASE("spans that overlap get lanes of their own, touching ones share the lowest") {
  //  0---10
  //     5---15
  //       10---20   touches the first
  //       10-11     overlaps both others, in time before the one above: it ends first
  CHECK(
      lanes(
          {{at(0ns), at(10ns)}, {at(5ns), at(15ns)}, {at(10ns), at(20ns)}, {at(10ns), at(11ns)}}) ==
      std::vector<std::size_t>{0, 1, 2, 0});
  CHECK(lanes({}).empty());
}

TEST_CASE("zero-time spans do not overlap what they touch") {
  CHECK(lanes({{at(5ns), at(5ns)}, {at(5ns), at(5ns)}, {at(0ns), at(5ns)}, {at(5ns), at(6ns)}}) ==
        std::vector<std::size_t>{0, 0, 0, 0});
}

TEST_CASE("a step's file has a track for what each device computes, sends and receives") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(one_tensor_two_readers(), gpus(2));
  const std::string text = timeline_of({graph, cluster, costs}, on({gpu0, gpu1, gpu1}));
  // a (10 ns), then its 100 B, then b and c: 160 ns in all.
  CHECK(thread_names(text) == std::vector<std::string>{"compute", "send", "compute", "receive"});
  CHECK(holds(text, "\"ts\":0.110,\"dur\":0.020,\"cat\":\"op\",\"name\":\"b\""));
  CHECK(holds(text, "\"ts\":0.010,\"dur\":0.100,\"cat\":\"send\",\"name\":\"a\""));
}

TEST_CASE("in every mode ops take the busy time, and no two spans of a lane overlap") {
  for (const EngineOptions& engine : all_engines()) {
    const RandomProblem random({.ops = 60}, 3, 5);
    timeline_of(random.under(engine), random.placement);
  }
}

TEST_CASE("transfers at the same time are on several lanes") {
  // a sends three tensors to gpu1 at once.
  const auto& [graph, cluster, costs, problem] = OwnedProblem(
      graph_of("a10 -100> b10; a -100> b; a -100> b"), gpus(2), {.transfers = Transfers::parallel});
  CHECK(thread_names(timeline_of(problem, on({gpu0, gpu1}))) ==
        std::vector<std::string>{"compute", "send 1", "send 2", "send 3", "compute", "receive 1",
                                 "receive 2", "receive 3"});
}

TEST_CASE("ops of one colocation group have its name and one colour, others none") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a1,c:x; b1,c:y; c1,c:x; d1"), gpus(1));
  const std::string text = timeline_of({graph, cluster, costs}, on({gpu0, gpu0, gpu0, gpu0}));
  std::map<std::string, std::pair<std::string, std::string>> look;
  const auto json = nlohmann::json::parse(text);
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "X")
      look[event["name"]] = {event["args"].value("group", ""), event.value("cname", "")};
  }
  CHECK(look["a"] == look["c"]);
  CHECK(look["a"].first == "x");
  CHECK(look["b"].first == "y");
  CHECK(look["a"].second != look["b"].second);
  CHECK(look["d"] == std::pair<std::string, std::string>());
}

TEST_CASE("names with quotes, control characters and broken UTF-8 are valid JSON") {
  OpGraphBuilder g;
  g.add_op({.name = "a\"b\\c\n\x01\xff", .kind = "\t", .compute = 1ns});
  const auto& [graph, cluster, costs, problem] = OwnedProblem(std::move(g).build(), gpus(1));
  timeline_of({graph, cluster, costs}, on({gpu0}));
}

TEST_CASE("running out of memory is marked where it happened") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(one_tensor_two_readers(), gpus(1, 99_B));  // a writes 100 B
  const std::string text = timeline_of({graph, cluster, costs}, on({gpu0, gpu0, gpu0}));
  CHECK(holds(text, "out of memory"));
}

TEST_CASE("a name that ends in .gz is compressed, equally each time") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(one_tensor_two_readers(), gpus(2));
  const Placement placement = on({gpu0, gpu1, gpu1});
  const std::string bytes = timeline_of({graph, cluster, costs}, placement, "s.json.gz");
  CHECK(bytes.starts_with("\x1f\x8b"));
  CHECK(bytes == timeline_of({graph, cluster, costs}, placement, "s.json.gz"));
}

namespace {

/// Two ops of one module and one without work:
///   conv  8 MFLOP, 100 kB, 9 us: bound by compute
///   relu  0.1 MFLOP, 600 kB, 7 us: bound by memory
///   view  4 us
/// on a device of 1 TFLOP/s, 100 GB/s and 1 us per launch.
OpGraph one_module() {
  return graph_of(
      "conv9000,i:layer1,f8000000,m100000 -8> relu7000,i:layer1,f100000,m600000 -8> view4000");
}

Json drawn(const OpGraph& graph, const DeviceModel* model, std::size_t most = 100) {
  const Cluster cluster = gpus(1);
  const Problem& problem = OwnedProblem(graph, cluster).problem;
  Timeline timeline;
  StepObserver* observers[] = {&timeline};
  simulate(problem, {.device = IdVector<OpId, DeviceId>(graph.num_ops(), gpu0)}, observers);
  const std::string text = roofline(problem, timeline, {&model, 1}, most);
  return text.empty() ? Json() : Json::parse(text);
}

}  // namespace

TEST_SUITE_BEGIN("roofline");

const DeviceModel launching_device{.name = "plain",
                                   .arithmetic = in_every_format({.peak = {1e12}}),
                                   .bandwidth = {1e11},
                                   .launch = 1us,
                                   .source = "",
                                   .fitted = ""};

TEST_CASE("ops and layers with their work and time, the longest first, under the roof") {
  const Json r = drawn(one_module(), &launching_device);
  CHECK(r["roofs"] ==
        Json::parse(R"([{"device": "plain", "bandwidth": 1e11, "peaks": {"fp32": 1e12}}])"));
  CHECK(r["ops"] == Json::parse(R"([["conv", 8e6, 1e5, 9000, 0], ["relu", 1e5, 6e5, 7000, 1]])"));
  CHECK(r["layers"] == Json::parse(R"([["layer1", 8.1e6, 7e5, 16000]])"));  // 9 + 7 us
  CHECK(drawn(one_module(), &launching_device, 1)["ops"].size() == 1);
}

TEST_CASE("without a model there is no roof, without work no plot") {
  const Json r = drawn(one_module(), nullptr);
  CHECK(r["roofs"].empty());
  CHECK(r["ops"][0] == Json::parse(R"(["conv", 8e6, 1e5, 9000, -1])"));
  CHECK(drawn(one_tensor_two_readers(), &launching_device).is_null());
}
