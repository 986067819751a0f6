#include "sim/pipeline/pipeline.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"
#include "tests/sim/transform/transforms.h"

namespace {

/// f0 (10 ns, gpu0) --100 B--> f1 (10 ns, gpu1) -> d1 (20 ns, gpu1) --100 B--> d0 (10 ns, gpu0).
/// w1 (30 ns, gpu1) makes a gradient of weights beside d1, from the same tensor; both update.
OpGraph two_stages() {
  return graph_of(
      "f0=10 -100> f1=10 -t10> d1=20,b:f1; f1 -t> w1=30,b:f1; u1=5,u; "
      "d1 -100> d0=10,b:f0 -50> u0=5,u; w1 -50> u1");
}

/// f0 (10 ns) --sent--> f1 (10 ns) --kept--> d1 (`backward`) --gradient--> d0 (10 ns).
OpGraph two_passes(Bytes sent, Bytes kept, Duration backward, Bytes gradient) {
  return graph_of(fmt::format("f0=10 -{}> f1=10 -{}> d1={},b:f1 -{}> d0=10,b:f0", sent.count,
                              kept.count, backward.count(), gradient.count));
}

IdVector<OpId, DeviceId> stages() { return on({gpu0, gpu1, gpu1, gpu1, gpu1, gpu0, gpu0}).device; }

/// The result of `run` on two devices, where 1 B takes 1 ns.
auto on_two_gpus(const PlacedStep& step, Transfers transfers, auto run) {
  const Cluster cluster = gpus(2);
  const ProfiledCosts costs(step.graph, cluster);
  const Problem problem{
      step.graph, cluster, costs, {.transfers = transfers, .queue = ReadyOrder::program}};
  return run(problem, Placement{.device = step.device});
}

auto simulated(const PlacedStep& step) {
  return on_two_gpus(step, EngineOptions{}.transfers,
                     [](const Problem& p, const Placement& at) { return simulate(p, at); });
}

pipeline::PipelineResult pipelined(const PlacedStep& step, const pipeline::PipelineOptions& options,
                                   Transfers transfers = EngineOptions{}.transfers) {
  return on_two_gpus(step, transfers, [&](const Problem& p, const Placement& at) {
    return pipeline::simulate_pipeline(p, at, options);
  });
}

}  // namespace

TEST_SUITE_BEGIN("send_after_pass");
TEST_CASE("a gradient leaves after the stage's backward pass, before its updates") {
  const OpGraph graph = two_stages();
  // f0 10, sent 110, f1 120, d1 140, sent 240, d0 250, u0 255; w1 and u1 meanwhile.
  CHECK(simulated({graph, stages()}).makespan == 255ns);
  // The gradient leaves when w1 has ended, at 170: 30 ns later. u1 runs beside the transfer.
  const PlacedStep step = transform("send_after_pass")->after_placing(graph, stages());
  CHECK(simulated(step).makespan == 285ns);
  REQUIRE(step.graph.find("d1/sent"));
  CHECK(step.device[*step.graph.find("d1/sent")] == gpu1);
  CHECK(step.graph.num_ops() == graph.num_ops() + 2);
  const auto before = step.graph.predecessors(*step.graph.find("d1/sent"));
  CHECK(std::ranges::count(before, *step.graph.find("w1")) == 1);  // in any order of the queue
  CHECK(*step.graph.find("d1/sent") < *step.graph.find("u1"));
}

TEST_CASE("both ends keep what is sent until their last pass has ended") {
  const OpGraph graph = two_stages();
  const auto peak = [](const PlacedStep& step, DeviceId d) {
    return simulated(step).devices[d].peak;
  };
  const PlacedStep step = transform("send_after_pass")->after_placing(graph, stages());
  // gpu0: the output of f0 while it is sent, then d0's gradient of 50 B beside its copy of 100 B;
  // with the rule the output of f0 is there, too.
  CHECK(peak({graph, stages()}, gpu0) == 150_B);
  CHECK(peak(step, gpu0) == 250_B);
  // gpu1: the output of d1 (100 B), of f1 (10 B) and of w1 (50 B); with the rule also the copy.
  CHECK(peak({graph, stages()}, gpu1) == 160_B);
  CHECK(peak(step, gpu1) == 260_B);
}

TEST_CASE("a device with two stages frees the tensors of the later one first") {
  const OpGraph graph = graph_of(
      "f0=10 -10> f1=10 -100> f2=10 -1> d2=10,b:f2 -100> d1=10,b:f1 -20> d0=10,t1000,b:f0");
  const PlacedStep step =
      transform("send_after_pass")
          ->after_placing(graph, on({gpu0, gpu1, gpu0, gpu0, gpu1, gpu0}).device);
  // While d0 runs gpu0 has its 1000 B, the output of f0 (10 B), which f0's caller holds, and the
  // gradient that d0 reads (20 B). The copy of f1's output and the gradient of d2 went with d2.
  CHECK(simulated(step).devices[gpu0].peak == 1030_B);
}

TEST_CASE("a stage that requests its inputs has one copy at a time") {
  const OpGraph graph = two_passes(100_B, 10_B, 20ns, 100_B);
  const auto run = [&](const Values& values) {
    return pipelined(transform("send_after_pass", values)
                         ->after_placing(graph, on({gpu0, gpu1, gpu1, gpu0}).device),
                     {.schedule = "1f1b_flush", .micro_batches = 2}, Transfers::duplex);
  };
  // gpu0: f0#0 until 10, f0#1 until 20. Copies come at 110 and 210. gpu1: f1#0 120, d1#0 140;
  // f1#1 220, d1#1 240. Gradients come at 240 and 340, d0#1 ends at 350. While d1#0 runs gpu1 has
  // both copies, the 10 B of f1 and the 100 B of d1.
  const pipeline::PipelineResult sent = run({});
  CHECK(sent.makespan == 350ns);
  CHECK(sent.stages[1].peak == 310_B);
  // The second copy leaves when d1#0 ends at 140 and comes at 240; d1#1 270, its gradient 370,
  // d0#1 380. gpu0 runs f0#1 meanwhile, as before.
  const pipeline::PipelineResult asked = run({{"asked", "true"}});
  CHECK(asked.makespan == 380ns);
  CHECK(asked.stages[1].peak == 210_B);
  CHECK(asked.stages[0].busy == sent.stages[0].busy);
}

TEST_CASE("a stage without further receipts holds sent tensors until its passes have ended") {
  const OpGraph graph = two_passes(1_B, 4_B, 50ns, 10_B);
  const auto peak = [&](const char* schedule, const char* asked) {
    return pipelined(transform("send_after_pass", {{"asked", asked}})
                         ->after_placing(graph, on({gpu0, gpu1, gpu1, gpu0}).device),
                     {.schedule = schedule, .micro_batches = 3})
        .stages[1]
        .peak;
  };
  // gpipe's last stage runs d1 three times on end. Each lets go of the copy (1 B) and the output
  // of f1 (4 B) of its micro-batch. While the first one runs there are 3 (1 + 4) B and its
  // gradient of 10 B: 25 B. A gradient that is under way counts with its receiver; so the others
  // have less. With the rule there are 1 + 4 B and all three gradients while the third one runs:
  // 35 B.
  CHECK(peak("gpipe", "false") == 25_B);
  CHECK(peak("gpipe", "true") == 35_B);
  // 1f1b receives before each f1, and lets go of the gradient before that: 1 + 4 + 10 B.
  CHECK(peak("1f1b_flush", "true") == 15_B);
}

TEST_CASE("on one device nothing changes") {
  const OpGraph graph = two_stages();
  const PlacedStep step =
      transform("send_after_pass")->after_placing(graph, IdVector<OpId, DeviceId>(7, gpu0));
  CHECK(text(step.graph) == text(graph));
}

TEST_CASE("schedules with separate weight-gradient passes are rejected") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(two_stages(), gpus(2));
  const std::vector<std::shared_ptr<const Transform>> transforms{transform("send_after_pass")};
  const auto refused = [&](const char* schedule) {
    return message<InputError>([&] {
      pipeline::check_pipeline({graph, cluster, costs}, {.schedule = schedule, .micro_batches = 4},
                               transforms);
    });
  };
  CHECK(refused("zb_h1") ==
        "no pipeline by zb_h1: send_after_pass: this schedule sends before the weight "
        "gradients are computed");
  CHECK(refused("gpipe") == "no error");
}
