#include <nlohmann/json.hpp>

#include "placers/files/placement_file.h"
#include "placers/interface/registry.h"
#include "scenarios/read/device_table.h"
#include "scenarios/read/scenario_schema.h"
#include "tests/prelude.h"
#include "tests/scenarios/sweeps.h"

using Json = nlohmann::json;

namespace {

/// The step on two devices of 200 B, and the graph that placers are given in its place.
Experiment placed_as(OpGraph step, OpGraph placed) {
  PreparedGraph prepared{.step = std::make_shared<const OpGraph>(std::move(step)),
                         .placed = std::make_shared<const OpGraph>(std::move(placed))};
  for (const OpId v : prepared.step->ops()) prepared.mapped_op.push_back(v);
  ClusterChoice cluster;
  cluster.devices = {{.count = 2, .name = "gpu", .kind = {}, .memory = 200_B}};
  cluster.link = {.bandwidth = 1.0_GBps, .latency = 0ns};
  return {std::make_shared<const CostedGraph>(
              std::make_shared<const PreparedGraph>(std::move(prepared)), cluster),
          {}};
}

/// `graph` on a GPU of `memory`, with a host of 1 GB behind a link of 10 GB/s in each direction.
Experiment beside_host(OpGraph graph, Bytes memory, Bytes host = {1'000'000'000},
                       std::size_t gpus = 1) {
  const auto step = std::make_shared<const OpGraph>(std::move(graph));
  ClusterChoice cluster;
  cluster.devices = {{.count = gpus, .name = "gpu", .kind = {}, .memory = memory},
                     {.count = gpus, .name = "host", .kind = "host", .memory = host}};
  cluster.link = {.bandwidth = 10.0_GBps, .latency = 0ns};
  return {std::make_shared<const CostedGraph>(
              std::make_shared<const PreparedGraph>(PreparedGraph{.step = step, .placed = step}),
              cluster),
          {.transfers = Transfers::duplex}};
}

/// Each control edge on the way takes a nanosecond, for its 4 bytes.
bool about(Duration found, Duration wanted) { return found >= wanted && found - wanted <= 5ns; }

std::unique_ptr<Placer> with_fallback_on(const std::string& name) {
  return make_placer(name, Options(name, {{"fallback", {"true", {}, {}}}}));
}

OpGraph product_in(Precision precision) {
  OpGraphBuilder builder;
  const OpId op = builder.add_op({.name = "a", .kind = "MatMul"});
  builder.add_kernel(op, {.flops = 2 * 64 * 64 * 64,
                          .precision = precision,
                          .matrix = {MatrixKind::product, 1, 0, 64, 64}});
  return std::move(builder).build();
}

template <NamedEnum E>
std::string yaml_list() {
  std::string list;
  for (const std::string_view word : all_words<E>())
    list += (list.empty() ? "[" : ", ") + std::string(word);
  return list + "]";
}

/// Checks that `help` has each name of an enum, followed by its meaning.
template <NamedEnum E>
void check_help(const std::string& help) {
  for (const E e : all<E>()) CHECK_MESSAGE(holds(help, std::string(to_text(e)) + " ("), to_text(e));
}

template <NamedEnum E>
void check_schema(const Json& schema, const char* key) {
  const Json& property = schema["properties"]["engine"]["properties"][key];
  constexpr auto known = all_words<E>();
  CHECK(property["enum"].get<std::vector<std::string>>() ==
        std::vector<std::string>(known.begin(), known.end()));
}

const std::string together_base = R"(name: together
graph: {generate: layered, ops: 6, width: 2, seed: 1, training: true}
cluster: {devices: {count: 2, memory: 1 GiB}, link: {bandwidth: 1 GB/s}}
placers: [single]
)";

/// The mistakes in a sweep of together_base and `lines`; line 5 is the first of `lines`.
std::string sweep_mistakes(const std::string& lines) {
  return message<InputError>([&] { sweep_of(together_base + lines); });
}

}  // namespace

TEST_SUITE_BEGIN("experiment");
// Three ops of 10 ms and 100 MB, whose copies take 10 ms. Where all wait: 3 x (10 + 10), or with
// copies ahead 10 + 3 x 10; the GPU holds one copy, or two. 250 MB hold one op and the copy of
// another: op1 stays, and op0 and op2 wait.
TEST_CASE("where a GPU is too small, weights wait on the host, and a placement file says so") {
  const OpGraph three = chain_of(3, {100'000'000}, 1_B, 10ms);
  const auto placed = [&](Bytes memory, const char* placer, const char* prefetch) {
    const Experiment experiment = beside_host(three, memory);
    Options options(placer);
    options.set("prefetch", {prefetch, "", {}});
    const Placement p = experiment.place(*make_placer(placer, std::move(options)), 0);
    const std::string file = placement_json(p, three, "three", 2);
    const Placement again = parse_placement(file, "p.json", three, 2);
    CHECK(again.home == p.home);
    CHECK(again.prefetch == p.prefetch);
    const StepResult step = experiment.step(again).simulate();
    CHECK_FALSE(step.oom);
    return std::pair(step.makespan, p);
  };
  for (const char* placer : {"m_etf", "m_sct", "auto", "refine", "search"}) {
    CAPTURE(placer);
    CHECK(about(placed({100'000'016}, placer, "0").first, 60ms));
    CHECK(about(placed({200'000'016}, placer, "1").first, 40ms));
    CHECK(about(placed({300'000'016}, placer, "2").first, 30ms));
    const auto [time, some] = placed({250'000'000}, placer, "0");
    CHECK(about(time, 50ms));
    CHECK(some.facts.at("waiting_bytes") == 200e6);
    CHECK_FALSE(some.waits(OpId{1}));
  }
  // accelerate keeps room for the largest op on the GPU: one stays, as here, though others do.
  CHECK(about(placed({250'000'000}, "fill", "0").first, 50ms));
  const Experiment never = beside_host(three, {250'000'000});
  CHECK_THROWS_AS(
      never.place(*make_placer("m_etf", Options("m_etf", {{"offload", {"never", "", {}}}})), 0),
      InfeasibleError);
  const Experiment full = beside_host(three, {250'000'000}, {150'000'000});
  CHECK_THROWS_AS(full.place(*make_placer("m_etf"), 0), InfeasibleError);
  // 300 MB but 110 cross the link in each step.
  const Experiment small = beside_host(three, {110'000'000});
  const Problem p = small.problem();
  const LowerBounds bounds = lower_bounds(p.graph, p.cluster, p.costs);
  CHECK(bounds.fits_in_memory);
  CHECK(bounds.offload == 19ms);
}

TEST_CASE("weights wait on GPUs of their own links, and no more than the host holds") {
  const OpGraph four = chain_of(4, {100'000'000}, 1_B, 10ms);
  // Two GPUs of 150 MB: one op resident on each is too much beside a copy, so all wait.
  const Experiment two = beside_host(four, {150'000'000}, {400'000'000}, 2);
  const Placement p = two.place(*make_placer("m_etf"), 0);
  for (const OpId v : four.ops()) {
    CHECK(p.waits(v));
    CHECK(index(p.home[v]) == 2 + index(p.device[v]));
  }
  CHECK_FALSE(two.step(p).simulate().oom);
  const Experiment less = beside_host(four, {150'000'000}, {350'000'000}, 2);
  CHECK(message<InfeasibleError>([&] { less.step(p); }) ==
        "weights that wait take more than the 333.79 MiB of the host");
  Placement wrong = p;
  wrong.home[OpId{0}] = p.device[OpId{0}] == gpu0 ? gpu1 : gpu0;
  CHECK_THROWS_AS(two.step(wrong), InputError);
  wrong.device[OpId{0}] = gpu2;
  CHECK_THROWS_AS(two.step(wrong), InputError);
}

// m_etf sees ops of 60 B, and places both on one device of 200 B. The executed ops have 180 B
// each, 361 B with their tensor: run again with 200 * 200 / 361 = 110 B on that device, it places
// them on two.
TEST_CASE("a placement that fits the graph given to the placer also fits the executed graph") {
  const Experiment experiment =
      placed_as(graph_of("a1,w180 -1> b1,w180"), graph_of("a1,w60 -1> b1,w60"));
  CHECK(experiment.step(experiment.place(*make_placer("m_etf"), 0)).simulate().oom);
  const Placement p = experiment.place(*with_fallback_on("m_etf"), 0);
  CHECK(p.placed_by.empty());  // m_etf itself, on a smaller memory
  CHECK(p.device[OpId{0}] != p.device[OpId{1}]);
  CHECK(holds(p.detail, "ran 2 times"));
  CHECK_FALSE(experiment.step(p).simulate().oom);

  // A placer that ignores memory gives the same placement again. Two of the four placements of
  // two ops put them on two devices, and fit.
  CHECK(experiment.step(experiment.place(*make_placer("single"), 0)).simulate().oom);
  const Placement apart = experiment.place(*with_fallback_on("single"), 0);
  CHECK(apart.placed_by == "fallback:all");
  CHECK_FALSE(experiment.step(apart).simulate().oom);
}

// A chain of four ops: the placer sees a of 1 B, b, c and d of 40 B, so m_etf places all on one
// device of 200 B, and with less memory no margin helps. In the step, a has 150 B and each other
// 60 B: only b, c, d together, without a, fit devices of 200 B.
TEST_CASE("if no placement of the placer fits, fallback takes any that does") {
  const Experiment experiment =
      placed_as(graph_of("a1,w150 -1> b1,w60 -1> c1,w60 -1> d1,w60 -1> ."),
                graph_of("a1,w1 -1> b1,w40 -1> c1,w40 -1> d1,w40 -1> ."));
  for (const char* name : {"m_etf", "m_topo", "m_sct"}) {
    CAPTURE(name);
    const Placement p = experiment.place(*with_fallback_on(name), 0);
    CHECK(p.placed_by == "fallback:all");
    CHECK_FALSE(experiment.step(p).simulate().oom);
    const bool a_apart = p.device[OpId{0}] != p.device[OpId{1}];
    CHECK(a_apart);
    CHECK(p.device[OpId{1}] == p.device[OpId{3}]);
  }
  const Placement alone = experiment.place(*make_placer("m_etf"), 0);
  CHECK(experiment.step(alone).simulate().oom);
}

TEST_SUITE_BEGIN("evidence");
TEST_CASE("a dtype without measured GEMMs on a device type is reported as unfitted") {
  const DeviceModel& h100 = *built_in_devices().devices.at("h100");
  const auto bf16 = evidence_of(product_in(Precision::bf16), h100);
  REQUIRE(bf16.size() == 1);
  CHECK(bf16[0].of == "h100");
  CHECK(bf16[0].fitted.starts_with("products bf16 2886 rows"));
  const auto fp32 = evidence_of(product_in(Precision::fp32), h100);
  REQUIRE(fp32.size() == 2);
  CHECK(fp32[1].of == "h100 in fp32");
  CHECK(fp32[1].fitted.starts_with("unfitted"));
  // A type without any fit is reported once.
  CHECK(evidence_of(product_in(Precision::fp32), *built_in_devices().devices.at("k80")).size() ==
        1);
}

TEST_CASE("fits besides the device's are reported where they are used") {
  const auto evidence =
      evidence_of(graph_of("a0,k:MambaMixer,f1"), *built_in_devices().devices.at("h100"));
  REQUIRE(evidence.size() == 2);
  CHECK(evidence[1].of == "mixers of Mamba-2");
  CHECK(holds(evidence[1].fitted, "fitted to steps of Nemotron 3 Nano"));
}

TEST_CASE("types of links and collectives in a cluster are reported, also inside node types") {
  const ScenarioFile file = scenario_of(R"(
graph: {generate: layered, ops: 3}
cluster: {nodes: {kind: dgx_h100, count: 2}}
placers: [single]
)");
  std::string named;
  for (const Evidence& e : file.point(0).cluster.evidence) named += e.of + ", ";
  CHECK(named == "link nvlink4, link infiniband_ndr, collectives h100_nccl, ");
  const std::string line = evidence_line(file.point(0).cluster.evidence);
  CHECK(line.starts_with("evidence     link nvlink4: unfitted; "));
  CHECK(evidence_line({}).empty());
}

TEST_SUITE_BEGIN("names");
TEST_CASE("an external placer gets the names of all engine options, and results have them") {
  const TemporaryFolder folder;
  write_graph(folder.file("toy.json"), "a10k -1000> b20k", "toy");
  // Stores its input in a new file, and places both ops on the first device.
  folder.write("place",
               "#!/bin/sh\ncat > \"$(mktemp ./seen.XXXXXX)\"\n"
               "echo '{\"format\": \"baechi-placement\", \"version\": 1, \"placement\": {\"a\": 0, "
               "\"b\": 0}}'\n");
  std::filesystem::permissions(folder.file("place"), std::filesystem::perms::owner_all);
  folder.write("words.yaml",
               "graph: {import: toy.json}\n"
               "cluster: {devices: {count: 2, memory: 1 MB}, link: {bandwidth: 1 GB/s}}\n"
               "placers: [{exec: {path: place}}]\n"
               "sweep:\n  engine.semantics: " +
                   yaml_list<Semantics>() + "\n  engine.transfers: " + yaml_list<Transfers>() +
                   "\n  engine.queue: " + yaml_list<ReadyOrder>() + "\n");
  const int code = shell(folder, program() + " " + "run words.yaml --out results --quiet");
  CAPTURE(folder.read("out.txt"));
  REQUIRE(code == 0);

  std::set<std::string> received, expected;
  for (const auto& entry : std::filesystem::directory_iterator(folder.file(""))) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("seen.")) continue;
    const Json engine = Json::parse(folder.read(name))["engine"];
    received.insert(engine["semantics"].get<std::string>() + " " +
                    engine["transfers"].get<std::string>() + " " +
                    engine["queue"].get<std::string>());
  }
  for (const Semantics s : all<Semantics>())
    for (const Transfers t : all<Transfers>())
      for (const ReadyOrder q : all<ReadyOrder>())
        expected.insert(std::string(to_text(s)) + " " + std::string(to_text(t)) + " " +
                        std::string(to_text(q)));
  CHECK(received == expected);

  const Results results = read_results(folder.file("results"));  // from results.sqlite
  const std::string csv = folder.read("results/results.csv");
  std::set<Transfers> seen;
  for (const RunResult& row : results.rows) {
    CHECK(row.status == Status::ok);
    seen.insert(row.transfers);
  }
  CHECK(results.rows.size() == expected.size());
  CHECK(seen.size() == all<Transfers>().size());
  for (const Transfers t : all<Transfers>())
    CHECK(holds(csv, "," + std::string(to_text(t)) + ",ok,"));
}

TEST_CASE("the flags accept the names of all engine options, and help and schema list them") {
  const TemporaryFolder folder;
  write_graph(folder.file("toy.json"), "a10k -1000> b20k", "toy");
  folder.write("both.json",
               R"({"format": "baechi-placement", "version": 1, "placement": {"a": 0, "b": 1}})");
  for (const Transfers t : all<Transfers>())
    for (const Semantics s : all<Semantics>()) {
      INFO(to_text(t), " ", to_text(s));
      const int code = shell(
          folder,
          program() + " " +
              "simulate toy.json --placement both.json --devices 2 --memory '1 MB' --transfers " +
              std::string(to_text(t)) + " --semantics " + std::string(to_text(s)));
      CAPTURE(folder.read("out.txt"));
      CHECK(code == 0);
    }
  CHECK(shell(folder, program() + " " + "simulate --help") == 0);
  check_help<Transfers>(folder.read("out.txt"));
  check_help<Semantics>(folder.read("out.txt"));

  const Json schema = Json::parse(scenario_schema());
  check_schema<Semantics>(schema, "semantics");
  check_schema<Transfers>(schema, "transfers");
  check_schema<ReadyOrder>(schema, "queue");
}

TEST_SUITE_BEGIN("runner");
TEST_CASE("conflicting options are mistakes with their positions, before anything runs") {
  CHECK(sweep_mistakes("") == "no error");
  // The original's simulation has neither lanes nor collectives.
  CHECK(sweep_mistakes("transforms:\n  - host\n") == "no error");
  CHECK(sweep_mistakes("engine: {semantics: baechi}\n") == "no error");
  CHECK(sweep_mistakes("engine: {semantics: baechi}\ntransforms:\n  - host\n") ==
        "test.yaml:7:5: semantics baechi does not support lanes and collectives, and the step that "
        "the transforms make has them (semantics event does)");
  CHECK(sweep_mistakes("engine: {semantics: baechi}\nmeasure: [{pipeline: {}}]\n") ==
        "test.yaml:6:11: a pipeline needs the engine's own semantics, event");
  CHECK(sweep_mistakes("transforms:\n  - host: {threads: one}\nmeasure: [{pipeline: {}}]\n") ==
        "test.yaml:7:11: no pipeline by gpipe: host: each stage needs a thread: threads: device");
  // 1 B in 10 s: a step fits into 146 years, and so do few micro-batches.
  const std::string slow =
      "measure: [{pipeline: {micro_batches: [1, 100000]}}]\n"
      "sweep: {cluster.link.bandwidth: [0.1 B/s]}\n";
  const std::string mistake = sweep_mistakes(slow);
  CHECK(
      mistake.starts_with("test.yaml:5:11: a step of 100000 micro-batches could take more than 146 "
                          "years: link gpu0-gpu1"));
  CHECK(mistake.find('\n') == std::string::npos);
}

TEST_CASE("the nodes of a collective must be those of the cluster") {
  // 8 replicas on 8 machines have a link each; on 2 machines, 4 of them share something
  // undefined.
  const auto replicas = [](const char* nodes) {
    return sweep_mistakes(
        fmt::format("transforms:\n  - data_parallel: {{gradients: 1, nodes: {}}}\n", nodes));
  };
  CHECK(replicas("1") == "no error");
  CHECK(replicas("8") == "no error");
  CHECK(replicas("2") ==
        "test.yaml:6:5: all_reduce of 8 ranks on 2 machines: the cluster describes no machines "
        "with several devices (cluster.nodes)");
}
