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

TEST_SUITE_BEGIN("cli export");
TEST_CASE_FIXTURE(Session, "a model without inner modules is whole on one device") {
  graph("t.json", "a1k,w100 -8> b1k,w100 -8> .");
  const auto place = [&](const std::string& memory, const std::string& format) {
    return run("place t.json --devices 2 --memory '" + memory + "' --export " + format +
               " -o map.json");
  };
  const auto refused = place("150 B", "accelerate");  // each op fits on a device of its own
  CHECK(refused.code == 0);
  CHECK(holds(refused.err, "does not fit on one device"));
  CHECK(holds(refused.err, "parts of it in modules of their own may be apart"));
  CHECK_FALSE(std::filesystem::exists(file("map.json")));
  CHECK(place("1 KiB", "accelerate").code == 0);
  CHECK(Json::parse(read("map.json")).size() == 1);
  CHECK(Json::parse(read("map.json")).contains(""));
  CHECK(place("1 KiB", "pipelining").code == 2);
}

TEST_CASE_FIXTURE(Session, "each module is exported; the change of the step time is printed") {
  runs("trace generate resnet50 batch=2 -o r.json");
  const auto place = [&](const std::string& format, const std::string& path) {
    const auto result = run("place r.json --placer m_topo " + std::string(cluster) + " --export " +
                            format + " -o " + path);
    CAPTURE(result.err);
    CHECK(result.code == 0);
    CHECK(holds(result.err, "step") == (format != "json"));
    return Json::parse(read(path));
  };
  const Json map = place("accelerate", "map.json");
  const Json stages = place("pipelining", "stages.json");
  const OpGraph graph = read_trace(file("r.json")).graph;
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
  const std::string printed = run("place r.json --placer m_topo " + std::string(cluster) +
                                  " --export accelerate -o map.json")
                                  .err;
  const std::size_t at = printed.find("step time ") + 10;
  const auto time = parse_duration(printed.substr(at, printed.find_first_of(",;\n", at) - at));
  REQUIRE(time);
  for (const char* verb :
       {"simulate r.json --placement map.json ", "place r.json --placer expert:file=map.json "})
    CHECK(json(verb + std::string(cluster))["step_time_us"].get<double>() ==
          doctest::Approx(to_us(*time)).epsilon(1e-3));
  const Json again = json("simulate r.json --placement map.json " + std::string(cluster));
  const Bytes peak{again["devices"][0]["peak_bytes"].get<std::int64_t>()};
  CHECK(holds(printed, "peak memory of the map: gpu0 " + to_text(peak)));
  CHECK(json("simulate r.json --placement stages.json " + std::string(cluster))["step_time_us"]
            .get<double>() > 0);
}

// Three modules of 10 ms and 100 MB on a GPU of 250: two wait, and one stays between them. A copy
// takes 100 MB / 25.2 GB/s + 10 us = 3.978 ms, and the second waits 10 us for its launch.
TEST_CASE_FIXTURE(Session, "where weights wait, accelerate's map says cpu, and reads back") {
  graph("t.json",
        "m0=10M,w100M,i:m0,k:Linear -1> m1=10M,w100M,i:m1,k:Linear -1> m2=10M,w100M,i:m2,k:Linear "
        "-1> .");
  const std::string on = " --devices 1 --memory '250 MB' --cpu-memory '1 GB' --transfers duplex ";
  runs("place t.json" + on + "-o p.json");
  runs("place t.json" + on + "--export accelerate -o map.json");
  const Json placement = Json::parse(read("p.json"));
  const Json map = Json::parse(read("map.json"));
  CHECK(map == Json{{"m0", "cpu"}, {"m1", 0}, {"m2", "cpu"}});
  CHECK(placement["home"] == Json{{"m0", 1}, {"m2", 1}});
  // The homes that the file says of a GPU, a host and a disk.
  const auto read_back = [&](const std::string& path) {
    const OpGraph graph = read_trace(file("t.json")).graph;
    IdVector<DeviceId, Device> devices;
    for (const char* kind : {"", "host", "disk"})
      devices.push_back({.name = kind, .kind = kind, .memory = Bytes{1 << 30}});
    const Cluster cluster_of_three = Cluster::uniform(devices, {.bandwidth = {1e9}, .latency = {}});
    const ProfiledCosts costs(graph, cluster_of_three);
    const auto found =
        parse_framework_placement(read(path), path, {graph, cluster_of_three, costs});
    Json home = Json::object();
    for (const OpId v : graph.ops())
      if (found->waits(v)) home[std::string(graph.name(v))] = index(found->home[v]);
    return home;
  };
  CHECK(read_back("map.json") == placement["home"]);
  for (const char* path : {"p.json", "map.json"})
    CHECK(json(fmt::format("simulate t.json --placement {}{}", path, on))["step_time_us"]
              .get<double>() == doctest::Approx(30'000 + 2 * 3978.25 + 10.001));
  // DeepSpeed cannot let some wait; where the GPU is too small for two, all do.
  refuses("place t.json" + on + "--export deepspeed -o z.json",
          "DeepSpeed has all weights at one place, and not those of op 'm1' elsewhere");
  const std::string tight =
      " --devices 1 --memory '150 MB' --cpu-memory '1 GB' --transfers duplex ";
  runs("place t.json" + tight + "--export deepspeed -o z.json");
  const Json all{{"m0", 1}, {"m1", 1}, {"m2", 1}};
  CHECK(Json::parse(read("z.json")) ==
        Json::parse(R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"},
                          "stage3_prefetch_bucket_size": 0}})"));
  CHECK(read_back("z.json") == all);
  // A host of 350 MB holds one, and both copies of the other on its way from the disk.
  write("disk.yaml", R"(
name: disk
graph: {import: t.json}
placers: [auto]
cluster:
  devices: [{memory: 250 MB}, {kind: host, memory: 350 MB}, {kind: disk, memory: 1 TB}]
  link: {bandwidth: 10 GB/s, latency: 0 us}
engine: {transfers: duplex}
)");
  const std::string with_disk = "place t.json --scenario disk.yaml ";
  runs(with_disk + "-o p.json");
  runs(with_disk + "--export accelerate -o map.json");
  CHECK(Json::parse(read("map.json")) == Json{{"m0", "cpu"}, {"m1", 0}, {"m2", "disk"}});
  CHECK(Json::parse(read("p.json"))["home"] == Json{{"m0", 1}, {"m2", 2}});
  CHECK(read_back("map.json") == Json{{"m0", 1}, {"m2", 2}});
  refuses("simulate t.json --devices 1 --memory 1GB --placement map.json",
          "map.json: the cluster has no device 'cpu' (it has 0)");
  refuses("place t.json" + on + "--export pipelining -o s.json",
          "pipelining cannot say that weights wait, as those of op 'm0' do");
}

// Backward ops of 5 ms write 20 MB each (2 ms at 10 GB/s) for updates of 3 ms, which run on the
// host; new weights of 20 MB come back: b1 0-5, gradient 5-7, u1 7-10, weights 10-12; b0 5-10,
// 10-12, 12-15, 15-17. A GPU of 100 MB has no place for the updates' 80 MB each.
TEST_CASE_FIXTURE(Session, "an optimizer on the host works while the backward pass goes on") {
  graph("t.json",
        "f0=0,w20M -0> f1=0,w20M -0> b1=5M,b:f1 -h0> .; b1 -20M> u1=3M,w80M,u; b1 -h> b0=5M,b:f0 "
        "-20M> u0=3M,w80M,u");
  write("s.yaml", R"(graph: {import: t.json}
cluster:
  devices: [{memory: 100 MB}, {kind: host, name: host, memory: 1 GB}]
  link: {bandwidth: 10 GB/s, latency: 0 us}
engine: {transfers: duplex}
placers: [m_etf])");
  const Json placed = json("place t.json --scenario s.yaml --placer m_etf -o p.json");
  CHECK(placed["home"] == Json{{"u0", 1}, {"u1", 1}});
  CHECK(placed["step_time_us"] == 17'000);
  runs("place t.json --scenario s.yaml --placer m_etf --export deepspeed -o z.json");
  CHECK(Json::parse(read("z.json")) == Json::parse(R"({"zero_optimization": {"stage": 2,
                          "offload_optimizer": {"device": "cpu"}}})"));
  for (const char* path : {"p.json", "z.json"})
    CHECK(json(fmt::format("simulate t.json --scenario s.yaml --placement {}",
                           path))["step_time_us"] == 17'000);

  write("host.yaml", read("s.yaml") + "\ntransforms: [host]\n");
  refuses("place t.json --scenario host.yaml",
          "host.yaml:7:14: transforms: 'host' changes the placed step, where no weights can wait "
          "on a host or disk");
  refuses("bound t.json --scenario s.yaml --least-memory",
          "--least-memory: without hosts and disks, where weights may wait");
}

TEST_CASE_FIXTURE(Session, "modules whose results the model adds share a device, or are named") {
  // stem -> left, right -> add -> head, 1 MB of weights each.
  graph(
      "t.json",
      "x0,k:Input -10> stem5k,i:stem,w1M -s10> left50k,i:left,w1M; stem -s> right50k,i:right,w1M; "
      "left -10> add1k,k:add -10> head5k,i:head,w1M -10> .; right -10> add");
  const std::string place =
      "place t.json --devices 2 --bandwidth '100 GB/s' --latency '0 us' --export accelerate -o "
      "m.json --memory ";
  runs(place + "'2.1 MB'");
  const Json map = Json::parse(read("m.json"));
  CHECK(map["left"] == map["right"]);
  CHECK(map["stem"] == map["head"]);
  CHECK(map["stem"] != map["left"]);
  // Ops fit in 1.9 MB with three devices, but left and right together do not.
  const auto refused =
      run("place t.json --devices 4 --memory '1.9 MB' --export accelerate -o none.json");
  CHECK(holds(refused.err, "'left', 'right'"));
  CHECK(holds(refused.err, "op 'add' in the forward of the model"));
  CHECK(holds(refused.err, "they fit with 1.91 MiB on each device"));
}

TEST_CASE_FIXTURE(Session, "a pipeline with memory for weights alone gives way to an equal one") {
  // Two layers of 10 us and 1 GB. Cuts take the devices in order, but beside its layer `tight`
  // has no memory for the 10 MB that the layer writes.
  graph("t.json", "a10k,i:a,w1G -10M> b10k,i:b,w1G -10M> .");
  write("s.yaml", R"(graph: {import: t.json}
cluster:
  devices: [{name: tight, memory: 1000000100 B}, {name: large, count: 2, memory: 3 GB}]
  link: {bandwidth: 100 GB/s, latency: 0 us}
placers: [auto])");
  runs("place t.json --scenario s.yaml --export pipelining -o p.json");
  CHECK(Json::parse(read("p.json"))["stage_devices"] == Json{1, 2});
}

TEST_CASE_FIXTURE(Session, "a pipeline's longest stage is shortest, in any order of the devices") {
  // Twelve layers of 10 us and 1 GB: 6 + 6; 8 + 4 if one device takes four.
  std::string layers;
  for (int i = 0; i < 12; ++i) layers += fmt::format("l{0}=10k,i:l{0},w1G -1000> ", i);
  graph("t.json", layers + ".");
  const auto split = [&](const std::string& devices) {
    write("s.yaml", "graph: {import: t.json}\ncluster: {devices: [" + devices +
                        "], link: {bandwidth: 12 GB/s, latency: 5 us}}\n"
                        "placers: [auto]\n");
    const auto result = run("place t.json --scenario s.yaml --export pipelining -o p.json");
    REQUIRE(result.code == 0);
    return Json::parse(read("p.json"))["split_spec"].dump() +
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
TEST_CASE_FIXTURE(Session, "a pipeline that does not fit says which device lacks how much") {
  graph("t.json", "a10k,i:a,w100 -60> b30k,i:b,w100 -8> .");
  const auto said = [&](const std::string& memory) {
    return run("place t.json --devices 2 --memory '" + memory + "' --export pipelining -o s.json")
        .err;
  };
  CHECK(holds(said("200 B"), "gpu0 needs 60 B where 40 B is free of 200 B"));
  CHECK(holds(said("230 B"), "2 stages of 2 modules"));
}

// a -> b -> c -> b again -> d, with a module r without weights after each: PyTorch can cut before
// b and before d. Before r it could, but no weights move; before c it cannot, because b comes
// again.
TEST_CASE_FIXTURE(Session, "stages of a pipeline begin where PyTorch can cut") {
  graph("again.json",
        "a10k,i:a,w1k -4> r1=10k,i:r -4> b10k,i:b,w1k,c:b -4> r2=10k,i:r -4> c10k,i:c,w1k -4> "
        "r3=10k,i:r -4> b2=10k,i:b,c:b -4> r4=10k,i:r -4> d10k,i:d,w1k -4> .");
  const auto result =
      run("place again.json --placer round_robin --devices 3 --memory '3500 B' --bandwidth '1 "
          "GB/s' --export pipelining -o s.json");
  CAPTURE(result.err);
  CHECK(result.code == 0);
  CHECK(holds(result.err, "of 3 modules between which PyTorch can cut"));
  CHECK_FALSE(holds(result.err, "gloo"));  // one tensor from stage to stage
  CHECK(holds(result.err, "python3 -m baechi_torch run MODULE:FUNCTION s.json"));
  const Json stages = Json::parse(read("s.json"));
  CHECK(stages["modules"].size() == 5);
  CHECK(stages["split_spec"].size() + 1 == stages["stages"]);
  for (const auto& [name, where] : stages["split_spec"].items())
    CHECK((name == "b" || name == "d"));
  CHECK(stages["modules"]["b"] == stages["modules"]["c"]);
}

// Layers of 1 MB in turn on devices named gpu0, cpu and gpu1: accelerate numbers the GPUs alone.
TEST_CASE_FIXTURE(Session, "accelerate: a device cpu is 'cpu', GPUs are numbered without it") {
  graph("three.json", "a9k,i:a,w600k -8> b9k,i:b,w600k -8> c9k,i:c,w600k");
  write("s.yaml", R"(graph: {import: three.json}
cluster: {devices: [{name: gpu, count: 1, memory: 1 MB}, {name: cpu, count: 1, memory: 1 MB},
                    {name: gpu_b, count: 1, memory: 1 MB}], link: {bandwidth: 1 GB/s}}
placers: [round_robin]
)");
  runs("place three.json --scenario s.yaml --placer round_robin --export accelerate -o map.json");
  const Json map = Json::parse(read("map.json"));
  CHECK_PARTS(map, R"({"a": 0, "b": "cpu", "c": 1})");
}

TEST_CASE_FIXTURE(Session, "an export needs a file and modules") {
  const std::string place = "place toy.json --placer m_etf " + two_gpus + " --export ";
  refuses(place + "accelerate", "-o FILE");
  refuses(place + "pipelining -o map.json", "key `module` of an op");
  runs(place + "accelerate -o map.json");  // no op has weights either
  CHECK(Json::parse(read("map.json")).contains(""));
}
