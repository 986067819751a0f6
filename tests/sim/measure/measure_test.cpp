#include "sim/measure/measure.h"

#include "sim/engine/simulation.h"
#include "sim/graph/analysis.h"
#include "tests/device_models.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"

namespace {

Measured measured(const std::string& name, const Problem& problem, const Placement& placement,
                  std::map<std::string, Options::Value> options = {}) {
  return make_measure(name, Options(name, std::move(options)))->of(problem, placement);
}

/// f(10 ns, 40 B of weights, 4 B of workspace) -> b(20 ns, backward, 40 B of gradients)
/// -> u(5 ns, update, 80 B of optimizer state); f passes 100 B to b, and b 30 B to u.
OpGraph training_step() { return graph_of("f10,w40,t4 -100> b20,w40,b -30> u5,w80,u"); }

}  // namespace

TEST_SUITE_BEGIN("measures");
TEST_CASE("every measure of one placement, by hand") {
  //   a(10) --100 B--> b(20), a on gpu0, b on gpu1; 1 B takes 1 ns
  const auto& [graph, cluster, costs, problem] = OwnedProblem(graph_of("a10 -100> b20"), gpus(2));
  const Placement apart = on({gpu0, gpu1});
  CHECK(measured("step_time", problem, apart).value == 130ns);  // 10 + 100 + 20
  CHECK(measured("step_time", problem, apart).moved == 100_B);
  CHECK(measured("max_load", problem, apart).value == 120ns);  // gpu1: 100 + 20
  CHECK(measured("latency", problem, apart).value == 230ns);   // gpu0: 10 + 100, then gpu1
  // Two samples without a backward pass, 100 ns of transfer the slowest of three parts:
  // 10 + 100 + 100 + 20 = 230 ns, and the second ends 100 ns after the first.
  const Measured pipe = measured("pipeline", problem, apart,
                                 {{"schedule", {.text = "inference", .where = {}}},
                                  {"micro_batches", {.text = "2", .where = {}}}});
  CHECK(pipe.value == 100ns);
  CHECK(pipe.moved == 200_B);
}

TEST_CASE("a pipeline with a flush takes its makespan over the micro-batches") {
  //   One device: 4 x (10 + 20) ns and one update of 5 ns; 125 / 4 = 31 ns, rounded down.
  const auto& [graph, cluster, costs, problem] = OwnedProblem(training_step(), gpus(1));
  const Measured found = measured("pipeline", {graph, cluster, costs}, on({gpu0, gpu0, gpu0}),
                                  {{"schedule", {.text = "1f1b_flush", .where = {}}},
                                   {"micro_batches", {.text = "4", .where = {}}}});
  CHECK(found.value == 31ns);
  // The update's 5 ns are once for all micro-batches: no bound on one of them.
  const LowerBounds bounds = lower_bounds(graph, cluster, costs);
  CHECK(bounds.work == 35ns);
  Options none;
  for (const MeasureEntry& entry : measures())
    if (entry.name == "pipeline") CHECK(entry.make(none)->bound(bounds) == 30ns);
  // weights and the activation of one micro-batch, its gradient (30 B) and what it reads
  REQUIRE(found.at_peak);
  CHECK(found.at_peak->weights == 40_B);
  CHECK(found.at_peak->gradients == 40_B);
  CHECK(found.at_peak->optimizer_state == 80_B);
  CHECK(found.at_peak->total() == found.peak());
}

TEST_CASE("a placement that is no pipeline has no value, with the reason") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(one_tensor_two_readers(), gpus(2));
  const Measured found = measured("pipeline", {graph, cluster, costs}, on({gpu0, gpu1, gpu1}));
  CHECK_FALSE(found.value.has_value());
  CHECK_FALSE(found.out_of_memory);
  CHECK(found.why.starts_with("gpipe is a schedule of training, and this graph is not training"));
}

TEST_CASE("weights over the limit have no load and no latency; a step has an OOM report") {
  //   160 B of persistent bytes on a device of 100 B
  const auto& [graph, cluster, costs, problem] = OwnedProblem(training_step(), gpus(1, 100_B));
  for (const char* name : {"max_load", "latency"}) {
    const Measured found = measured(name, problem, on({gpu0, gpu0, gpu0}));
    CHECK(found.out_of_memory);
    CHECK(found.why == "weights are 60 B over the memory limits");
    CHECK(found.peaks.empty());
  }
  const Measured step = measured("step_time", problem, on({gpu0, gpu0, gpu0}));
  CHECK(step.out_of_memory);
  CHECK(step.why.starts_with("gpu0: op 'u' needs 80 B, 20 B is free of 100 B"));
  // What was in memory when the optimizer state asked.
  REQUIRE(step.at_peak);
  CHECK(step.at_peak->weights == 40_B);
  CHECK(step.at_peak->gradients == 40_B);
  CHECK(step.at_peak->optimizer_state == 0_B);
}

TEST_CASE("the parts of a peak, by hand") {
  //   gpu0: f and u, gpu1: b. gpu0 holds 120 B, and at 0 ns 100 B of activation and 4 B of
  //   workspace: 224 B. gpu1 holds 40 B, then the copy of 100 B, then 30 B of gradient: 170 B.
  const auto& [graph, cluster, costs, problem] = OwnedProblem(training_step(), gpus(2));
  const Measured found = measured("step_time", {graph, cluster, costs}, on({gpu0, gpu1, gpu0}));
  CHECK(found.peaks == std::vector<Bytes>{224_B, 170_B});
  REQUIRE(found.at_peak);
  CHECK(found.at_peak->weights == 40_B);
  CHECK(found.at_peak->gradients == 0_B);
  CHECK(found.at_peak->optimizer_state == 80_B);
  CHECK(found.at_peak->activations == 100_B);
  CHECK(found.at_peak->workspace == 4_B);
  CHECK(found.at_peak->copies == 0_B);
  CHECK(found.at_peak->distinguished);
}

TEST_CASE("the original's weights are told apart once all of them are there") {
  // gpu0: f and u with 40 and 80 B; a peak with 100 B of weights is before the last are loaded.
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(training_step(), gpus(2), {.semantics = Semantics::baechi});
  for (const std::int64_t loaded : {100, 120}) {
    MemoryUse use;
    use[MemoryKind::weights] = Bytes{loaded};
    const PeakMemory peak = peak_memory(problem, on({gpu0, gpu1, gpu0}), gpu0, use);
    CHECK(peak.distinguished == (loaded == 120));
    CHECK(peak.weights == (loaded == 120 ? 40_B : 100_B));
    CHECK(peak.optimizer_state == (loaded == 120 ? 80_B : 0_B));
  }
}

TEST_CASE("persistent bytes of forward ops are distinguished only without a backward pass") {
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    const OpGraph graph = graph_of(phase == Phase::forward ? "f10,w40 -1> g0" : "f10,w40 -1> g0,b");
    CHECK(persistent_of_one_kind(graph) == (phase == Phase::backward));
    const Cluster cluster = gpus(1);
    const ProfiledCosts costs(graph, cluster);
    const Measured found = measured("step_time", {graph, cluster, costs}, on({gpu0, gpu0}));
    CHECK(found.at_peak->distinguished == (phase == Phase::forward));
    CHECK(found.at_peak->weights == 40_B);
  }
}

TEST_CASE("a group on two devices is no bound of the load") {
  //   a and b, 40 ns each, one group, are a stage with two replicas: 80 / 2 ns a sample.
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a40,c:both; b40,c:both"), gpus(2));
  Placement shared = on({gpu0, gpu0});
  shared.facts = {{"stage_0_first", 0}, {"stage_0_devices", 2}};
  const LowerBounds bounds = lower_bounds(graph, cluster, costs);
  CHECK(bounds.group == 80ns);
  CHECK(measured("max_load", problem, shared).value == 40ns);
  CHECK(make_measure("max_load", Options("max_load"))->bound(bounds).value() <= 40ns);
}

TEST_CASE("any problem: a value that is not below the bound, or the reason why there is none") {
  std::size_t values = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const RandomProblem random({.ops = 12}, 3, seed);
    for (const EngineOptions& engine : {EngineOptions{}, EngineOptions{.overlap = false}}) {
      const Problem problem = random.under(engine);
      const LowerBounds bounds = lower_bounds(problem.graph, problem.cluster, problem.costs);
      for (const MeasureEntry& entry : measures()) {
        INFO(entry.name, " ", seed);
        Options none;
        const auto measure = entry.make(none);
        const Measured found = measure->of(problem, random.placement);
        CHECK(found.value.has_value() == found.why.empty());
        CHECK(measure->of(problem, random.placement).value == found.value);
        CHECK((found.peaks.empty() || found.peaks.size() == 3));
        CHECK(found.at_peak.has_value() == !found.peaks.empty());
        if (found.at_peak) CHECK(found.at_peak->total() == found.peak());
        if (!found.value) continue;
        ++values;
        if (const auto bound = measure->bound(bounds)) CHECK(*bound <= *found.value);
      }
    }
  }
  CHECK(values > 200);
}

TEST_CASE("units name the time per step, sample or micro-batch; unknown measures are rejected") {
  for (const MeasureEntry& entry : measures()) CHECK(entry.unit.starts_with("us per "));
  CHECK_REFUSED(make_measure("max_lod", Options{}, "x.yaml:3:1"),
                "x.yaml:3:1: no measure 'max_lod' (did you mean 'max_load'?) (measures: step_time, "
                "max_load, latency, pipeline)");
}

namespace {

constexpr double near = 1e-12;

/// 1 TFLOP/s in fp32, 2 in fp16, 100 GB/s, 1 us per launch, 4 us without a kernel.
DeviceModel plain_device() {
  DeviceModel model{.name = "plain",
                    .arithmetic = in_every_format({.peak = {1e12}}),
                    .bandwidth = {1e11},
                    .launch = 1us,
                    .no_kernel = 4us,
                    .source = "",
                    .fitted = ""};
  model.at(Precision::fp16).peak = {2e12};
  return model;
}

/// Five ops in a chain, without tensors between them:
///   conv   8 MFLOP, 100 kB: 1 + max(8, 1) = 9 us, bound by compute
///   half   4 MFLOP in fp16, 100 kB: 1 + max(2, 1) = 3 us, bound by compute
///   relu   0.1 MFLOP, 600 kB: 1 + max(0.1, 6) = 7 us, bound by memory
///   tiny   0.1 MFLOP, 10 kB: 1 + max(0.1, 0.1) = 1.1 us, bound by its launch
///   view   no kernel: 4 us, bound by the host
/// 24.1 us, 12.2 MFLOP, 810 kB. At the peaks 8 + 2 + 0.1 + 0.1 = 10.2 us of arithmetic, 8.1 us of
/// traffic.
OpGraph five_ops(const DeviceModel& model) {
  OpGraphBuilder b;
  OpId before = no_op;
  const auto add = [&](std::string_view name, std::int64_t flops, Bytes traffic, Precision p) {
    const OpId v = b.add_op({.name = name, .kind = name});
    if (flops > 0) b.add_kernel(v, {.flops = flops, .traffic = traffic, .precision = p});
    if (before != no_op) b.add_edge(b.add_tensor(before, 100'000_B), v);
    before = v;
  };
  add("conv", 8'000'000, 100'000_B, Precision::fp32);
  add("half", 4'000'000, 100'000_B, Precision::fp16);
  add("relu", 100'000, 600'000_B, Precision::fp32);
  add("tiny", 100'000, 10'000_B, Precision::fp32);
  add("view", 0, 0_B, Precision::fp32);
  const OpGraph graph = std::move(b).build();
  return graph.with_times("", roofline_times(graph, model));
}

StepUtilisation used(const OpGraph& graph, const Cluster& cluster, const Placement& placement,
                     const std::vector<const DeviceModel*>& models) {
  const Problem& problem = OwnedProblem(graph, cluster).problem;
  const StepResult step = simulate(problem, placement);
  std::vector<Duration> busy;
  for (const DeviceUse& use : step.devices) busy.push_back(use.busy);
  return utilisation(problem, placement, models, step.makespan, busy);
}

}  // namespace

TEST_SUITE_BEGIN("utilisation");
TEST_CASE("five ops on one device, by hand") {
  const DeviceModel model = plain_device();
  const OpGraph graph = five_ops(model);
  const Utilisation step = used(graph, gpus(1), on({gpu0, gpu0, gpu0, gpu0, gpu0}), {&model}).step;
  CHECK(step.busy == 1.0);
  CHECK(step.flops == 12'200'000.0);
  CHECK(step.traffic == 810'000.0);
  CHECK(*step.intensity() == doctest::Approx(12.2 / 0.81).epsilon(near));
  CHECK(*step.flops_of_step == doctest::Approx(10.2 / 24.1).epsilon(near));
  CHECK(*step.flops_of_busy == doctest::Approx(10.2 / 24.1).epsilon(near));
  CHECK(*step.traffic_of_step == doctest::Approx(8.1 / 24.1).epsilon(near));
  CHECK(*step.compute_bound == doctest::Approx(12.0 / 24.1).epsilon(near));  // conv and half
  CHECK(*step.memory_bound == doctest::Approx(7.0 / 24.1).epsilon(near));
  CHECK(*step.launch_bound == doctest::Approx(5.1 / 24.1).epsilon(near));  // tiny and view
}

TEST_CASE("two devices: the step's fractions are of both, also while one waits") {
  // conv on gpu0, then 100 kB for 100 us, and the rest on gpu1: 9 + 100 + 15.1 = 124.1 us.
  const DeviceModel model = plain_device();
  const OpGraph graph = five_ops(model);
  const StepUtilisation both =
      used(graph, gpus(2), on({gpu0, gpu1, gpu1, gpu1, gpu1}), {&model, &model});
  CHECK(*both.devices[gpu0].busy == doctest::Approx(9.0 / 124.1).epsilon(near));
  CHECK(*both.devices[gpu1].busy == doctest::Approx(15.1 / 124.1).epsilon(near));
  CHECK(*both.step.busy == doctest::Approx(24.1 / 248.2).epsilon(near));
  CHECK(*both.devices[gpu0].flops_of_step == doctest::Approx(8.0 / 124.1).epsilon(near));
  CHECK(*both.devices[gpu0].flops_of_busy == doctest::Approx(8.0 / 9.0).epsilon(near));
  CHECK(*both.step.flops_of_step == doctest::Approx(10.2 / 248.2).epsilon(near));
  CHECK(*both.step.flops_of_busy == doctest::Approx(10.2 / 24.1).epsilon(near));
  CHECK(*both.step.traffic_of_step == doctest::Approx(8.1 / 248.2).epsilon(near));
  CHECK(*both.step.memory_bound == doctest::Approx(7.0 / 24.1).epsilon(near));
}

TEST_CASE("unknown values are empty, never 0") {
  const DeviceModel model = plain_device();
  const OpGraph graph = five_ops(model);
  SUBCASE("a device of unknown type: flops and bytes, but no fraction of a peak") {
    const Utilisation step =
        used(graph, gpus(1), on({gpu0, gpu0, gpu0, gpu0, gpu0}), {nullptr}).step;
    CHECK(step.flops == 12'200'000.0);
    CHECK(step.intensity().has_value());
    CHECK_FALSE(step.flops_of_step.has_value());
    CHECK_FALSE(step.traffic_of_step.has_value());
    CHECK_FALSE(step.compute_bound.has_value());
  }
  SUBCASE("a device that runs no op need not be known") {
    const StepUtilisation both =
        used(graph, gpus(2), on({gpu0, gpu0, gpu0, gpu0, gpu0}), {&model, nullptr});
    CHECK(*both.step.flops_of_step == doctest::Approx(10.2 / 48.2).epsilon(near));
    CHECK(both.devices[gpu1].flops == 0.0);                     // it did none
    CHECK_FALSE(both.devices[gpu1].flops_of_busy.has_value());  // of no time
  }
  SUBCASE("a graph without work: busy only") {
    const OpGraph timed = graph_of("a10000");
    const Utilisation step = used(timed, gpus(1), on({gpu0}), {&model}).step;
    CHECK(step == Utilisation{.busy = 1.0});
  }
  SUBCASE("a zero-time step") {
    const OpGraph timed = graph_of("a0");
    CHECK(used(timed, gpus(1), on({gpu0}), {&model}).step == Utilisation{});
  }
}
