#include "sim/report/timeline.h"
#include "tests/expected_messages.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"
#include "tests/validate/example_plan.h"
#include "validate/export.h"
#include "validate/run_files.h"

using namespace baechi::validate;

namespace {

Replay without_effects(const ReplayPlan& plan) {
  return predict(plan, timing_of(plan, nullptr, {}));
}

/// The engine's slices by (device or queue's order): ops by id, transfers by (tensor, dst, start).
struct Schedule {
  std::vector<std::pair<Duration, Duration>> ops;        // sorted
  std::vector<std::pair<Duration, Duration>> transfers;  // sorted; staged: start of the first half,
                                                         // end of the second
};

Schedule of_engine(const Problem& problem, const Placement& placement) {
  baechi::Timeline timeline;
  StepObserver* const observer = &timeline;
  simulate(problem, placement, {&observer, 1});
  Schedule s;
  for (const auto& o : timeline.ops())
    s.ops.emplace_back(o.start.time_since_epoch(), o.end.time_since_epoch());
  for (const auto& t : timeline.transfers())
    s.transfers.emplace_back(t.start.time_since_epoch(), t.end.time_since_epoch());
  std::ranges::sort(s.ops);
  std::ranges::sort(s.transfers);
  return s;
}

Schedule of_replay(const ReplayPlan& plan, const Replay& replay) {
  Schedule s;
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const Task& t = plan.tasks[i];
    const auto when = std::pair(replay.start[i], replay.end[i]);
    if (!t.transfer)
      s.ops.push_back(when);
    else if (t.device == Task::host)
      s.transfers.emplace_back(replay.start[static_cast<std::size_t>(*std::ranges::find_if(
                                   t.after,
                                   [&](int before) {
                                     const Task& b = plan.tasks[static_cast<std::size_t>(before)];
                                     return b.transfer && b.to == Task::host;
                                   }))],
                               when.second);
    else if (t.to != Task::host)
      s.transfers.push_back(when);
  }
  std::ranges::sort(s.ops);
  std::ranges::sort(s.transfers);
  return s;
}

}  // namespace

TEST_SUITE_BEGIN("validate");
TEST_CASE("the documented plan is read, and written as it was") {
  const ReplayPlan plan = parse_plan(example_plan, "example.plan");
  REQUIRE(plan.tasks.size() == 4);
  CHECK(plan.tasks[3].body == Body{.kind = BodyKind::gemm, .args = {512}});
  CHECK(plan.tasks[2].after == std::vector{0});
  CHECK(plan.buffers[0].until == std::vector{1, 2});
  CHECK(plan_text(plan) == example_plan);
  CHECK(plan_text(parse_plan("# a comment\n" + std::string(example_plan) + "\n", "x")) ==
        example_plan);
}

TEST_CASE("the documented plan's prediction is as documented") {
  const ReplayPlan plan = parse_plan(example_plan, "example.plan");
  const Replay replay = without_effects(plan);
  // 0 ends at 20 us; 1 and 2 follow at once; 2 takes 145.496 us, then 3 its 25.
  CHECK(replay.start == std::vector<Duration>{0us, 20us, 20us, 165496ns});
  CHECK(replay.end == std::vector<Duration>{20us, 50us, 165496ns, 190496ns});
  // Device 0: its weights and buffer 0; device 1: the copy.
  CHECK(peaks(plan, replay) == std::vector{Bytes{1048576 + 65536}, 65536_B});
}

TEST_CASE("broken plans are refused with lines and columns, several mistakes at once") {
  const std::filesystem::path folder = source_dir() + "/tests/bad/plans";
  const auto expected = expected_messages(folder / "expected.txt");
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == "expected.txt") continue;
    CAPTURE(name);
    ++files;
    const std::string said = message<InputError>([&] { read_plan(entry.path().string()); });
    REQUIRE(expected.contains(name));
    CHECK(without(said, folder.string() + "/") == expected.at(name));
  }
  CHECK(files == expected.size());
}

TEST_CASE("a plan without overheads is the engine's own schedule, to the nanosecond and byte") {
  std::size_t checked = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const auto three = static_cast<std::uint32_t>(seed % 3);
    const RandomProblem p({.ops = 30, .reach = 12}, 2 + three, seed);
    for (const EngineOptions& engine : all_engines()) {
      if (!engine.overlap) continue;
      INFO(seed, " ", static_cast<int>(engine.transfers));
      const Problem problem = p.under(engine);
      try {
        const ReplayPlan plan = plan_of_step(problem, p.placement, "random", {});
        const Replay replay = without_effects(plan);
        const Schedule ours = of_replay(plan, replay), engines = of_engine(problem, p.placement);
        // The engine starts at 0, and a replay with its first task: some engine steps have work of
        // no length first, none starts late.
        REQUIRE(ours.ops == engines.ops);
        REQUIRE(ours.transfers == engines.transfers);
        REQUIRE(plan_text(parse_plan(plan_text(plan), "again")) == plan_text(plan));
        ++checked;
      } catch (const InputError& e) {
        CHECK(holds(std::string(e.what()), "transfers at once"));
        ++refused;
      }
    }
  }
  CHECK(checked > 2000);
  CHECK(refused < checked / 5);
}

//   a(10) --100 B--> b(20), c(30)     b and c on the other device
TEST_CASE("a tensor sent through the host is two transfers, and memory is the engine's") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(one_tensor_two_readers(), gpus(2), {.transfers = Transfers::staged});
  const Placement split = on({gpu0, gpu1, gpu1});
  const ReplayPlan plan = plan_of_step(problem, split, "staged", {});
  CHECK(plan.way == Way::host);
  CHECK(holds(plan_text(plan), "transfer 1 0 host 0 100 50 after 0\n"));
  CHECK(holds(plan_text(plan), "transfer 2 host 1 1 100 50 after 1\n"));
  const Replay replay = without_effects(plan);
  CHECK(replay.step() == 160ns);  // 10 + 50 + 50 + 20 + 30
  CHECK(of_replay(plan, replay).transfers == of_engine(problem, split).transfers);
  const StepResult step = simulate(problem, split);
  CHECK(peaks(plan, replay) == std::vector{step.devices[gpu0].peak, step.devices[gpu1].peak});
}

TEST_CASE("predicted peaks are the engine's where no work is of no length") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    OpGraphBuilder b;
    std::vector<TensorId> made;
    for (int i = 0; i < 25; ++i) {
      const OpId v = b.add_op({.name = "op" + std::to_string(i),
                               .compute = Duration{1 + random.below(50)},
                               .persistent = {random.below(100)},
                               .temporary = {random.below(100)}});
      for (int k = 0; k < 2 && !made.empty(); ++k)
        b.add_edge(made[random.below(static_cast<std::uint32_t>(made.size()))], v);
      made.push_back(b.add_tensor(v, {1 + random.below(200)}));
    }
    const OpGraph graph = std::move(b).build();
    const Cluster cluster = gpus(3);
    const ProfiledCosts costs(graph, cluster);
    const Placement placement = random_placement(graph, cluster, random);
    for (const Transfers transfers :
         {Transfers::sequential, Transfers::duplex, Transfers::staged}) {
      const Problem problem{graph, cluster, costs, {.transfers = transfers}};
      const ReplayPlan plan = plan_of_step(problem, placement, "random", {});
      const StepResult step = simulate(problem, placement);
      const std::vector<Bytes> ours = peaks(plan, without_effects(plan));
      for (const DeviceId d : cluster.devices()) CHECK(ours[index(d)] == step.devices[d].peak);
    }
  }
}

TEST_CASE("what a plan cannot say is refused") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(one_tensor_two_readers(), gpus(2));
  const Placement split = on({gpu0, gpu1, gpu1});
  CHECK_THROWS_AS(plan_of_step({graph, cluster, costs, {.overlap = false}}, split, "x", {}),
                  InputError);
  CHECK_THROWS_AS(
      plan_of_step({graph, cluster, costs, {.semantics = Semantics::baechi}}, split, "x", {}),
      InputError);
  const Problem& summed =
      OwnedProblem(graph_of("a0,x:all_reduce/8/2; b0,x:all_reduce/8/2"), cluster).problem;
  CHECK_REFUSED(
      plan_of_step(summed, on({gpu0, gpu1}), "x", {}),
      "a plan has no collectives, and the step has: transform as_sends makes copies of them");
}

TEST_CASE("a step with ops in several lanes is refused") {
  const Problem& problem = OwnedProblem(graph_of("a0; b0,l:copy"), gpus(1)).problem;
  CHECK_REFUSED(
      plan_of_step(problem, on({gpu0, gpu0}), "x", {}),
      "a plan has one compute queue per device, and the step has ops in the lanes compute, copy");
}
