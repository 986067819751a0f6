#include <fmt/ranges.h>

#include "scenarios/read/choice_text.h"
#include "scenarios/read/yaml.h"
#include "tests/device_models.h"
#include "tests/prelude.h"
#include "tests/scenarios/sweeps.h"
#include "traces/generator.h"

namespace {

/// a computes, b copies, c does nothing.
OpGraph three_ops() {
  return graph_of("a0,k:MatMul,f4000000,m1000; b0,k:Relu,f1000,m3000000; c0,k:Const");
}

// 1 TFLOP/s is 1000 flops per ns, 1 TB/s 1000 bytes per ns.
DeviceModel simple_model() {
  return {.name = "simple",
          .arithmetic = in_every_format(
              {.peak = {1e12}, .efficiency = {.other = 0.5, .by_kind = {{"MatMul", 0.8}}}}),
          .bandwidth = {1e12},
          .launch = 5us,
          .no_kernel = 1us,
          .bandwidth_efficiency = 0.75,
          .source = {},
          .fitted = {}};
}

/// The built-in types, and `devices` in YAML.
DeviceTable types_with(const std::string& devices) {
  DeviceTable table = built_in_devices();
  Mistakes mistakes;
  table.add(parse_yaml("devices: " + devices, "kinds.yaml"), mistakes);
  mistakes.throw_if_any();
  return table;
}

/// "2 rtx_4090 24564.00 MiB; ..." of the flags as typed.
std::string groups(const DeviceWords& words) {
  Mistakes mistakes;
  std::vector<std::string> all;
  for (const DeviceChoice& d : read_device_words(words, mistakes))
    all.push_back(fmt::format("{} {} {}", d.count, d.kind, d.memory.count >> 20));
  mistakes.throw_if_any();
  return fmt::format("{}", fmt::join(all, "; "));
}

}  // namespace

TEST_SUITE_BEGIN("devices");
TEST_CASE("a type takes missing keys from its base") {
  const auto devices =
      types_with(
          "{slow: {base: h100, bandwidth: 1 TB/s}, slower: {base: slow, memory: 40 GB, fitted: x}}")
          .devices;
  DeviceModel expected = *built_in_devices().devices.at("h100");
  expected.bandwidth = {1e12};
  for (const auto& [name, memory, fitted] :
       {std::tuple("slow", expected.memory, "as h100, except: bandwidth"),
        {"slower", Bytes{40'000'000'000}, "x"}}) {
    const DeviceModel& own = *devices.at(name);
    CHECK(own.bandwidth.bytes_per_second == 1e12);
    CHECK(own.memory == memory);
    CHECK(own.fitted == fitted);
    CHECK(own.source == expected.source);
    // 4 M flops and 3 MB: an op with a peak and one with traffic take as long as h100's would.
    CHECK(roofline_times(three_ops(), own) == roofline_times(three_ops(), expected));
  }
  const std::string refused =
      message<InputError>([&] { types_with("{mine: {base: later}, later: {base: h100}}"); });
  CHECK(refused.starts_with("kinds.yaml:1:24: kinds.devices.mine.base: 'later' is not one of "));
  CHECK(refused.find('\n') == std::string::npos);  // a kind without a base is not read
}

TEST_CASE("an op takes the launch and the maximum of arithmetic and traffic time") {
  const auto times = roofline_times(three_ops(), simple_model());
  CHECK(times[OpId{0}] == 5us + 5us);  // 4 M / (1000 x 0.8) = 5000 ns, traffic 2 ns
  CHECK(times[OpId{1}] == 5us + 4us);  // 3 M / (1000 x 0.75) = 4000 ns, arithmetic 2 ns
  CHECK(times[OpId{2}] == 1us);        // no kernel
}

TEST_CASE("an op that would take more than 146 years is refused by name") {
  DeviceModel slow = simple_model();
  slow.at(Precision::fp32).peak = {1e-4};  // 4 M / (0.8 x 1e-4) = 5e10 s; 146 years are 4.6e9 s
  CHECK_REFUSED(
      roofline_times(three_ops(), slow),
      "op 'a' takes more than 146 years on simple: a kernel of 4000000 flops and 1000 bytes");
}

TEST_CASE("a small kernel achieves half its efficiency at half_flops and half_traffic") {
  DeviceModel model = simple_model();
  model.at(Precision::fp32).half_flops = 2e6;
  model.half_by_kind["MatMul"] = 0.5;
  model.half_traffic = 750'000_B;
  const auto times = roofline_times(three_ops(), model);
  // (4 M + 0.5 x 2 M) / (1000 x 0.8) = 6250 ns: 4/5 of the efficiency.
  CHECK(times[OpId{0}] == 5us + 6250ns);
  // (3 M + 0.75 M) / (1000 x 0.75) = 5000 ns; arithmetic (1000 + 2 M) / (1000 x 0.5) = 4002 ns
  CHECK(times[OpId{1}] == 5us + 5us);
}

TEST_CASE("each dtype has its peak; TF32 without units of its own is FP32") {
  OpGraphBuilder builder;
  for (const Precision p : all<Precision>()) {
    const OpId v = builder.add_op({.name = to_text(p), .kind = "MatMul"});
    builder.add_kernel(v, {.flops = 4'000'000, .precision = p});
  }
  const OpGraph graph = std::move(builder).build();
  DeviceModel model = simple_model();
  model.at(Precision::tf32) = {};
  model.at(Precision::fp16).peak = {8e12};
  model.at(Precision::bf16) = {.peak = {2e12}, .efficiency = {.other = 0.25, .by_kind = {}}};
  const auto times = roofline_times(graph, model);
  CHECK(times[OpId{0}] == 5us + 5us);    // fp32: 4 M / (1000 x 0.8)
  CHECK(times[OpId{1}] == 5us + 5us);    // tf32
  CHECK(times[OpId{2}] == 5us + 625ns);  // fp16: 4 M / (8000 x 0.8)
  CHECK(times[OpId{3}] == 5us + 8us);    // bf16: 4 M / (2000 x 0.25)
  model.at(Precision::bf16) = {};
  CHECK_REFUSED(
      roofline_times(graph, model),
      "op 'bf16' computes in bf16, of which simple has no peak (peaks: fp32, fp16, fp8, fp4)");
}

TEST_CASE("the efficiency of a kind applies to kinds with this prefix, the longest first") {
  const Efficiency e{.other = 0.5,
                     .by_kind = {{"Conv", 0.1}, {"Conv2d", 0.2}, {"Conv2dBackward", 0.3}}};
  CHECK(e.of("Conv2d") == 0.2);
  CHECK(e.of("Conv2dBackwardFilter") == 0.3);
  CHECK(e.of("Conv1d") == 0.1);
  CHECK(e.of("Con") == 0.5);
  CHECK(e.of("GroupedConv2d") == 0.5);
}

TEST_CASE("a type has peaks, efficiencies and half sizes by dtype") {
  const ScenarioFile file = scenario_of(R"(
graph: {generate: layered, ops: 3}
cluster: {devices: {kind: mine}}
kinds:
  devices:
    mine:
      peak: {fp32: 1 TFLOP/s, fp16: 8 TFLOP/s}
      bandwidth: 1 TB/s
      memory: 9 GB
      efficiency: {fp32: {default: 0.5, Conv2d: 0.8}, fp16: {default: 0.25}}
      half: {fp16: 60 MFLOP, Conv2d: 1.5, traffic: 1 MB}
      host_op: 40 us
      host_step: 2 ms
placers: [single]
)");
  const DeviceModel& mine = *file.point(0).cluster.devices.at(0).model;
  CHECK(mine.at(Precision::fp32).peak.flop_per_second == 1e12);
  CHECK(mine.at(Precision::fp16).peak.flop_per_second == 8e12);
  CHECK(mine.at(Precision::bf16).peak.flop_per_second == 0.0);
  CHECK(mine.at(Precision::fp32).efficiency.of("Conv2d") == 0.8);
  CHECK(mine.at(Precision::fp16).efficiency.of("Conv2d") == 0.25);
  CHECK(mine.at(Precision::fp16).half_flops == 6e7);
  CHECK(mine.half_by_kind.at("Conv2d") == 1.5);
  CHECK(mine.half_traffic == 1'000'000_B);
  CHECK(mine.host_op == 40us);
  CHECK(mine.host_step == 2ms);
}

TEST_CASE("the cache serves a memory-bound kernel of few bytes") {
  const DeviceTable table = types_with(
      "{mine: {peak: 1 TFLOP/s, bandwidth: 1 TB/s, memory: 1 GB, launch: 5 us, "
      "bandwidth_efficiency: 0.5, passes: {Norm: 0.8, Add: {launch: 2 us, "
      "bandwidth_efficiency: 0.5, cache: 10 MB, cached: 2}}}}");
  const auto us = [&](std::int64_t megabytes, const char* kind) {
    return kernel_time({.traffic = Bytes{1'000'000 * megabytes}}, *table.devices.at("mine"), kind) /
           1us;
  };
  CHECK(us(10, "AddBackward") == 2 + 5);   // 10 MB at 2 TB/s
  CHECK(us(20, "AddBackward") == 2 + 40);  // 20 MB at 0.5 TB/s
  CHECK(us(16, "AddBackward") == 2 + 22);  // 40 % of them at 2, 60 % at 0.5: 3.2 + 19.2 us
  CHECK(us(8, "Norm") == 5 + 10);
  CHECK(us(10, "Softmax") == 5 + 20);
}

TEST_CASE("a lower power limit reduces the clock of the base's GEMMs by a factor") {
  const DeviceTable table = types_with("{cool: {base: h100, clock: 0.5}}");
  const auto kept = [&](const char* kind) {
    return table.devices.at(kind)->at(Precision::bf16).products.sustained;
  };
  CHECK(kept("h100") > 0.5);
  CHECK(kept("h100") < 1.0);
  CHECK(kept("cool") == 0.5 * kept("h100"));
}

TEST_CASE("every built-in type is complete, and states the source of its numbers") {
  const DeviceTable& table = built_in_devices();
  for (const char* name : {"k80", "p100", "v100", "rtx_2080", "a100", "h100", "h200"})
    CHECK_MESSAGE(table.devices.contains(name), name);
  CHECK(table.devices.contains(default_device));
  for (const auto& [name, model] : table.devices) {
    CAPTURE(name);
    CHECK(model->name == name);
    CHECK(model->at(Precision::fp32).peak.flop_per_second > 1e12);
    CHECK(model->bandwidth.bytes_per_second > 5e10);
    CHECK(model->memory > 1_GiB);
    CHECK_FALSE(model->source.empty());
  }
  for (const auto& [name, model] : table.links) {
    CAPTURE(name);
    CHECK(model.link.bandwidth.bytes_per_second > 1e9);
    CHECK(model.link.latency > Duration::zero());
    CHECK_FALSE(model.source.empty());
  }
}

// 1 TB/s is 1000 bytes per ns. Weights of 4096 x 4096 in 16 bits 33.6 MB, in Q4_K 9 437 184 B.
TEST_CASE("few rows read weights at their share of the bandwidth; more rows are never faster") {
  DeviceModel model = *built_in_devices().devices.at("rtx_3090");
  model.bandwidth = {900e9};
  model.launch = 0us;
  model.gemv = {.fp16 = 0.9, .q4 = 0.9, .unpacked = 0.5};
  const auto time = [&](std::int64_t rows, Bytes weights) {
    OpGraphBuilder builder;
    builder.add_kernel(builder.add_op({.name = "a", .kind = "Linear"}),
                       {.flops = 2 * rows * 4096 * 4096,
                        .traffic = weights,
                        .precision = Precision::fp16,
                        .weights = weights,
                        .matrix = {MatrixKind::product, 1, 0, 4096, 4096}});
    return roofline_times(std::move(builder).build(), model)[OpId{}];
  };
  constexpr Bytes fp16{2 * 4096 * 4096}, q4_k{9'437'184};
  CHECK(time(1, q4_k) == 11'651ns);  // 9 437 184 B / 810 GB/s = 11 650.8 ns
  CHECK(time(1, fp16) == 41'426ns);
  CHECK(time(8, fp16) == 41'426ns);
  for (const Bytes weights : {fp16, q4_k})
    for (std::int64_t rows = 1; rows < 80; ++rows) {
      CAPTURE(rows);
      CHECK(time(rows, weights) <= time(rows + 1, weights));
    }
  // Far beyond, unpacking halves the speed.
  CHECK(time(4096, q4_k).count() > 3 * time(4096, fp16).count() / 2);
  model.gemv = {};
  CHECK(time(1, fp16) > 41'426ns);
}

// The mean of tokens 1 to 512 sees 256.5: 15 010.4 MB / (0.900 x 936 GB/s) = 17.82 ms; 32 layers
// x 78.3 us; a cache of 33.6 MB / (0.273 x 936 GB/s) = 0.13 ms: 20.46 ms.
TEST_CASE("a decoded token takes weights, launches and cache") {
  double ms = 0.0;
  for (const char* context : {"0", "511"}) {
    Options options("llama");
    for (const auto& [key, value] : {std::pair("config", "3-8b"),
                                     {"pass", "decode"},
                                     {"weights", "f16"},
                                     {"context", context},
                                     {"fused_attention", "false"}})
      options.set(key, {value, ""});
    const OpGraph graph = generate_trace("llama", options).graph;
    for (const Duration time :
         roofline_times(graph, *built_in_devices().devices.at("rtx_3090_llamacpp")))
      ms += to_us(time) / 1e3 / 2.0;
  }
  CHECK(ms == doctest::Approx(20.46).epsilon(0.01));
}

TEST_CASE("a graph with the ops' work is timed for each type of the cluster, others are not") {
  const ScenarioFile file = scenario_of(R"(
graph: {generate: layered, ops: 3}
cluster:
  devices:
    - {name: old, kind: k80}
    - {name: mine, kind: mine, memory: 1 GB}
  link: {kind: nvlink4, latency: 3 us}
kinds: {devices: {mine: {peak: 1 TFLOP/s, bandwidth: 1 TB/s, memory: 9 GB, efficiency: {MatMul: 0.8}}}}
placers: [single]
)");
  const ClusterChoice& choice = file.point(0).cluster;
  const Cluster cluster = make_cluster(choice);
  CHECK(cluster.device(DeviceId{0}).memory == Bytes{12'000'000'000});  // the kind's
  CHECK(cluster.device(DeviceId{1}).memory == Bytes{1'000'000'000});
  CHECK(cluster.link(DeviceId{0}, DeviceId{1}).bandwidth.bytes_per_second == 450e9);
  CHECK(cluster.link(DeviceId{0}, DeviceId{1}).latency == 3us);

  const auto graph = std::make_shared<const OpGraph>(three_ops());
  const auto on_both = timed(graph, choice);
  CHECK(on_both->device_kinds() == std::vector<std::string>{"k80", "mine"});
  const auto costs = make_costs(choice, *on_both, cluster);
  // k80: 4 M / (4370 x 0.5) = 1830.7 ns; mine: 4 M / (1000 x 0.8) = 5000 ns; launch 5 us each
  CHECK(costs->compute(OpId{0}, DeviceId{0}) == 6831ns);
  CHECK(costs->compute(OpId{0}, DeviceId{1}) == 10us);

  const auto plain = std::make_shared<const OpGraph>(graph_of("a7000"));
  CHECK(timed(plain, choice) == plain);
}

TEST_CASE("a profile error of 20 % gives each op and tensor its own factor") {
  OpGraphBuilder builder;
  for (int i = 0; i < 100; ++i) {
    const OpId v = builder.add_op({.name = fmt::format("op{}", i), .compute = 1ms});
    builder.add_edge(builder.add_tensor(v, 1'000'000_B),
                     builder.add_op({.name = fmt::format("reader{}", i), .compute = 1ms}));
  }
  const OpGraph graph = std::move(builder).build();
  const Cluster cluster = Cluster::uniform(2, 1_GiB, {.bandwidth = {1e9}, .latency = {}});
  const ProfiledCosts truth(graph, cluster);
  const PerturbedCosts off(truth, graph, 0.2, 7), again(truth, graph, 0.2, 7),
      other(truth, graph, 0.2, 8);
  const DeviceId d0{0}, d1{1};
  std::set<Duration> seen;
  for (const OpId v : graph.ops()) {
    CHECK(off.compute(v, d0) >= 800us);
    CHECK(off.compute(v, d0) <= 1200us);
    CHECK(off.compute(v, d0) == off.compute(v, d1));
    CHECK(off.compute(v, d0) == again.compute(v, d0));
    CHECK(off.compute(v, d0) != other.compute(v, d0));
    seen.insert(off.compute(v, d0));
  }
  CHECK(seen.size() > 190);
  for (const TensorId t : graph.tensors()) {
    CHECK(off.transfer(t, d0, d1) >= 800us);
    CHECK(off.transfer(t, d0, d1) <= 1200us);
    CHECK(off.transfer(t, d0, d1) == off.transfer(t, d1, d0));
  }
}

TEST_CASE("a graph with work and no times gets the times of the default type") {
  Trace trace{.graph = three_ops()};
  CHECK(give_times(trace) == default_device);
  CHECK(trace.graph.device_kinds() == std::vector<std::string>{default_device});
  const OpGraph before = trace.graph;
  CHECK(give_times(trace).empty());
  CHECK(trace.graph.op(OpId{0}).compute == before.op(OpId{0}).compute);
}

TEST_CASE("devices are a number of one type or a list of types, memory one size or a list") {
  const auto mib = [](const char* kind) {
    return built_in_devices().devices.at(kind)->memory.count >> 20;
  };
  const std::string two =
      fmt::format("1 rtx_4090 {}; 1 rtx_2080 {}", mib("rtx_4090"), mib("rtx_2080"));
  CHECK(groups({.devices = "rtx_4090,rtx_2080"}) == two);
  CHECK(groups({.devices = "1xrtx_4090+1xrtx_2080"}) == two);
  CHECK(groups({.devices = "2xrtx_4090, 1xrtx_2080", .memory = "24G,8GiB"}) ==
        "2 rtx_4090 24576; 1 rtx_2080 8192");
  // One size for each of three devices: two GPUs of one type differ, so they are two groups.
  CHECK(groups({.devices = "2xrtx_4090,1xrtx_2080", .memory = "24GB,20GiB,8G"}) ==
        "1 rtx_4090 22888; 1 rtx_4090 20480; 1 rtx_2080 8192");
  CHECK(groups({.devices = "4", .kind = "mine", .memory = "8 GiB"}) == "4 mine 8192");
  CHECK(groups({.devices = "2xmine,1xyours", .memory = "1M"}) == "2 mine 1; 1 yours 1");
  CHECK(groups({.devices = "2", .memory = "1M,2M"}) == "1  1; 1  2");
}

TEST_CASE("names as people, nvidia-smi and PyTorch write them, mean one type") {
  for (const auto& [typed, expected] :
       {std::pair("RTX 4060 Ti", "1 rtx_4060_ti 8188"),
        {"rtx4060ti", "1 rtx_4060_ti 8188"},
        {"rtx_4060ti", "1 rtx_4060_ti 8188"},
        {"4060 Ti 16GB", "1 rtx_4060_ti_16gb 16380"},
        {"4060ti-16gb", "1 rtx_4060_ti_16gb 16380"},
        {"4090", "1 rtx_4090 24564"},
        {"2x4090,1x3060", "2 rtx_4090 24564; 1 rtx_3060 12288"},
        {"2 x RTX 4090 + 3060", "2 rtx_4090 24564; 1 rtx_3060 12288"},
        {"NVIDIA GeForce RTX 4090", "1 rtx_4090 24564"},
        {"NVIDIA GeForce RTX 4060 Laptop GPU", "1 rtx_4060_laptop 8188"},
        {"RTX 3080 mobile", "1 rtx_3080_laptop 16384"},
        {"NVIDIA RTX A4000", "1 rtx_a4000 16376"},
        {"NVIDIA RTX 4000 Ada Generation", "1 rtx_4000_ada 20475"},
        {"Tesla V100-SXM2-16GB", "1 v100 16160"},
        {"Tesla V100-SXM2-32GB", "1 v100_32gb 32510"},
        {"Tesla V100-PCIE-32GB", "1 v100_pcie_32gb 32510"},
        {"Tesla T4", "1 t4 15360"},
        {"NVIDIA A100-SXM4-80GB", "1 a100 81920"},
        {"a100_80gb", "1 a100 81920"},
        {"NVIDIA A100-SXM4-40GB", "1 a100_40gb 40960"},
        {"NVIDIA A100 80GB PCIe", "1 a100_pcie 81920"},
        {"NVIDIA A100-PCIE-40GB", "1 a100_pcie_40gb 40960"},
        {"H100 80GB HBM3", "1 h100 81559"},
        {"NVIDIA H100 PCIe", "1 h100_pcie 81559"},
        {"NVIDIA L4", "1 l4 23034"},
        {"Apple M2 Max", "1 m2_max 98304"},
        {"AMD Radeon RX 7900 XTX", "1 rx_7900_xtx 24576"},
        {"7900xtx", "1 rx_7900_xtx 24576"},
        {"2x7900 XT", "2 rx_7900_xt 20480"},
        {"AMD Instinct MI300X OAM", "1 mi300x 196592"},
        {"GTX 1080 Ti", "1 gtx_1080_ti 11264"},
        {"NVIDIA TITAN RTX", "1 titan_rtx 24576"}}) {
    CAPTURE(typed);
    CHECK(groups({.devices = typed}) == expected);
  }
  // A size that no A100 has, and makers' words alone, name nothing.
  const std::string endless = "A100 " + std::string(400, '9') + "GB";  // no number holds it
  for (const std::string& typed : {std::string("A100 60GB"), std::string("NVIDIA GeForce RTX 9"),
                                   std::string("rtx 1"), endless}) {
    CAPTURE(typed);
    CHECK_REFUSED(groups({.devices = typed}), doctest::Contains("no device type"));
  }
}

// A decoded token reads all weights: no type reads them faster than its memory, `gemv` <= 1.
TEST_CASE("GPUs like a measured one have its *_llamacpp numbers and their own hardware") {
  const DeviceModels& devices = built_in_devices().devices;
  std::size_t found = 0;
  for (const auto& [name, model] : devices) {
    CAPTURE(name);
    const double fp16 = model->at(Precision::fp16).peak.flop_per_second;
    if (fp16 > 0.0) CHECK(fp16 >= model->at(Precision::fp32).peak.flop_per_second);
    CHECK(model->gemv.q4 <= 1.0);
    const auto under = devices.find(name + "_llamacpp");
    if (under == devices.end() || !under->second->fitted.starts_with("nothing of this GPU: the "))
      continue;
    ++found;
    const DeviceModel& own = *under->second;
    CHECK(own.bandwidth.bytes_per_second == model->bandwidth.bytes_per_second);
    CHECK(own.memory == model->memory);
    CHECK(own.processors == model->processors);
    CHECK(own.launch > 4us);
    CHECK(own.gemv.q4 < 0.95);
  }
  CHECK(found > 30);
  // FP16 at four times FP32, with sums in 16 bits: 4 x 22.1.
  const DeviceModel& own = *devices.at("rtx_4060_ti_16gb_llamacpp");
  CHECK(own.at(Precision::fp16).peak.flop_per_second == doctest::Approx(88.4e12));
  CHECK(own.at(Precision::fp32).peak.flop_per_second == doctest::Approx(22.1e12));
  CHECK(own.memory == Bytes{16380LL << 20});
  const DeviceModel& ti = *devices.at("rtx_3080_ti_llamacpp");
  CHECK(ti.at(Precision::bf16).peak.flop_per_second == doctest::Approx(136.4e12));
  CHECK(ti.attention.at(128).efficiency == 0.2);
  // 0.7 of 360 GB/s for 28 x 256 x 1.77 GHz; this one has 80 x 256 x 1.67 GHz and 912 GB/s.
  CHECK(ti.attention_decode == doctest::Approx(0.26).epsilon(0.01));
}

TEST_CASE("an unknown GPU is answered with the nearest names, not with all") {
  const auto answer = [](const DeviceWords& words) {
    return message<InputError>([&] { groups(words); });
  };
  for (const char* typed : {"RTX4099", "1xrtx_4099"}) {
    const std::string text = answer({.devices = typed, .prefix = "--"});
    CAPTURE(text);
    CHECK(text.find("is no device type; the nearest are rtx_4090, ") != text.npos);
    CHECK(text.find("k80") == text.npos);
  }
  CHECK(answer({.devices = "0xrtx_4090", .prefix = "--"}) ==
        "--devices: 0: a cluster has at least one device and at most 1024");
  CHECK(answer({.devices = "rtx_4090,rtx_4090", .kind = "h100", .prefix = "--"}) ==
        "--kind: --devices is a list, which names the types");
  CHECK(answer({.devices = "3", .kind = "rtx_4090", .memory = "1G,2G", .prefix = "--"}) ==
        "--memory: 2 sizes for 3 devices");
  CHECK(answer({.devices = "1xrtx_4090", .memory = "24 gigs", .prefix = ""}) ==
        "memory: '24 gigs' is not a size such as '8 GiB' or 24G");
}
