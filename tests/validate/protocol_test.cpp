/// The held-out plans, as they are exported for a visit.

#include "tests/prelude.h"
#include "tests/validate/virtual_clock.h"
#include "validate/export.h"

using namespace baechi::validate;

namespace {

Exported exported(const std::vector<std::string>& files, const ExportChoice& choice,
                  const TemporaryFolder& folder) {
  std::vector<std::string> paths;
  for (const std::string& file : files) paths.push_back(source_dir() + "/validate/" + file);
  Mistakes mistakes;
  const Sweep sweep = make_sweep(load_scenarios(paths, {}, mistakes), 1, mistakes);
  mistakes.throw_if_any();
  return export_plans(sweep, choice, folder.file(""));
}

/// What tells the graphs of a folder's plans apart: their ops' lengths.
std::set<std::vector<std::int64_t>> graphs_of(const TemporaryFolder& folder) {
  std::set<std::vector<std::int64_t>> graphs;
  for (const ReplayPlan& plan : read_plans(folder.file("plans"))) {
    std::vector<std::int64_t> lengths;
    for (const Task& t : plan.tasks)
      if (!t.transfer) lengths.push_back(t.length.count());
    std::ranges::sort(lengths);
    graphs.insert(std::move(lengths));
  }
  return graphs;
}

}  // namespace

TEST_SUITE_BEGIN("protocol");
TEST_CASE("held-out sets have 32 placements of each graph, and 8 MB at most") {
  const TemporaryFolder folder, rehearsal;
  const Exported set =
      exported({"protocol/short.yaml", "protocol/contended.yaml"},
               {.neighbours = 9, .at_random = 20, .least = {.distinct = 32}}, folder);
  CHECK(set.plans == 5 * 36);
  CHECK(set.bytes < 8'000'000);
  CHECK(set.steps < std::chrono::seconds(1));  // for one pass; a visit wants 60, and has 60 s
  exported({"rehearsal.yaml"}, {}, rehearsal);
  std::set<std::vector<std::int64_t>> all = graphs_of(rehearsal);
  CHECK(all.size() == 5);
  for (const auto& graph : graphs_of(folder)) CHECK(all.insert(graph).second);
  CHECK(all.size() == 5 + 5);
}

// Products have sizes in steps of 16, so that one op may be a fifth too short or too long.
TEST_CASE("ops of bodies 'timed' are as long as simulated, all in all") {
  const TemporaryFolder folder;
  const Calibration c = virtual_truth(4);
  exported({"protocol/contended.yaml"}, {.bodies = Bodies::timed, .calibration = c}, folder);
  for (const ReplayPlan& plan : read_plans(folder.file("plans"))) {
    const Timing timing = timing_of(plan, &c, Effects::bare());
    double told = 0.0, timed = 0.0;
    for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
      if (plan.tasks[i].transfer) continue;
      told += static_cast<double>(plan.tasks[i].length.count());
      timed += static_cast<double>(timing.length[i].count());
    }
    CHECK(timed == doctest::Approx(told).epsilon(0.02));
  }
}

TEST_CASE("a set is refused where a model without overheads does as well") {
  ExportChoice choice{.calibration = virtual_truth(4), .least = {.overheads = 5.0}};
  const TemporaryFolder folder;
  for (const char* file : {"protocol/short.yaml", "protocol/contended.yaml"})
    CHECK(exported({file}, choice, folder).plans > 0);
  CHECK_THROWS_AS(exported({"rehearsal.yaml"}, choice, folder), InputError);
  choice.calibration.reset();
  CHECK_THROWS_AS(exported({"protocol/short.yaml"}, choice, folder), InputError);
}

TEST_CASE("rings are plans of copies: six variants of each graph, 2 to 4 devices") {
  const TemporaryFolder folder;
  const Exported set = exported({"protocol/rings.yaml"}, {}, folder);
  CHECK(set.plans == 3 * 6);
  std::set<std::int64_t> sent;  // by all devices, in MiB
  for (const ReplayPlan& plan : read_plans(folder.file("plans"))) {
    std::int64_t bytes = 0;
    for (const Task& t : plan.tasks)
      if (t.transfer) bytes += t.bytes;
    sent.insert(bytes >> 20);
  }
  // 2 (n - 1) times the gradients of three graphs, for 2, 3 and 4 replicas.
  CHECK(sent.size() == 3 * 3);
}
