#include "tests/cli/session.h"

TEST_SUITE_BEGIN("cli");
TEST_CASE_FIXTURE(Session, "simulate prints time, bound, devices and traffic") {
  const Json step = json("simulate toy.json --placement split.json " + two_gpus);
  CHECK(has_keys(step, {"status", "step_time_us", "lower_bound_us", "devices", "moved_bytes",
                        "transfers", "events", "oom"}));
  // step_time_us: a 10, its 1000 B at 1 GB/s 1, then b 20 and c 30
  // lower_bound_us: a, then c
  CHECK_PARTS(step, R"({"status": "ok", "step_time_us": 61.0, "lower_bound_us": 40.0,
      "moved_bytes": 1000, "transfers": 1, "events": 4, "oom": null})");
  REQUIRE(step["devices"].size() == 2);
  CHECK_PARTS(step, R"({"devices": [{"busy_us": 10.0}, {"busy_us": 50.0, "peak_bytes": 1000,
      "limit_bytes": 1000000}]})");

  const std::string table = run("simulate toy.json --placement split.json " + two_gpus).out;
  CHECK(holds(table, "61.000 us, 1.52 x the lower bound"));
  CHECK(holds(table, "40.000 us (critical path)"));
  CHECK_FALSE(holds(table, "\x1b"));  // not a terminal
}

TEST_CASE_FIXTURE(Session, "the device type of the times is printed if it is not a given one") {
  graph("work.json", "a0,f1M,m1k; b0,f1M,m1k; c0,f1M,m1k");
  write("run.yaml",
        "graph: {import: toy.json}\n"
        "cluster: {devices: {count: 1, kind: v100}}\nplacers: [single]\n");
  for (const char* verb : {"place ", "bound ", "simulate ", "explain "}) {
    CAPTURE(verb);
    const std::string placed = *verb == 's' || *verb == 'e' ? " --placement split.json " : " ";
    const std::string toy = fmt::format("{}toy.json{}{}", verb, placed, two_gpus);
    CHECK_FALSE(holds(run(toy).out, "every kind"));
    CHECK(run(toy + " --kind v100")
              .out.starts_with("times        of the trace, one per op for all device types; none "
                               "is measured on 'v100'\n"));
    CHECK(json(toy + " --kind v100")["kind_without_times"] == "v100");
    const std::string work = fmt::format("{}work.json{}{}", verb, placed, two_gpus);
    CHECK(run(work).out.starts_with("assumed      h100: "));
    CHECK(json(work)["assumed_kind"] == "h100");
    CHECK_FALSE(holds(run(work + " --kind v100").out, "every kind"));
    // Evidence: none is needed if the trace has measured times.
    CHECK(json(toy)["evidence"].empty());
    CHECK(holds(run(work).out, "\nevidence     h100: "));
    const auto evidence = json(work + " --kind h100")["evidence"];
    CHECK(evidence[0]["of"] == "h100");
    CHECK(holds(evidence[0]["fitted"].get<std::string>(), "products bf16 2886 rows, error 5.5 %"));
  }
  CHECK(holds(run("run run.yaml --out results --quiet").err,
              "has one time per op for all device types: none is of 'v100'\n"));
}

TEST_CASE_FIXTURE(Session, "a type of the trace's own goes before a known one of like name") {
  graph("own.json", "a0,@T4=10k,@V100=3k");
  for (const auto& [type, us] : {std::pair("T4", 10.0), std::pair("V100", 3.0)})
    CHECK(json(fmt::format("place own.json --kind {} {}", type, two_gpus))["step_time_us"] == us);
}

TEST_CASE_FIXTURE(Session, "the link that joins known GPUs where none is named is said") {
  const auto link_of = [&](const std::string& more) {
    const Json answer = json("place toy.json --memory 1MB --kind v100 " + more);
    for (const auto& e : answer["evidence"])
      if (e["of"] == "link") return e["fitted"].get<std::string>();
    return std::string();
  };
  CHECK(holds(link_of("--devices 2"), "5.70 GB/s and 134.000 us"));
  CHECK(link_of("--devices 1").empty());
  CHECK(link_of("--devices 2 --link pcie4").empty());
}

TEST_CASE_FIXTURE(Session, "a trace with only collectives needs no times: the cluster has them") {
  graph("sum.json", "a0,x:all_reduce/2000; b0,x:all_reduce/2000");
  write("ranks.json", R"({"format": "baechi-placement", "version": 1,
        "placement": {"a": 0, "b": 1}})");
  // A ring of two: half of the bytes, sent twice, at 1 GB/s.
  CHECK(json("simulate sum.json --placement ranks.json " + two_gpus)["step_time_us"] == 2.0);
}

TEST_CASE("the default link is Baechi's fit") {
  const Json step =
      Session().json("simulate toy.json --placement split.json --devices 2 --memory '1 MB'");
  // 10 + 134 + ceil(1000 / 5.7) ns + 20 + 30
  CHECK(step["step_time_us"] == 194.176);
}

TEST_CASE_FIXTURE(Session, "out of memory is a result: the allocation and the live memory") {
  const std::string tight = "simulate toy.json --placement split.json --devices 2 --memory '999 B'";
  const Json step = json(tight);
  CHECK(step["status"] == "oom");
  CHECK(step["step_time_us"].is_null());
  CHECK(has_keys(step["oom"], {"device", "op", "needed_bytes", "free_bytes", "at_us", "live"}));
  CHECK_PARTS(step, R"({"oom": {"device": 0, "op": "a", "needed_bytes": 1000, "free_bytes": 999,
      "at_us": 0.0}})");
  CHECK(keys(step["oom"]["live"]) ==
        std::vector<std::string>{"copies", "outputs", "weights", "workspace"});
  CHECK(
      holds(run(tight).out,
            "out of memory on gpu0 at 0 ns: op 'a': 1000 B needed, of 999 B only 999 B are free"));
}

TEST_CASE_FIXTURE(Session, "simulate pipelines micro-batches through the stages") {
  write("stages.json", R"({"format": "baechi-placement", "version": 1,
        "devices": 2, "placement": {"a": 0, "b": 1, "c": 1}})");
  const std::string simulate = "simulate toy.json --placement stages.json " + two_gpus;
  const Json answer = json(simulate + " --pipeline inference --micro-batches 20")["pipeline"];
  // per_sample_us: b and c, 20 + 30
  CHECK_PARTS(answer, R"({"scheme": "inference", "micro_batches": 20, "status": "ok",
      "per_sample_us": 50.0})");
  REQUIRE(answer["stages"].size() == 2);
  CHECK(answer["stages"][1]["busy_us"] == 1000.0);
  refuses(simulate + " --pipeline 1f1b",
          "1f1b is a schedule of training, and this graph is not training");
  const auto wrong = run(simulate + " --pipeline gpip --micro-batches 0");
  CHECK(wrong.code == 2);
  CHECK(holds(wrong.err,
              "--pipeline: 'gpip' is not one of inference, gpipe, 1f1b, 1f1b_flush, 2bw, "));
  CHECK(holds(wrong.err, "--micro-batches: '0' is not a whole number"));
  CHECK(run(simulate + " --recompute").code == 2);
  runs(simulate + " --pipeline inference --timeline stages.trace.json");
  CHECK(holds(read("stages.trace.json"), "a#7"));
}

TEST_CASE_FIXTURE(Session, "simulate pipelines a training graph by any schedule") {
  // Stage 0: f0 11 us, b0 22 us; stage 1: f1 7 us, b1 14 us. Stage 0 is always busy: 33 us.
  const char* ops = "f0=11k,w10 -0> f1=7k,w10 -0> b1=14k,b -0> b0=22k,b; f0 -0> b0";
  graph("train.json", ops);
  write_graph(file("four.json"), ops, "", 4);
  write("line.json", R"({"format": "baechi-placement", "version": 1,
        "placement": {"f0": 0, "f1": 1, "b1": 1, "b0": 0}})");
  const std::string simulate = "simulate train.json --placement line.json " + two_gpus;
  const Json answer = json(simulate + " --pipeline 1f1b --micro-batches 40")["pipeline"];
  CHECK(answer["per_sample_us"] == 33.0);  // the trace does not state its batch: 1
  CHECK(answer["per_micro_batch_us"] == 33.0);
  CHECK(answer["samples_per_s"] == doctest::Approx(1e6 / 33.0));
  CHECK(answer["difference"] == "as the objective says");
  CHECK(holds(run(simulate + " --pipeline 1f1b --micro-batches 40").out,
              "per sample   33.000 us, 3.03e+04 samples/s\n"));
  const std::string of_four = "simulate four.json --placement line.json " + two_gpus +
                              " --pipeline 1f1b --micro-batches 40";
  const Json by_four = json(of_four)["pipeline"];
  CHECK(by_four["per_sample_us"] == 8.25);
  CHECK(by_four["per_micro_batch_us"] == 33.0);
  CHECK(by_four["samples_per_s"] == doctest::Approx(4e6 / 33.0));
  CHECK(holds(run(of_four).out,
              "per sample   8.250 us, 1.212e+05 samples/s: 33.000 us per micro-batch\n"));
  CHECK(answer["persistent_of_one_kind"] == true);
  CHECK(answer["stages"][0]["in_flight"] == 2);
  const auto table = run(simulate + " --pipeline 1f1b");
  CHECK(holds(table.out, "1f1b, 8 micro-batches, 2 stages"));
  CHECK(holds(table.out, "the graph does not distinguish weights, gradients"));
  for (const char* schedule : {"gpipe", "1f1b_flush", "2bw", "zb_h1", "zb_h2", "zb_v", "dualpipe"})
    CHECK(json(simulate + " --pipeline " + schedule)["pipeline"]["scheme"] == schedule);
  refuses(simulate + " --pipeline interleaved",
          "interleaved needs two chunks or more on each device");
  CHECK(holds(run("simulate --help").out, "zb_h1"));
}

TEST_CASE_FIXTURE(Session, "a workload with its own cluster uses it unless another is given") {
  //   x(1 ms, a core 5) -2 ms-> y(2 ms, a core 6), sent in 2 ms: one accelerator, one core
  write("msr.json", R"({"maxSizePerFPGA": 100, "maxFPGAs": 1, "maxCPUs": 1,
      "nodes": [{"name": "x", "id": 1, "cpuLatency": 5, "fpgaLatency": 1, "size": 60},
                {"name": "y", "id": 2, "cpuLatency": 6, "fpgaLatency": 2, "size": 70}],
      "edges": [{"sourceId": 1, "destId": 2, "cost": 2, "size": 10}]})");
  write("p.json", R"({"format": "baechi-placement", "version": 1,
      "placement": {"x": 1, "y": 0}})");
  const Json load = json("simulate msr.json --placement p.json --objective max_load");
  CHECK(load["max_load_us"] == 5000.0);  // the core's; the accelerator has 2 + 2
  CHECK(load["feasible"] == true);
  CHECK(load["step_time_us"] == 9000.0);  // 5 + 2 + 2
  CHECK(load["devices"][0]["name"] == "accelerator0");
  const Json latency = json("simulate msr.json --placement p.json --objective latency");
  CHECK(latency["latency_us"] == 9000.0);
  CHECK(json("bound msr.json")["work_us"] > 0);
  CHECK(json("place msr.json --placer single")["step_time_us"] == Json());  // out of memory
  CHECK(json("place msr.json --placer single:device=1")["step_time_us"] == 11000.0);
  // With flags the devices are those, and so is the link: 10 B in 10 ns.
  CHECK(json("simulate msr.json --placement p.json " + two_gpus)["step_time_us"] == 3000.01);
  refuses("bound msr.json --bandwidth '1 GB/s'", "--devices is missing");
  refuses("bound toy.json", "--devices is missing");
  refuses("simulate msr.json --placement p.json --objective latnecy",
          "no objective 'latnecy' (did you mean 'latency'?)");
}

TEST_CASE_FIXTURE(Session, "a scenario's cluster and engine replace the flags") {
  write("s.yaml",
        "graph: {import: toy.json}\n"
        "cluster:\n"
        "  devices: {count: 2, memory: 1 MB}\n"
        "  link: {bandwidth: 1 GB/s, latency: 0}\n"
        "placers: [single]\n"
        "sweep: {engine.cache_tensors: [false, true]}\n");
  const std::string simulate = "simulate toy.json --placement split.json --scenario s.yaml";
  CHECK(json(simulate)["transfers"] == 2);
  CHECK(holds(run(simulate).err, "--set 'engine.cache_tensors=false'"));
  const Json cached = json(simulate + " --set engine.cache_tensors=true");
  CHECK(cached["transfers"] == 1);
  CHECK(cached["step_time_us"] == 61.0);
}

TEST_CASE_FIXTURE(Session, "place, simulate and bound apply a scenario's transforms") {
  // a(10) --> b(20), and c(30) with no edge, which prune drops.
  graph("loose.json", "a10k -1> b20k; c30k");
  write("s.yaml",
        "graph: {import: loose.json}\n"
        "transforms: [prune]\n"
        "cluster: {devices: {memory: 1 MB}}\n"
        "placers: [single]\n");
  const std::string scenario = " --scenario s.yaml";
  const Json placed = json("place loose.json --placer single -o p.json" + scenario);
  CHECK(placed["step_time_us"] == 30.0);
  CHECK_FALSE(placed["placement"].contains("c"));
  CHECK(json("simulate loose.json --placement p.json" + scenario)["step_time_us"] == 30.0);
  CHECK(json("bound loose.json" + scenario)["work_us"] == 30.0);
  CHECK(json("bound loose.json" + scenario + " --set transforms=none")["work_us"] == 60.0);
  const Json other = json("place loose.json --placer single --transform coplace" + scenario);
  CHECK(other["step_time_us"] == 60.0);  // --transform replaces the scenario's transforms
}

TEST_CASE_FIXTURE(Session, "simulate --schedule lists the ops by start, and draws few of them") {
  const std::string command = "simulate toy.json --placement split.json --schedule " + two_gpus;
  const Json rows = json(command)["schedule"];
  REQUIRE(rows.size() == 3);  // a 0-10, its copy 10-11, b 11-31, c 31-61
  CHECK_PARTS(rows, R"([{}, {}, {"op": "c", "device": "gpu1", "start_us": 31.0, "end_us": 61.0}])");
  // 60 columns for 61 us: a ends in column 9.8.
  CHECK(holds(run(command).out, "gpu0  a |" + std::string(9, '=') + " "));
  CHECK_FALSE(holds(run("simulate toy.json --placement split.json " + two_gpus).out, "|="));
}

TEST_CASE_FIXTURE(Session, "bound prints the binding bound and whether memory can suffice") {
  const Json bounds = json("bound toy.json " + two_gpus);
  // work_us: 60 us on two devices
  CHECK_PARTS(bounds, R"({"lower_bound_us": 40.0, "binding": "critical path",
      "critical_path_us": 40.0, "work_us": 30.0, "fits_in_memory": true, "devices_needed": 0,
      "max_load": {"lower_bound_us": 30.0, "binding": "work"},
      "latency": {"lower_bound_us": 40.0}})");
  const Json solved = json("bound toy.json --time-limit '1 s' " + two_gpus);
  CHECK(solved["max_load"]["integer_program_us"] >= 30.0);
  CHECK(run("bound toy.json --time-limit soon " + two_gpus).code == 2);
  CHECK(holds(run("bound toy.json --devices 2 --memory '999 B'").out, "too small"));
}

// All three ops on one device hold the tensor of 1000 B once. With a on the other device, each
// device holds one copy.
TEST_CASE_FIXTURE(Session, "bound prints the least memory per device and whether it is proved") {
  for (const char* devices : {"--devices 1", "--devices 2"}) {
    const Json least = json("bound toy.json --least-memory " + std::string(devices));
    CHECK_PARTS(least,
                R"({"least_memory_bytes": 1000, "lower_bound_bytes": 1000, "proved": true})");
  }
  CHECK(holds(run("bound toy.json --least-memory --devices 2").out,
              "with less, no placement fits (proved)"));
  runs("bound toy.json --devices 2 --memory '1000 B'");
  const std::string asked = "bound toy.json --least-memory --devices 2 ";
  CHECK(run(asked + "--time-limit '1 s'").code == 2);
  refuses(asked + "--semantics baechi", "needs --semantics event, which limits memory");
}

TEST_CASE_FIXTURE(Session, "explain: the OOM report lists live tensors and what keeps them") {
  // The copy of a's 1000 B does not fit while gpu1 holds 1.5 MB of workspace for x.
  graph("tight.json", "x50k,t999500; a10k -1000> b20k");
  write("apart.json", R"({"format": "baechi-placement", "version": 1,
      "placement": {"x": 1, "a": 0, "b": 1}})");
  const Json answer = json("explain tight.json --placement apart.json " + two_gpus);
  // without_limit_us: x 0-50, b 50-70
  CHECK_PARTS(answer, R"({"status": "oom", "step_time_us": null, "without_limit_us": 70.0})");
  REQUIRE(answer["oom"]["live"].size() == 1);
  CHECK(answer["oom"]["live"][0]["kind"] == "workspace");
  CHECK(answer["oom"]["live"][0]["name"] == "x");
}

TEST_CASE_FIXTURE(Session, "explain --against: the difference by cause adds up") {
  // split: a 0-10, copy 10-11, b 11-31, c 31-61. One device: a, b, c follow each other, 60 us, of
  // which c waits 20 for b.
  run("place toy.json --placer single -o one.json " + two_gpus);
  const std::string both = "explain toy.json --placement one.json --against split.json " + two_gpus;
  const Json answer = json(both);
  CHECK(answer["steps"][0]["step_time_us"] == 60.0);
  CHECK(answer["steps"][1]["step_time_us"] == 61.0);
  double sum = 0.0;
  for (const auto& [cause, us] : answer["difference"].items())
    if (cause != "step_time_us") sum += us.get<double>();
  CHECK(sum == doctest::Approx(1.0));
  CHECK(answer["difference"]["transfer"] == 1.0);
  CHECK(holds(run(both).out, "split.json"));
}

TEST_CASE_FIXTURE(Session, "explain --run takes a run, and refuses results of other files") {
  const std::string scenario =
      "name: s\ngraph: {import: toy.json}\nplacers: [single, round_robin]\n"
      "cluster: {devices: {count: 2, memory: 1 MB}, link: {bandwidth: 1 GB/s, latency: 0 us}}\n";
  write("s.yaml", scenario);
  runs("run s.yaml --out rows --quiet");
  CHECK(json("explain rows --run 0")["step_time_us"] == 60.0);
  const Json both = json("explain rows --run 0 --against 1");
  CHECK(both["steps"][0]["name"] == "run 0, single");
  refuses("explain rows --run 2", "'2' is not one of the 2 runs of rows");
  CHECK(run("explain rows").code == 2);
  CHECK(run("explain rows --run 0 --devices 2").code == 2);
  std::string slower(toy);
  slower.replace(slower.find("30"), 2, "40");
  write("toy.json", slower);
  refuses("explain rows --run 0", "a file that they name");
}
