/// What of the replay harness needs no GPU.

#include <algorithm>

#include "tests/message.h"
#include "tests/temporary_folder.h"
#include "tests/validate/example_plan.h"
#include "validate/plan/benchmarks.h"

namespace {

using namespace baechi::validate;
using namespace baechi::validate::replay;
using baechi::testing::example_plan;

ReplayPlan plan_of(const std::string& text) { return parse_plan(text, "p"); }

/// `example_plan` with the first `from` replaced.
std::string with(const std::string& from, const std::string& to) {
  std::string text = example_plan;
  text.replace(text.find(from), from.size(), to);
  return text;
}

#ifdef BAECHI_REPLAY
/// Exit code, and what the program printed.
std::pair<int, std::string> run_harness(const std::string& arguments) {
  const baechi::testing::TemporaryFolder folder;
  folder.write("good.plan", example_plan);
  folder.write("bad.plan", with("gemm 512", "gemm 520"));
  const int code = baechi::testing::shell(folder, BAECHI_REPLAY " " + arguments);
  return {code, folder.read("out.txt")};
}
#endif

}  // namespace

TEST_SUITE_BEGIN("harness");
TEST_CASE("queues are numbered by device: its compute queue, then its transfer queues") {
  const ReplayPlan plan = plan_of(example_plan);
  // device 0: compute 0, transfers 1; device 1: compute 2, transfers 3
  CHECK(plan.queue_of(plan.tasks[2]) == 1);
  CHECK(plan.queue_of(plan.tasks[3]) == 2);
  CHECK(plan.num_queues() == 4);
  std::string text = with("way link", "way host");
  text.replace(text.find("2 0 1 0 65536"), 13, "2 host 1 0 65536");
  const Task copy = plan_of(text).tasks[2];
  CHECK(copy.device == Task::host);
  CHECK(copy.owner() == 1);
}

TEST_CASE("the plans of the harness's benchmarks are plans") {
  for (const Benchmark& b : benchmarks({.devices = 4, .cublas = true})) {
    CAPTURE(b.row.line());
    ReplayPlan plan = b.plan;
    CHECK(plan_of(plan_text(plan)) == plan);
  }
}

#ifdef BAECHI_REPLAY
TEST_CASE("the harness checks plans without a GPU") {
  CHECK(run_harness("--check good.plan") ==
        std::pair{0, std::string("tower/m_etf/0: 2 devices, graph, link; 3 ops, 1 transfers of "
                                 "65536 bytes, 2 buffers; 0.190 ms without gaps\n")});
  CHECK(run_harness("--check good.plan bad.plan nowhere.plan") ==
        std::pair{2, std::string("bad.plan:18:19: a gemm's size is a multiple of 16\n"
                                 "nowhere.plan: cannot be read\n")});
  CHECK(run_harness("--check good.plan good.plan").second ==
        "good.plan:2: good.plan has the same name\n");
  CHECK(run_harness("--devcies 2").first == 2);
  CHECK(run_harness("bad.plan -o run").first == 2);
}

TEST_CASE("where there is no GPU, the harness says so") {
  const auto [code, text] = run_harness("good.plan -o run --warm-up 0 --passes 1 --rounds 1");
  if (code != 77) return;  // here is one
  // Before it, "failed: process: ...", as in the folder's failed.txt.
  CHECK(baechi::testing::holds(text, "\nskipped: no usable NVIDIA GPU: "));
}
#endif

TEST_CASE("a step lasts from its first start to its last end") {
  Timeline times{{100, 120}, {}, {110, 180}};
  CHECK(span(times) == 80);
  start_at_zero(times);
  CHECK(times[0].start == 0);
  CHECK(times[2].end == 80);
  CHECK_FALSE(times[1].known());
  CHECK(span({}) == 0);
}

TEST_CASE("queues are first in, first out, with gaps") {
  const Timeline times = first_in_first_out(plan_of(example_plan), 1'000, 2'000);
  CHECK(times[0].end == 20'000);
  CHECK(times[1].start == 21'000);  // behind 0 in its queue
  CHECK(times[2].start == 22'000);  // of another queue than 0
  CHECK(times[3].start == 22'000 + 145'496 + 2'000);
  CHECK(span(times) == 22'000 + 145'496 + 2'000 + 25'000);
}

TEST_CASE("tasks that ran out of order are found, but for a tick of the clock") {
  const ReplayPlan plan = plan_of(example_plan);
  Timeline times = first_in_first_out(plan, 0, 0);
  CHECK(disorder(plan, times, 0) == "");
  times[1].start -= 10;
  CHECK(disorder(plan, times, 10) == "");
  CHECK(disorder(plan, times, 9) == "task 1 began before task 0 of its queue had ended");
  times[1].start += 10;
  times[3].start -= 1;
  CHECK(disorder(plan, times, 0) == "task 3 began before task 2, which it comes after, had ended");
  times[2] = {};  // not known, but it cannot have ended before 0, which it comes after
  CHECK(disorder(plan, times, 0) == "");
  times[3].start = times[0].end - 1;
  CHECK(disorder(plan, times, 0) == "task 3 began before task 2, which it comes after, had ended");
}

TEST_CASE("bytes are alive from a task's start to its last reader's end") {
  const ReplayPlan plan = plan_of(example_plan);
  const Timeline times = first_in_first_out(plan, 0, 0);
  // device 0: 1 MiB resident and 64 KiB from 0 on; device 1: 64 KiB from the transfer's start
  CHECK(peak_bytes(plan, times) == std::vector<std::int64_t>{1114112, 65536});
  Timeline unknown = times;
  unknown[2] = {};
  CHECK(peak_bytes(plan, unknown).empty());
}

TEST_CASE("a buffer given back at the moment another is taken makes room for it") {
  ReplayPlan plan = empty_plan("p", 1, SubmitMode::graph, Way::link);
  add_spin(plan, 0, 10);
  add_spin(plan, 0, 10);
  plan.buffers = {{.device = 0, .bytes = 5, .task = 0, .until = {0}},
                  {.device = 0, .bytes = 7, .task = 1, .until = {1}}};
  CHECK(peak_bytes(plan, first_in_first_out(plan, 0, 0)) == std::vector<std::int64_t>{7});
  plan.buffers[0].until = {1};
  CHECK(peak_bytes(plan, first_in_first_out(plan, 0, 0)) == std::vector<std::int64_t>{12});
}

TEST_CASE("quantiles interpolate, and the trimmed mean leaves a tenth out at both ends") {
  CHECK(median({3, 1, 2}) == 2.0);
  CHECK(median({4, 1, 2, 3}) == 2.5);
  CHECK(quantile({10, 20, 30}, 0.75) == 25.0);
  CHECK(trimmed_mean({100, 1, 2, 3, 4, 5, 6, 7, 8, -50}) == 4.5);  // of 1 to 8
}

TEST_CASE("a chain's gaps are its samples, but for the first two") {
  const auto all = benchmarks({.devices = 2});
  const auto chain = std::ranges::find(all, std::string("gap_cross"),
                                       [](const Benchmark& b) { return b.row.what; });
  REQUIRE(chain != all.end());
  const auto gaps = chain->samples(first_in_first_out(chain->plan, 1, 1'500), 0, 0);
  CHECK(gaps == std::vector<double>(98, 1'500.0));
}

TEST_CASE("every benchmark has samples where queues are first in, first out") {
  for (Benchmark b : benchmarks({.devices = 3, .cublas = true})) {
    CAPTURE(b.row.line());
    for (Task& task : b.plan.tasks)
      if (task.length == Nanoseconds{})
        task.length = Nanoseconds{100'000};  // ops and copies whose length nobody foretells
    CHECK_FALSE(b.samples(first_in_first_out(b.plan, 0, 0), 10, 1000).empty());
  }
}

TEST_CASE("a sample beside neighbours counts only while all of them run") {
  const auto all = benchmarks({.devices = 3});
  const auto beside = std::ranges::find_if(
      all, [](const Benchmark& b) { return b.row.what == "interference" && b.row.count == 2; });
  REQUIRE(beside != all.end());
  ReplayPlan plan = beside->plan;
  // 24 neighbours of 10 us end at 240 us; the head start is 200 us, the subjects follow: two of
  // 20 us end by then, two do not.
  for (Task& task : plan.tasks) task.length = Nanoseconds{task.device == 0 ? 20'000 : 10'000};
  plan.tasks[static_cast<std::size_t>(beside->subjects.front() - 1)].length = Nanoseconds{200'000};
  CHECK(beside->samples(first_in_first_out(plan, 0, 0), 0, 0) ==
        std::vector<double>{20'000.0, 20'000.0});
}
