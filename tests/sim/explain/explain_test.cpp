#include <numeric>

#include "sim/explain/explanation.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"

namespace {

/// A step with its timeline.
struct Seen {
  Seen(const Problem& problem, const Placement& placement) {
    StepObserver* observers[] = {&timeline};
    step = simulate(problem, placement, observers);
  }
  Timeline timeline;
  StepResult step;
};

Explanation explained(const Problem& problem, const Placement& placement) {
  const Seen seen(problem, placement);
  return explain(problem, placement, seen.timeline, seen.step);
}

/// "compute 0 10", "wait_device 110 20": kind, start and length in ns.
std::vector<std::string> path_text(const Explanation& e) {
  std::vector<std::string> parts;
  for (const PathPart& p : e.critical_path)
    parts.push_back(std::string(to_text(p.kind)) + " " +
                    std::to_string(p.start.time_since_epoch().count()) + " " +
                    std::to_string(p.length().count()));
  return parts;
}

using PartsAsText = std::vector<std::string>;

Duration idle(const DeviceIdle& device, PathKind kind) {
  return device.waiting[static_cast<std::size_t>(kind)];
}

//   a(10) --100 B--> b(20) on gpu1
//     \-----50 B---> c(30) on gpu2
OpGraph two_tensors() { return graph_of("a10 -100> b20; a -50> c30"); }

/// All engines, Transfers::staged among them.
std::vector<EngineOptions> engines_and_staged() {
  std::vector<EngineOptions> all = all_engines();
  for (const bool cache : {true, false}) {
    for (const bool overlap : {true, false})
      all.push_back({.transfers = Transfers::staged, .cache_tensors = cache, .overlap = overlap});
  }
  return all;
}

}  // namespace

TEST_SUITE_BEGIN("explain");
TEST_CASE("the last op waits for its device, which waited for a transfer") {
  // a 0-10 on gpu0, t 10-110, b 110-130 and c 130-160 on gpu1.
  const auto& [graph, cluster, costs, problem] = OwnedProblem(one_tensor_two_readers(), gpus(2));
  const Explanation e = explained({graph, cluster, costs}, on({gpu0, gpu1, gpu1}));
  CHECK(path_text(e) ==
        PartsAsText{"compute 0 10", "transfer 10 100", "wait_device 110 20", "compute 130 30"});
  CHECK(e.critical_path[2].behind == OpId{1});
  CHECK(e.devices[gpu0].busy == 10ns);
  CHECK(e.devices[gpu0].nothing_left == 150ns);
  CHECK(e.devices[gpu1].busy == 50ns);
  CHECK(idle(e.devices[gpu1], PathKind::compute) == 10ns);  // a
  CHECK(idle(e.devices[gpu1], PathKind::transfer) == 100ns);
  CHECK(e.devices[gpu1].nothing_left == 0ns);
  REQUIRE(e.blocking.size() == 1);
  CHECK(e.blocking[0].moving == 100ns);
  CHECK(e.blocking[0].waiting == 0ns);
  // Unlimited devices: a, c. One op at a time: a, b, c. Then the transfer.
  CHECK(e.what_if.dependencies == 40ns);
  CHECK(e.what_if.devices == 20ns);
  CHECK(e.what_if.transfers == 100ns);
}

TEST_CASE("a tensor waits for its sender's channel") {
  // The first tensor leaves at 10-110, the second at 110-160; c 160-190.
  const auto& [graph, cluster, costs, problem] = OwnedProblem(two_tensors(), gpus(3));
  const Explanation e = explained({graph, cluster, costs}, on({gpu0, gpu1, gpu2}));
  CHECK(path_text(e) ==
        PartsAsText{"compute 0 10", "wait_channel 10 100", "transfer 110 50", "compute 160 30"});
  REQUIRE(e.blocking.size() == 2);
  CHECK(e.blocking[0].tensor == TensorId{1});
  CHECK(e.blocking[0].waiting == 100ns);
  CHECK(e.blocking[0].moving == 50ns);
  CHECK(idle(e.devices[gpu2], PathKind::wait_channel) == 100ns);
}

TEST_CASE("through host memory: half out, a wait for the incoming channel, half in") {
  //   a(10) on gpu0 and b(30) on gpu1 send 100 B each to c(1) on gpu2: out 10-60 and 30-80;
  //   in 60-110 and 110-160.
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a10; b30; a -100> c1; b -100> c"), gpus(3));
  const Explanation e =
      explained({graph, cluster, costs, {.transfers = Transfers::staged}}, on({gpu0, gpu1, gpu2}));
  CHECK(path_text(e) == PartsAsText{"compute 0 30", "transfer 30 50", "wait_channel 80 30",
                                    "transfer 110 50", "compute 160 1"});
}

TEST_CASE("without overlap a transfer may wait for a device that computes") {
  //   a(10) --20 B--> c(5) on gpu1; gpu1 runs b(50) meanwhile.
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a10; b50; a -20> c5"), gpus(2));
  const Explanation e =
      explained({graph, cluster, costs, {.overlap = false}}, on({gpu0, gpu1, gpu1}));
  CHECK(path_text(e) ==
        PartsAsText{"compute 0 10", "wait_device 10 40", "transfer 50 20", "compute 70 5"});
}

TEST_CASE("any step: the path has no gaps, and path, devices and what-ifs add up to the step") {
  const std::vector<EngineOptions> engines = engines_and_staged();
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const bool plain = seed % 2 == 0;  // else with lanes and collectives
    const RandomProblem random({.ops = 60, .lanes = plain ? 1U : 3U, .ranks = plain ? 0U : 2U}, 4,
                               seed);
    const Problem problem = random.under(engines[seed % engines.size()]);
    const Seen seen(problem, random.placement);
    const Explanation e = explain(problem, random.placement, seen.timeline, seen.step);
    TimePoint at{};
    for (const PathPart& part : e.critical_path) {
      CHECK(part.start == at);
      CHECK(part.end >= part.start);
      at = part.end;
    }
    CHECK(at.time_since_epoch() == seen.step.makespan);
    for (const DeviceId d : problem.cluster.devices()) {
      const DeviceIdle& device = e.devices[d];
      CHECK(device.busy == seen.step.devices[d].busy);
      CHECK(std::accumulate(device.waiting.begin(), device.waiting.end(),
                            device.busy + device.nothing_left) == seen.step.makespan);
    }
    CHECK(e.what_if.dependencies + e.what_if.devices + e.what_if.transfers == seen.step.makespan);
    CHECK(e.what_if.devices >= 0ns);
  }
}

TEST_CASE("after an OOM: the live tensors, and which ops keep them") {
  //   w (7 B of weights) -> a(10) writes 40 B for b, which writes 50 B; 90 B in all.
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a10,w7 -40> b10 -50> c10"), gpus(1, 90_B));
  const Placement placement = on({gpu0, gpu0, gpu0});
  const Seen seen(problem, placement);
  REQUIRE(seen.step.oom.has_value());
  const auto live = live_tensors(problem, placement, seen.timeline, *seen.step.oom);
  REQUIRE(live.size() == 2);
  CHECK(live[0].kind == MemoryKind::outputs);
  CHECK(live[0].op == OpId{0});
  CHECK(live[0].size == 40_B);
  CHECK(live[0].kept_by == std::vector{OpId{1}});
  CHECK(live[1].kind == MemoryKind::weights);
  CHECK(live[1].size == 7_B);
}

TEST_CASE("any OOM: the live tensors add up to the OOM report, kind by kind") {
  std::size_t failures = 0, with_instant_ops = 0;
  const std::vector<EngineOptions> engines = all_engines();
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    const RandomProblem random({.ops = 60}, 3, seed);
    const EngineOptions engine = engines[seed % engines.size()];
    const Seen free(random.under(engine), random.placement);
    const auto tight = static_cast<DeviceId>(seed % 3);
    const Bytes peak = free.step.devices[tight].peak;
    if (peak.count < 2) continue;
    const Cluster cluster = with_memory(
        random.cluster, tight, Bytes{peak.count * static_cast<std::int64_t>(1 + seed % 9) / 10});
    const Problem problem = random.under(engine, cluster);
    const Seen seen(problem, random.placement);
    if (!seen.step.oom) continue;
    const OutOfMemory& oom = *seen.step.oom;
    // Zero-time transfers at the time of the OOM are not distinguished.
    const auto instantly = [&](const auto& slice) {
      return slice.start == oom.at && slice.end == oom.at;
    };
    if (std::ranges::any_of(seen.timeline.transfers(), instantly)) continue;
    with_instant_ops += std::ranges::any_of(seen.timeline.ops(), instantly) ? 1U : 0U;
    ++failures;
    MemoryUse sum;
    for (const LiveTensor& tensor : live_tensors(problem, random.placement, seen.timeline, oom))
      sum[tensor.kind] += tensor.size;
    CHECK(sum == oom.live);
  }
  CHECK(failures > 200);
  CHECK(with_instant_ops > 10);
}

// Zero-time a and b start one after the other, each with 4 B of workspace, in the same round: a
// in lane compute, b in another lane; neither has ended when c requests memory. d ended in the
// previous round.
TEST_CASE("zero-time ops that have not ended hold their outputs and workspace") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(
      graph_of("d0 -1> a0,t4; d -1> b0,t4,l:beside; d -1> c0,t9,l:third"), gpus(1, 16_B));
  const Placement placement = on({gpu0, gpu0, gpu0, gpu0});
  const Seen seen(problem, placement);
  REQUIRE(seen.step.oom.has_value());
  CHECK(seen.step.oom->op == OpId{3});
  MemoryUse sum;
  for (const LiveTensor& t : live_tensors(problem, placement, seen.timeline, *seen.step.oom))
    sum[t.kind] += t.size;
  CHECK(sum == seen.step.oom->live);  // 3 B of outputs, 8 B of workspace
  CHECK(sum[MemoryKind::workspace] == 8_B);
}
