#include <fmt/format.h>

#include "placers/framework_placement.h"
#include "tests/cli/session.h"
#include "traces/importer.h"

namespace {

constexpr std::string_view cluster = "--devices 4 --memory '500 MiB' --bandwidth '50 GB/s'";

/// Number of keys of `map` that are the module or enclose it.
std::size_t keys_for(const Json& map, const std::string& module) {
  std::size_t n = 0;
  for (const auto& [key, value] : map.items())
    n += key.empty() || module == key || module.starts_with(key + ".") ? 1U : 0U;
  return n;
}

}  // namespace

TEST_SUITE("cli export") {
  TEST_CASE("a model without inner modules is whole on one device") {
    const Session session;
    session.folder().write("t.json", R"({"format": "baechi-trace", "version": 1, "ops": [
        {"name": "a", "compute_us": 1, "persistent_bytes": 100, "outputs": [{"bytes": 8}]},
        {"name": "b", "compute_us": 1, "persistent_bytes": 100, "outputs": [{"bytes": 8}]}],
        "edges": [{"from": "a", "output": 0, "to": "b"}]})");
    const auto place = [&](const std::string& memory, const std::string& format) {
      return session.run("place t.json --devices 2 --memory '" + memory + "' --export " + format +
                         " -o map.json");
    };
    const auto refused = place("150 B", "accelerate");  // each op fits on a device of its own
    CHECK(refused.code == 0);
    CHECK(holds(refused.err, "does not fit on one device"));
    CHECK(holds(refused.err, "parts of it in modules of their own may be apart"));
    CHECK_FALSE(std::filesystem::exists(session.folder().file("map.json")));
    CHECK(place("1 KiB", "accelerate").code == 0);
    CHECK(Json::parse(session.folder().read("map.json")).size() == 1);
    CHECK(Json::parse(session.folder().read("map.json")).contains(""));
    CHECK(place("1 KiB", "pipelining").code == 2);
  }

  TEST_CASE("each module of the trace is exported; the change of the step time is printed") {
    const Session session;
    REQUIRE(session.run("trace generate resnet50 batch=2 -o r.json").code == 0);
    const auto place = [&](const std::string& format, const std::string& file) {
      const auto result = session.run("place r.json --placer m_topo " + std::string(cluster) +
                                      " --export " + format + " -o " + file);
      CAPTURE(result.err);
      CHECK(result.code == 0);
      CHECK(holds(result.err, "step") == (format != "json"));
      return Json::parse(session.folder().read(file));
    };
    const Json map = place("accelerate", "map.json");
    const Json stages = place("pipelining", "stages.json");
    const OpGraph graph = read_trace(session.folder().file("r.json")).graph;
    for (const OpId v : graph.ops()) {
      CAPTURE(graph.name(v));
      CHECK(keys_for(map, std::string(graph.module(v))) >= 1);
      CHECK(keys_for(stages["modules"], std::string(graph.module(v))) == 1);
    }
    for (const auto& [name, device] : map.items()) CHECK(device.get<std::size_t>() < 4);
    CHECK(stages["split_spec"].size() + 1 == stages["stages"]);
    CHECK(stages["stage_devices"].size() == stages["stages"]);
    for (const auto& [name, where] : stages["split_spec"].items())
      CHECK(stages["modules"].contains(name));
    // Read back, the map is the placement whose step time was printed.
    const std::string printed = session
                                    .run("place r.json --placer m_topo " + std::string(cluster) +
                                         " --export accelerate -o map.json")
                                    .err;
    const std::size_t at = printed.find("step time ") + 10;
    const auto time = parse_duration(printed.substr(at, printed.find_first_of(",;\n", at) - at));
    REQUIRE(time);
    for (const char* verb :
         {"simulate r.json --placement map.json ", "place r.json --placer expert:file=map.json "})
      CHECK(session.json(verb + std::string(cluster))["step_time_us"].get<double>() ==
            doctest::Approx(to_us(*time)).epsilon(1e-3));
    CHECK(
        session
            .json("simulate r.json --placement stages.json " + std::string(cluster))["step_time_us"]
            .get<double>() > 0);
  }

  // Three modules of 10 ms and 100 MB on a GPU of 250: two wait, and one stays between them. A copy
  // takes 100 MB / 25.2 GB/s + 10 us = 3.978 ms, and the second waits 10 us for its launch.
  TEST_CASE("where weights wait, accelerate's map says cpu, and is the placement read back") {
    const Session session;
    Json trace{{"format", "baechi-trace"}, {"version", 1}};
    for (const char* name : {"m0", "m1", "m2"}) {
      trace["ops"].push_back({{"name", name},
                              {"module", name},
                              {"kind", "Linear"},
                              {"compute_us", 10'000},
                              {"persistent_bytes", 100'000'000},
                              {"outputs", {{{"bytes", 1}}}}});
      if (trace["ops"].size() > 1)
        trace["edges"].push_back(
            {{"from", trace["ops"][trace["ops"].size() - 2]["name"]}, {"output", 0}, {"to", name}});
    }
    session.folder().write("t.json", trace.dump());
    const std::string on = " --devices 1 --memory '250 MB' --cpu-memory '1 GB' --transfers duplex ";
    REQUIRE(session.run("place t.json" + on + "-o p.json").code == 0);
    REQUIRE(session.run("place t.json" + on + "--export accelerate -o map.json").code == 0);
    const Json placement = Json::parse(session.folder().read("p.json"));
    const Json map = Json::parse(session.folder().read("map.json"));
    CHECK(map == Json{{"m0", "cpu"}, {"m1", 0}, {"m2", "cpu"}});
    CHECK(placement["home"] == Json{{"m0", 1}, {"m2", 1}});
    // The homes that the file says of a GPU, a host and a disk.
    const auto read_back = [&](const std::string& file) {
      const OpGraph graph = read_trace(session.folder().file("t.json")).graph;
      IdVector<DeviceId, Device> devices;
      for (const char* kind : {"", "host", "disk"})
        devices.push_back({.name = kind, .kind = kind, .memory = Bytes{1 << 30}});
      const Cluster cluster_of_three =
          Cluster::uniform(devices, {.bandwidth = {1e9}, .latency = {}});
      const ProfiledCosts costs(graph, cluster_of_three);
      const auto read = parse_framework_placement(session.folder().read(file), file,
                                                  {graph, cluster_of_three, costs});
      Json home = Json::object();
      for (const OpId v : graph.ops())
        if (read->waits(v)) home[std::string(graph.name(v))] = index(read->home[v]);
      return home;
    };
    CHECK(read_back("map.json") == placement["home"]);
    for (const char* file : {"p.json", "map.json"})
      CHECK(session.json(fmt::format("simulate t.json --placement {}{}", file, on))["step_time_us"]
                .get<double>() == doctest::Approx(30'000 + 2 * 3978.25 + 10.001));
    // DeepSpeed cannot let some wait; where the GPU is too small for two, all do.
    CHECK(holds(session.run("place t.json" + on + "--export deepspeed -o z.json").err,
                "DeepSpeed has all weights at one place, and not those of op 'm1' elsewhere"));
    const std::string tight =
        " --devices 1 --memory '150 MB' --cpu-memory '1 GB' --transfers duplex ";
    REQUIRE(session.run("place t.json" + tight + "--export deepspeed -o z.json").code == 0);
    const Json all{{"m0", 1}, {"m1", 1}, {"m2", 1}};
    CHECK(Json::parse(session.folder().read("z.json")) ==
          Json::parse(R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"},
                          "stage3_prefetch_bucket_size": 0}})"));
    CHECK(read_back("z.json") == all);
    // A host of 350 MB holds one, and both copies of the other on its way from the disk.
    session.folder().write("disk.yaml", R"(
name: disk
graph: {import: t.json}
placers: [auto]
cluster:
  devices: [{memory: 250 MB}, {kind: host, memory: 350 MB}, {kind: disk, memory: 1 TB}]
  link: {bandwidth: 10 GB/s, latency: 0 us}
engine: {transfers: duplex}
)");
    const std::string with_disk = "place t.json --scenario disk.yaml ";
    REQUIRE(session.run(with_disk + "-o p.json").code == 0);
    REQUIRE(session.run(with_disk + "--export accelerate -o map.json").code == 0);
    CHECK(Json::parse(session.folder().read("map.json")) ==
          Json{{"m0", "cpu"}, {"m1", 0}, {"m2", "disk"}});
    CHECK(Json::parse(session.folder().read("p.json"))["home"] == Json{{"m0", 1}, {"m2", 2}});
    CHECK(read_back("map.json") == Json{{"m0", 1}, {"m2", 2}});
    session.refuses("simulate t.json --devices 1 --memory 1GB --placement map.json",
                    "map.json: the cluster has no device 'cpu' (it has 0)");
    const auto vllm = session.run("place t.json" + on + "--export pipelining -o s.json");
    CHECK(vllm.code == 2);
    CHECK(holds(vllm.err, "pipelining cannot say that weights wait, as those of op 'm0' do"));
  }

  // Backward ops of 5 ms write 20 MB each (2 ms at 10 GB/s) for updates of 3 ms, which run on the
  // host; new weights of 20 MB come back: b1 0-5, gradient 5-7, u1 7-10, weights 10-12; b0 5-10,
  // 10-12, 12-15, 15-17. A GPU of 100 MB has no place for the updates' 80 MB each.
  TEST_CASE("an optimizer on the host works while the backward pass goes on") {
    const Session session;
    session.folder().write("t.json", R"({"format": "baechi-trace", "version": 1, "ops": [
      {"name": "f0", "persistent_bytes": 20000000, "outputs": [{"bytes": 0}]},
      {"name": "f1", "persistent_bytes": 20000000, "outputs": [{"bytes": 0}]},
      {"name": "b1", "phase": "backward", "forward": "f1", "compute_us": 5000,
       "outputs": [{"bytes": 0}, {"bytes": 20000000}]},
      {"name": "u1", "phase": "update", "compute_us": 3000, "persistent_bytes": 80000000},
      {"name": "b0", "phase": "backward", "forward": "f0", "compute_us": 5000,
       "outputs": [{"bytes": 20000000}]},
      {"name": "u0", "phase": "update", "compute_us": 3000, "persistent_bytes": 80000000}],
      "edges": [{"from": "f0", "to": "f1"}, {"from": "f1", "to": "b1"}, {"from": "b1", "to": "b0"},
                {"from": "b1", "output": 1, "to": "u1"}, {"from": "b0", "to": "u0"}]})");
    session.folder().write("s.yaml", R"(graph: {import: t.json}
cluster:
  devices: [{memory: 100 MB}, {kind: host, name: host, memory: 1 GB}]
  link: {bandwidth: 10 GB/s, latency: 0 us}
engine: {transfers: duplex}
placers: [m_etf])");
    const Json placed = session.json("place t.json --scenario s.yaml --placer m_etf -o p.json");
    CHECK(placed["home"] == Json{{"u0", 1}, {"u1", 1}});
    CHECK(placed["step_time_us"] == 17'000);
    REQUIRE(
        session.run("place t.json --scenario s.yaml --placer m_etf --export deepspeed -o z.json")
            .code == 0);
    CHECK(Json::parse(session.folder().read("z.json")) ==
          Json::parse(R"({"zero_optimization": {"stage": 2,
                          "offload_optimizer": {"device": "cpu"}}})"));
    for (const char* file : {"p.json", "z.json"})
      CHECK(session.json(fmt::format("simulate t.json --scenario s.yaml --placement {}",
                                     file))["step_time_us"] == 17'000);

    session.folder().write("host.yaml", session.folder().read("s.yaml") + "\ntransforms: [host]\n");
    session.refuses("place t.json --scenario host.yaml",
                    "host.yaml:7:14: transforms: 'host' changes the placed step, where no weights "
                    "can wait on a host or disk");
    session.refuses("bound t.json --scenario s.yaml --least-memory",
                    "--least-memory: without hosts and disks, where weights may wait");
  }

  TEST_CASE("modules whose results are added in the model's forward share a device, or are named") {
    // stem -> left, right -> add -> head, 1 MB of weights each.
    const Session session;
    session.folder().write("t.json", R"({"format": "baechi-trace", "version": 1, "ops": [
      {"name": "x", "kind": "Input", "compute_us": 0, "outputs": [{"bytes": 10}]},
      {"name": "stem", "module": "stem", "compute_us": 5, "persistent_bytes": 1000000,
       "outputs": [{"bytes": 10}]},
      {"name": "left", "module": "left", "compute_us": 50, "persistent_bytes": 1000000,
       "outputs": [{"bytes": 10}]},
      {"name": "right", "module": "right", "compute_us": 50, "persistent_bytes": 1000000,
       "outputs": [{"bytes": 10}]},
      {"name": "add", "kind": "add", "compute_us": 1, "outputs": [{"bytes": 10}]},
      {"name": "head", "module": "head", "compute_us": 5, "persistent_bytes": 1000000,
       "outputs": [{"bytes": 10}]}],
      "edges": [{"from": "x", "to": "stem"}, {"from": "stem", "to": "left"},
                {"from": "stem", "to": "right"}, {"from": "left", "to": "add"},
                {"from": "right", "to": "add"}, {"from": "add", "to": "head"}]})");
    const std::string place =
        "place t.json --devices 2 --bandwidth '100 GB/s' --latency '0 us' --export accelerate -o "
        "m.json --memory ";
    REQUIRE(session.run(place + "'2.1 MB'").code == 0);
    const Json map = Json::parse(session.folder().read("m.json"));
    CHECK(map["left"] == map["right"]);
    CHECK(map["stem"] == map["head"]);
    CHECK(map["stem"] != map["left"]);
    // Ops fit in 1.9 MB with three devices, but left and right together do not.
    const auto refused =
        session.run("place t.json --devices 4 --memory '1.9 MB' --export accelerate -o none.json");
    CHECK(holds(refused.err, "'left', 'right'"));
    CHECK(holds(refused.err, "op 'add' in the forward of the model"));
    CHECK(holds(refused.err, "they fit with 1.91 MiB on each device"));
  }

  TEST_CASE("a pipeline whose memory is for weights alone gives way to an equal one") {
    // Two layers of 10 us and 1 GB. Cuts take the devices in order, but beside its layer `tight`
    // has no memory for the 10 MB that the layer writes.
    const Session session;
    session.folder().write("t.json", R"({"format": "baechi-trace", "version": 1, "ops": [
      {"name": "a", "module": "a", "compute_us": 10, "persistent_bytes": 1000000000,
       "outputs": [{"bytes": 10000000}]},
      {"name": "b", "module": "b", "compute_us": 10, "persistent_bytes": 1000000000,
       "outputs": [{"bytes": 10000000}]}],
      "edges": [{"from": "a", "to": "b"}]})");
    session.folder().write("s.yaml", R"(graph: {import: t.json}
cluster:
  devices: [{name: tight, memory: 1000000100 B}, {name: large, count: 2, memory: 3 GB}]
  link: {bandwidth: 100 GB/s, latency: 0 us}
placers: [auto])");
    REQUIRE(session.run("place t.json --scenario s.yaml --export pipelining -o p.json").code == 0);
    CHECK(Json::parse(session.folder().read("p.json"))["stage_devices"] == Json{1, 2});
  }

  TEST_CASE("pipelines have the shortest longest stage, whatever the order of the devices") {
    // Twelve layers of 10 us and 1 GB: 6 + 6; 8 + 4 if one device takes four.
    const Session session;
    Json trace{{"format", "baechi-trace"},
               {"version", 1},
               {"ops", Json::array()},
               {"edges", Json::array()}};
    for (int i = 0; i < 12; ++i) {
      const std::string name = "l" + std::to_string(i);
      trace["ops"].push_back({{"name", name},
                              {"module", name},
                              {"compute_us", 10},
                              {"persistent_bytes", 1'000'000'000},
                              {"outputs", {{{"bytes", 1000}}}}});
      if (i > 0) trace["edges"].push_back({{"from", "l" + std::to_string(i - 1)}, {"to", name}});
    }
    session.folder().write("t.json", trace.dump());
    const auto split = [&](const std::string& devices) {
      session.folder().write("s.yaml", "graph: {import: t.json}\ncluster: {devices: [" + devices +
                                           "], link: {bandwidth: 12 GB/s, latency: 5 us}}\n"
                                           "placers: [auto]\n");
      const auto result =
          session.run("place t.json --scenario s.yaml --export pipelining -o p.json");
      REQUIRE(result.code == 0);
      return Json::parse(session.folder().read("p.json"))["split_spec"].dump() +
             (holds(result.err, "the longest 60.000 us") ? " 60" : "") +
             (holds(result.err, "the longest 80.000 us") ? " 80" : "");
    };
    CHECK(split("{count: 2, memory: 24 GB}") == R"({"l6":"beginning"} 60)");
    const std::string big = "{count: 1, name: a, memory: 24 GB}",
                      small = "{count: 1, name: b, memory: 4.5 GB}";
    CHECK(split(big + ", " + small) == R"({"l4":"beginning"} 80)");
    CHECK(split(small + ", " + big) == R"({"l4":"beginning"} 80)");
  }

  // The first stage holds 100 B of weights and the outputs of both micro-batches, 60 B each.
  TEST_CASE("a pipeline that does not fit says which device lacks how much") {
    const Session session;
    session.folder().write("t.json", R"({"format": "baechi-trace", "version": 1, "ops": [
        {"name": "a", "module": "a", "compute_us": 10, "persistent_bytes": 100,
         "outputs": [{"bytes": 60}]},
        {"name": "b", "module": "b", "compute_us": 30, "persistent_bytes": 100,
         "outputs": [{"bytes": 8}]}],
        "edges": [{"from": "a", "output": 0, "to": "b"}]})");
    const auto said = [&](const std::string& memory) {
      return session
          .run("place t.json --devices 2 --memory '" + memory + "' --export pipelining -o s.json")
          .err;
    };
    CHECK(holds(said("200 B"), "gpu0 needs 60 B where 40 B is free of 200 B"));
    CHECK(holds(said("230 B"), "2 stages of 2 modules"));
  }

  // a -> b -> c -> b again -> d, with a module r without weights after each: PyTorch can cut before
  // b and before d. Before r it could, but no weights move; before c it cannot, because b comes
  // again.
  TEST_CASE("stages of a pipeline begin where PyTorch can cut") {
    const Session session;
    std::string ops, edges, before;
    for (const std::string name : {"a", "r1", "b", "r2", "c", "r3", "b2", "r4", "d"}) {
      const std::string module = name[0] == 'r' ? "r" : name.substr(0, 1);
      ops += (ops.empty() ? "" : ", ") + (R"({"name": ")" + name + R"(", "module": ")" + module) +
             R"(", "compute_us": 10, "outputs": [{"bytes": 4}], "persistent_bytes": )" +
             (module == "r" || name == "b2" ? "0" : "1000") +
             (module == "b" ? R"(, "colocation": ["b"]})" : "}");
      if (!before.empty())
        edges += (edges.empty() ? "" : ", ") + (R"({"from": ")" + before) + R"(", "to": ")" + name +
                 R"("})";
      before = name;
    }
    session.folder().write("again.json", R"({"format": "baechi-trace", "version": 1, "ops": [)" +
                                             ops + R"(], "edges": [)" + edges + "]}");
    const auto result = session.run(
        "place again.json --placer round_robin --devices 3 --memory '3500 B' --bandwidth '1 GB/s' "
        "--export pipelining -o s.json");
    CAPTURE(result.err);
    CHECK(result.code == 0);
    CHECK(holds(result.err, "of 3 modules between which PyTorch can cut"));
    CHECK_FALSE(holds(result.err, "gloo"));  // one tensor from stage to stage
    CHECK(holds(result.err, "python3 -m baechi_torch run MODULE:FUNCTION s.json"));
    const Json stages = Json::parse(session.folder().read("s.json"));
    CHECK(stages["modules"].size() == 5);
    CHECK(stages["split_spec"].size() + 1 == stages["stages"]);
    for (const auto& [name, where] : stages["split_spec"].items())
      CHECK((name == "b" || name == "d"));
    CHECK(stages["modules"]["b"] == stages["modules"]["c"]);
  }

  // Layers of 1 MB in turn on devices named gpu0, cpu and gpu1: accelerate numbers the GPUs alone.
  TEST_CASE("accelerate: a device named cpu is 'cpu', and the GPUs are numbered without it") {
    const Session session;
    session.folder().write("three.json", R"({"format": "baechi-trace", "version": 1, "ops": [
        {"name": "a", "module": "a", "compute_us": 9, "persistent_bytes": 600000, "outputs": [{"bytes": 8}]},
        {"name": "b", "module": "b", "compute_us": 9, "persistent_bytes": 600000, "outputs": [{"bytes": 8}]},
        {"name": "c", "module": "c", "compute_us": 9, "persistent_bytes": 600000}],
        "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]})");
    session.folder().write("s.yaml", R"(graph: {import: three.json}
cluster: {devices: [{name: gpu, count: 1, memory: 1 MB}, {name: cpu, count: 1, memory: 1 MB},
                    {name: gpu_b, count: 1, memory: 1 MB}], link: {bandwidth: 1 GB/s}}
placers: [round_robin]
)");
    const auto placed = session.run(
        "place three.json --scenario s.yaml --placer round_robin "
        "--export accelerate -o map.json");
    CAPTURE(placed.err);
    REQUIRE(placed.code == 0);
    const Json map = Json::parse(session.folder().read("map.json"));
    CHECK(map["a"] == 0);
    CHECK(map["b"] == "cpu");
    CHECK(map["c"] == 1);
  }

  TEST_CASE("an export needs a file and modules") {
    const Session session;
    const std::string place = "place toy.json --placer m_etf " + two_gpus + " --export ";
    CHECK(holds(session.run(place + "accelerate").err, "-o FILE"));
    session.refuses(place + "pipelining -o map.json", "key `module` of an op");
    REQUIRE(session.run(place + "accelerate -o map.json").code == 0);  // no op has weights either
    CHECK(Json::parse(session.folder().read("map.json")).contains(""));
  }
}
