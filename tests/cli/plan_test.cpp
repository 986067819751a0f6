#include "tests/cli/session.h"

namespace {

//   1 (8 s) --3 B--> 2 (4 s)      2 devices, 1 B/s, 4 micro-batches; 1 has 2 B of weights
constexpr std::string_view two_nodes = R"({"maxDevices": 2, "maxMemoryPerDevice": 10.0,
 "bandwidth": 1.0, "mbsInBatch": 4,
 "nodes": [{"id": 1, "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 8, "parameterSize": 2,
             "memoryUsageA": 1, "memoryUsageB": 0, "syncTimeFw": {}, "syncTimeBw": {"2": 0}}]}},
           {"id": 2, "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 4, "parameterSize": 0,
             "memoryUsageA": 1, "memoryUsageB": 0, "syncTimeFw": {"1": 0}, "syncTimeBw": {}}]}}],
 "edges": [{"sourceId": 1, "destId": 2, "communicationCost": 3.0}]})";

const std::string plan_gpt =
    "plan gpt:num_hidden_layers=2,hidden_size=64,num_attention_heads=2,length=16,vocab_size=100 "
    "--batch 8 ";

}  // namespace

TEST_SUITE_BEGIN("cli");
/// Two replicas of all: (8 + 4) / 2 + 4 x (2 - 1) x 2 / (2 x 4) = 7 s.
TEST_CASE_FIXTURE(Session, "place --placer piper plans, and its file is a placement, too") {
  write("two.json", two_nodes);
  const Json plan = json("place two.json --placer piper -o plan.json");
  CHECK(plan["status"] == "ok");
  CHECK(plan["time_per_sample_us"] == doctest::Approx(7e6));
  CHECK(plan["plan"]["stages"].size() == 1);
  CHECK(plan["plan"]["stages"][0]["data_parallel"] == 2);
  CHECK(Json::parse(read("plan.json"))["plan"] == plan["plan"]);
  // Its replicas share the 12 s.
  CHECK(json("simulate two.json --objective max_load --placement plan.json")["max_load_us"] ==
        doctest::Approx(6e6));
  CHECK(holds(run("simulate two.json --placement plan.json").out, "replicas"));
  // One device: 8 + 4.
  CHECK(
      json("place two.json --placer piper:data_parallel=false --devices 1")["time_per_sample_us"] ==
      doctest::Approx(12e6));
}

TEST_CASE_FIXTURE(Session, "a plan that divides or recomputes ops is rejected as a placement") {
  write("two.json", two_nodes);
  const Json plan = json("place two.json --placer piper");
  const auto refused = [&](const char* key, const Json& value, std::string_view said) {
    Json other = plan;
    other["plan"]["stages"][0][key] = value;
    write("plan.json", other.dump(1));
    refuses("simulate two.json --placement plan.json", said);
  };
  refused("tensor_parallel", 2,
          "tensor_parallel: a placement cannot express that devices divide ops");
  refused("recompute", {"1"}, "a placement cannot express that ops are recomputed");
}

TEST_CASE_FIXTURE(Session, "plan needs a batch, and reads a framework's file") {
  write("two.json", two_nodes);
  write("mine.yaml", "like: megatron\ngrad_reduce_dtype: weights\nkernel_lunch: 5 us\n");
  const auto check = [&](const std::string& arguments, std::string_view said) {
    refuses(arguments, said);
  };
  check("place two.json --placer piper --latency '1 us'", "planners only support --devices");
  check("plan gpt2 --devices 2 --as v100", "--batch is required");
  const std::string one = "plan gpt2 --devices 2 --as v100 --batch 8 --framework ";
  check(one + "mine.yaml",
        "mine.yaml:3:15: framework has no option 'kernel_lunch' (did you mean 'kernel_launch'?)");
  check(one + "megatrn",
        "framework: 'megatrn' is not one of deepspeed, fsdp, fsdp2, internevo, megatron, none, "
        "torchtitan");
  check(one + "none:kernel_launch=5", "framework.kernel_launch: '5' is not a time");
  check(one + "none:kernels=fused", "has no option 'fused'");
  check("plan gpt:layers=2 --devices 2 --as v100 --batch 8",
        "gpt.layers: called num_hidden_layers");
}

TEST_CASE_FIXTURE(Session, "plan --check reports whether a plan fits, and each stage's memory") {
  const std::string model =
      "plan "
      "gpt:num_hidden_layers=4,hidden_size=256,num_attention_heads=4,length=64,vocab_size=1024,tie_"
      "word_embeddings=false --batch 16 --nodes dgx_a100 --devices 4 --tensor 1 --pipeline 2 "
      "--micro-batch 2 --recompute off --zero 0 --check";
  const Json fits = json(model);
  CHECK(fits["status"] == "ok");
  CHECK(fits["fits"] == true);
  REQUIRE(fits["plans"].size() == 1);
  const Json& plan = fits["plans"][0];
  CHECK(plan["data"] == 2);
  REQUIRE(fits["stages"].size() == 2);
  const Json& fullest = fits["stages"][fits["fullest_stage"].get<std::size_t>()];
  CHECK(fullest["peak_bytes"] == plan["peak_bytes"]);
  CHECK(fullest["memory"] == plan["memory"]);
  std::int64_t sum = 0;
  for (const auto& [kind, bytes] : plan["memory"].items()) sum += bytes.get<std::int64_t>();
  CHECK(plan["peak_bytes"] == sum);
  // The same plan with too little memory: reported, not rejected.
  Json tight = json(model + " --memory '1 MiB'");
  CHECK(tight["status"] == "oom");
  CHECK(tight["fits"] == false);
  CHECK(tight["limit_bytes"] == 1 << 20);
  tight["plans"][0]["spare_bytes"] = fits["plans"][0]["spare_bytes"];
  CHECK(tight["plans"] == fits["plans"]);
  CHECK(holds(run(model + " --memory '1 MiB'").out, "does not fit"));
  CHECK(json(model + " --as h100 --memory '1 MiB'")["limit_bytes"] == 1 << 20);
}

TEST_CASE_FIXTURE(Session, "plan --check accepts one plan, and plan rejects unknown values") {
  const auto check = [&](const std::string& arguments, std::string_view said) {
    refuses(
        "plan "
        "gpt:num_hidden_layers=4,hidden_size=256,num_attention_heads=4,length=64,vocab_size=1024 "
        "--batch 16 " +
            arguments,
        said);
  };
  const std::string one =
      "--check --nodes dgx_a100 --tensor 1 --pipeline 1 --micro-batch 1 --recompute off ";
  check(one + "--devices 8", "--check: these flags name 4 plans; give one value each of");
  check(one + "--devices 8 --zero 1 --framework none:recompute_modules=moe",
        "recompute_modules: 'moe': the model has no layers of experts alone");
  check(one + "--devices 8 --zero 1 --framework none:master_weights=none --precision fp32",
        "master_weights: fp32 has no copy of its weights in 16 bits");
  check(one + "--devices 8 --zero 3 --fsdp 3",
        "--check: 8 replicas cannot be divided into groups of 3");
  check(one + "--devices 12 --zero 0",
        "--devices: 12 is neither a part nor a multiple of the 8 devices of dgx_a100");
  check(one + "--devices 20000 --zero 0", "--devices: '20000' is not a number from 1 to 16384");
  check(one + "--devices 8 --zero 0 --recompute some", "--recompute");
  check("--nodes dgx_a100 --devices 8 --schedule zb_h1", "--schedule: zb_h1 not in");
  check("--nodes dgx_a100 --devices 8 --framework megatron --write-scenario plan.yaml",
        "--write-scenario: scenarios have no --framework");
  check("--nodes dgx_a100 --devices 16384 --write-scenario plan.yaml",
        "--write-scenario: scenarios have at most");
  write("net.trace.json", "{}");
  const auto path = run("plan net.trace.json --batch 16 --nodes dgx_a100 --devices 8");
  CHECK(path.code == 2);
  CHECK_MESSAGE(
      holds(path.err, "net.trace.json: a file: plan divides models that a generator makes"),
      path.err);
  CHECK_FALSE(std::filesystem::exists(file("plan.yaml")));
}

TEST_CASE_FIXTURE(Session, "a search and --check report the same for tied embeddings") {
  const std::string model = plan_gpt +
                            "--devices 2 --nodes dgx_a100 --tensor 1 --micro-batch 1 --recompute "
                            "off --zero 0 --pipeline ";
  const Json all = json(model + "1,2");
  REQUIRE(all["plans"].size() == 2);
  for (const Json& plan : all["plans"])
    CHECK(json(fmt::format("{}{} --check", model, plan["pipeline"].get<int>()))["plans"][0] ==
          plan);
}

TEST_CASE_FIXTURE(Session, "plan uses equal devices of a scenario, with its device types") {
  const auto result = [&](const std::string& devices) {
    write("c.yaml",
          "name: c\ngraph: {generate: gpt}\nplacers: [single]\n"
          "kinds: {devices: {a100: {base: a100, memory: 3 GiB}}}\n"
          "cluster: {link: {bandwidth: 1 GB/s}, devices: [" +
              devices + "]}\n");
    return run(plan_gpt +
               "--check --tensor 1 --pipeline 1 --micro-batch 1 --recompute off --zero 0 "
               "--scenario c.yaml");
  };
  CHECK(holds(result("{count: 2, kind: a100}").out, "of 3.00 GiB"));
  for (const char* other : {"memory: 1 GiB", "memory: 3 GiB, speed: 0.5"})
    CHECK(holds(result(fmt::format("{{kind: a100}}, {{kind: a100, {}}}", other)).err,
                "plan needs devices of one kind and memory, and of speed 1"));
}

TEST_CASE_FIXTURE(Session, "options of the model stand in the scenario of a plan") {
  json(
      "plan "
      "gpt:num_hidden_layers=2,hidden_size=64,num_attention_heads=2,length=16,vocab_size=100,fused_"
      "attention=true --batch 8 --devices 8 --nodes dgx_a100 --write-scenario plan.yaml");
  CHECK(holds(read("plan.yaml"), "fused_attention: true"));
}

TEST_CASE_FIXTURE(Session, "plan: a value named twice is one plan, and memory is kept free") {
  const std::string model =
      plan_gpt + "--devices 2 --as v100 --pipeline 1 --zero 0 --micro-batch 1,1 ";
  CHECK(json(model + "--tensor 1 --recompute off,off")["considered"] == 1);
  CHECK(json(model + "--tensor 1 --recompute off --check")["fits"] == true);
  const Json plans = json(model + "--tensor 1 --recompute off");
  CHECK(plans["reserve_bytes"] == std::int64_t{1} << 30);
  const Json& plan = plans["plans"][0];
  const std::int64_t peak = plan["peak_bytes"], spare = plan["spare_bytes"];
  const std::string tight =
      fmt::format("--tensor 1 --recompute off --memory '{} B' ", peak + spare / 2);
  CHECK(json(model + tight + fmt::format("--reserve '{} B'", spare / 2))["status"] == "ok");
  CHECK(json(model + tight + fmt::format("--reserve '{} B'", spare / 2 + 1))["status"] ==
        "infeasible");
  refuses("plan gpt:training=false --batch 8 --devices 2 --as v100",
          "no backward op: training=true");
}

TEST_CASE_FIXTURE(Session, "plan: where none fits, those that lack least, and what makes one fit") {
  const std::string model =
      "plan "
      "gpt:num_hidden_layers=4,hidden_size=256,num_attention_heads=4,length=256,vocab_size=1000 "
      "--batch 8 --devices 2 --as v100 --tensor 1 --pipeline 1 --micro-batch 4 --zero 0 "
      "--precision fp32 --recompute off ";
  const std::int64_t peak = json(model)["plans"][0]["peak_bytes"];
  const std::string tight = model + fmt::format("--memory '{} B'", peak - 1000);
  const Json none = json(tight);
  CHECK(none["status"] == "infeasible");
  REQUIRE(none["smallest"].size() == 1);
  CHECK(none["smallest"][0]["peak_bytes"] == peak);
  CHECK(none["smallest"][0]["spare_bytes"] == -1000);
  std::vector<std::string> flags;
  for (const Json& remedy : none["remedies"]) {
    flags.push_back(remedy["flags"]);
    CHECK(remedy["spare_bytes"] >= 0);
  }
  CHECK(std::ranges::find(flags, "--recompute full") != flags.end());
  CHECK(std::ranges::find(flags, "--micro-batch 1") != flags.end());
  CHECK(holds(run(tight).out, "lacks 1000 B"));

  // Two stages on two devices; a list of devices keeps its type.
  const std::string one =
      "plan "
      "gpt:num_hidden_layers=4,hidden_size=256,num_attention_heads=4,length=256,vocab_size=1000 "
      "--batch 8 --tensor 1 --micro-batch 1 --zero 0 --precision fp16 --recompute full --top 1 "
      "--devices ";
  const std::int64_t whole = json(one + "1xv100")["plans"][0]["peak_bytes"];
  const std::string less = fmt::format(" --memory '{} B'", whole - 1000);
  for (const auto& [devices, more] :
       {std::pair("1 --as v100", "--devices 2"), {"1xv100", "--devices 2xv100"}}) {
    const Json remedies = json(one + devices + less)["remedies"];
    REQUIRE(remedies.size() == 1);
    CHECK(remedies[0]["flags"] == more);
  }
}
