/// What of the replay harness needs no GPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tests/validate/example_plan.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"
#include "validate/cuda/benchmarks.h"
#include "validate/cuda/plan.h"
#include "validate/cuda/statistics.h"
#include "validate/cuda/timeline.h"
#include "validate/replay_plan.h"

namespace {

using namespace replay;
using baechi::testing::example_plan;

Plan plan_of(const std::string& text) {
  std::istringstream in(text);
  return read_plan(in, "p");
}

/// `example_plan` with the first `from` replaced.
std::string with(const std::string& from, const std::string& to) {
  std::string text = example_plan;
  text.replace(text.find(from), from.size(), to);
  return text;
}

std::string mistakes_of(const std::string& text) {
  return baechi::testing::message<BadInput>([&] { plan_of(text); });
}

/// A plan of the harness as one of the simulator.
baechi::ReplayPlan simulators(const Plan& plan) {
  baechi::ReplayPlan other;
  other.name = plan.name;
  other.devices = plan.devices;
  other.queues = plan.queues;
  other.mode = static_cast<baechi::SubmitMode>(plan.mode);
  other.way = static_cast<baechi::Way>(plan.way);
  for (const std::int64_t bytes : plan.budget) other.budget.push_back({bytes});
  for (const std::int64_t bytes : plan.resident) other.resident.push_back({bytes});
  for (const Task& task : plan.tasks) {
    other.tasks.push_back({.transfer = task.transfer,
                           .device = task.transfer ? task.from : task.device,
                           .to = task.to,
                           .queue = std::max(0, task.queue),
                           .bytes = {task.bytes},
                           .length = baechi::Duration{task.ns},
                           .body = {.kind = static_cast<baechi::BodyKind>(task.body.kind),
                                    .args = {task.body.a, task.body.b, task.body.c}},
                           .after = task.after});
  }
  return other;
}

#ifdef BAECHI_REPLAY
/// Exit code, and what the program printed.
std::pair<int, std::string> run_harness(const std::string& arguments) {
  const baechi::testing::TemporaryFolder folder;
  folder.write("good.plan", example_plan);
  folder.write("bad.plan", with("gemm 512", "gemm 520"));
  const std::string command =
      "cd '" + folder.file("") + "' && " BAECHI_REPLAY " " + arguments + " >out.txt 2>&1";
  const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), folder.read("out.txt")};
}
#endif

}  // namespace

TEST_SUITE("harness") {
  TEST_CASE("the harness reads a plan as it is written down") {
    const Plan plan = plan_of(example_plan);
    CHECK(plan.name == "tower/m_etf/0");
    CHECK(plan.devices == 2);
    CHECK(plan.mode == Mode::graph);
    CHECK(plan.way == Way::link);
    CHECK(plan.resident == std::vector<std::int64_t>{1048576, 0});
    REQUIRE(plan.tasks.size() == 4);
    CHECK(plan.tasks[1].after == std::vector<int>{0});
    CHECK(plan.tasks[2].transfer);
    CHECK(plan.tasks[2].to == 1);
    CHECK(plan.tasks[2].bytes == 65536);
    CHECK(plan.tasks[3].body.kind == Body::Kind::gemm);
    CHECK(args_of(plan.tasks[3].body) == "512");
    REQUIRE(plan.buffers.size() == 2);
    CHECK(plan.buffers[0].until == std::vector<int>{1, 2});
    // device 0: compute 0, transfers 1; device 1: compute 2, transfers 3
    CHECK(plan.queue_of(plan.tasks[2]) == 1);
    CHECK(plan.queue_of(plan.tasks[3]) == 2);
    CHECK(plan_of("# a comment\n" + with("op 0", "\n#\nop 0")).tasks.size() == 4);
  }

  TEST_CASE("a transfer of way host is in the queue of its device") {
    const std::string text = with("way link", "way host");
    CHECK(mistakes_of(text) ==
          "p:16:14: one end of a transfer of way host is 'host', the other a device");
    std::string good = text;
    good.replace(good.find("2 0 1 0 65536"), 13, "2 host 1 0 65536");
    const Task copy = plan_of(good).tasks[2];
    CHECK(copy.from == host);
    CHECK(copy.device == 1);
  }

  TEST_CASE("a bad plan is refused with line and column") {
    const std::pair<std::string, std::string> cases[]{
        {"", "p:0:1: the file ends without its 'end' line"},
        {with("plan 1", "plan 2"), "p:1:13: this plan's version is not known; version 1 is"},
        {with("name tower/m_etf/0", "name a,b"),
         "p:2:6: 'a,b' is no name: up to 200 letters, digits and _.:/@=+-"},
        {with("9f86", "9F86"), "p:3:6: '9F86d081884c7d65' is no hash: 16 digits of 0-9 and a-f"},
        {with("devices 2", "devices 65"), "p:4:9: '65' is no number of devices: a number, 1 to 64"},
        {with("mode graph", "mode grph"),
         "p:6:6: 'grph' is no mode; there are: graph stream eager"},
        {with("budget 1", "budget 0"), "p:10:8: device 1 is next"},
        {with("resident 1 0\n", ""), "p:12:1: 'resident' should stand where 'op' does"},
        {with("op 1 0", "op 2 0"), "p:15:4: task 1 is next"},
        {with("op 1 0", "op 1 2"), "p:15:6: '2' is no device: a number, 0 to 1"},
        {with("30000 spin", "30001 spin"), "p:15:19: a spin's two times differ"},
        {with("spin 30000 after 0", "spin 30000 after"),
         "p:15:30: the line ends where earlier task should stand"},
        {with("spin 30000 after 0", "spin 30000 after 1"),
         "p:15:31: '1' is no earlier task: a number, 0 to 0"},
        {with("gemm 512 after 2", "gemm 512 after 2 2"),
         "p:18:31: the tasks behind 'after' ascend, each once"},
        {with("gemm 512", "gemm 520"), "p:18:19: gemm's size is a multiple of 16"},
        {with("gemm 512", "gem 512"), "p:18:14: 'gem' is no body; there are: spin gemm ew cublas"},
        {with("2 0 1 0", "2 0 0 0"), "p:16:14: a transfer has two different ends"},
        {with("2 0 1 0", "2 0 1 1"), "p:16:16: '1' is no queue: a number, 0 to 0"},
        {with("2 0 1 0 65536", "2 0 1 0 -1"), "p:16:18: '-1' is no bytes: a number, 0 to 2^50"},
        {with("65536 2 until 3", "65536 3 until 3"),
         "p:17:18: '3' is no task above: a number, 0 to 2"},
        {with("65536 2 until 3", "65536 2 until 1"),
         "p:17:26: the buffer would be given back before it is taken"},
        {with("65536 2 until 3", "65536 2 until 9"), "p:17:1: there is no task 9"},
        {with("end 4 2", "end 5 2"), "p:19:5: there are 4 tasks"},
        {with("end 4 2", "end 4 2 0"), "p:19:9: '0' is one field too many"},
        {with("end 4 2\n", ""), "p:18:1: the file ends without its 'end' line"},
        {std::string(example_plan) + "op 4 0 0 spin 0\n",
         "p:20:1: nothing but comments may follow 'end'"},
    };
    for (const auto& [text, message] : cases) CHECK(mistakes_of(text) == message);
  }

  TEST_CASE("all mistakes of a plan are told at once") {
    std::string text = with("gemm 512", "gemm 520");
    text.replace(text.find("2 0 1 0"), 7, "2 0 0 0");
    CHECK(mistakes_of(text) ==
          "p:16:14: a transfer has two different ends\np:18:19: gemm's size is a multiple of 16");
  }

  TEST_CASE("harness and simulator read the same plans") {
    CHECK(baechi::plan_text(baechi::parse_plan(example_plan, "p")) == example_plan);
    for (const bool peer : {false, true}) {
      for (const Benchmark& b : benchmarks({.devices = 4, .cublas = true, .peer = peer})) {
        CAPTURE(b.row.line());
        const Plan plan = plan_of(baechi::plan_text(simulators(b.plan)));
        REQUIRE(plan.tasks.size() == b.plan.tasks.size());
        for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
          CHECK(plan.queue_of(plan.tasks[i]) == b.plan.queue_of(b.plan.tasks[i]));
          CHECK(plan.tasks[i].after == b.plan.tasks[i].after);
        }
      }
    }
  }

#ifdef BAECHI_REPLAY
  TEST_CASE("the harness checks plans without a GPU") {
    CHECK(
        run_harness("--check good.plan") ==
        std::pair{0, std::string("tower/m_etf/0: 2 devices, graph, link, memory none; 3 ops, 1 "
                                 "transfers of 65536 bytes, 2 buffers; 0.190 ms without gaps\n")});
    CHECK(run_harness("--check good.plan bad.plan nowhere.plan") ==
          std::pair{2, std::string("bad.plan:18:19: gemm's size is a multiple of 16\n"
                                   "nowhere.plan: cannot be read\n")});
    CHECK(run_harness("--check good.plan good.plan").second ==
          "good.plan:2: good.plan has the same name\n");
    CHECK(run_harness("--devcies 2").first == 2);
    CHECK(run_harness("bad.plan -o run").first == 2);
  }

  TEST_CASE("where there is no GPU, the harness says so") {
    const auto [code, text] = run_harness("good.plan -o run --warm-up 0 --passes 1 --rounds 1");
    if (code != 77) return;  // here is one
    CHECK(text.starts_with("skipped: no usable NVIDIA GPU: "));
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
    const Plan plan = plan_of(example_plan);
    Timeline times = first_in_first_out(plan, 0, 0);
    CHECK(disorder(plan, times, 0) == "");
    times[1].start -= 10;
    CHECK(disorder(plan, times, 10) == "");
    CHECK(disorder(plan, times, 9) == "task 1 began before task 0 of its queue had ended");
    times[1].start += 10;
    times[3].start -= 1;
    CHECK(disorder(plan, times, 0) ==
          "task 3 began before task 2, which it comes after, had ended");
    times[2] = {};  // not known, but it cannot have ended before 0, which it comes after
    CHECK(disorder(plan, times, 0) == "");
    times[3].start = times[0].end - 1;
    CHECK(disorder(plan, times, 0) ==
          "task 3 began before task 2, which it comes after, had ended");
  }

  TEST_CASE("bytes are alive from a task's start to its last reader's end") {
    const Plan plan = plan_of(example_plan);
    const Timeline times = first_in_first_out(plan, 0, 0);
    // device 0: 1 MiB resident and 64 KiB from 0 on; device 1: 64 KiB from the transfer's start
    CHECK(peak_bytes(plan, times) == std::vector<std::int64_t>{1114112, 65536});
    Timeline unknown = times;
    unknown[2] = {};
    CHECK(peak_bytes(plan, unknown).empty());
  }

  TEST_CASE("a buffer given back at the moment another is taken makes room for it") {
    Plan plan = empty_plan("p", 1, Mode::graph, Way::link);
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
        if (task.ns == 0) task.ns = 100'000;  // ops and copies whose length nobody foretells
      CHECK_FALSE(b.samples(first_in_first_out(b.plan, 0, 0), 10, 1000).empty());
    }
  }

  TEST_CASE("a sample beside neighbours counts only while all of them run") {
    const auto all = benchmarks({.devices = 3});
    const auto beside = std::ranges::find_if(
        all, [](const Benchmark& b) { return b.row.what == "interference" && b.row.count == 2; });
    REQUIRE(beside != all.end());
    Plan plan = beside->plan;
    // 24 neighbours of 10 us end at 240 us; the head start is 200 us, the subjects follow: two of
    // 20 us end by then, two do not.
    for (Task& task : plan.tasks) task.ns = task.device == 0 ? 20'000 : 10'000;
    plan.tasks[static_cast<std::size_t>(beside->subjects.front() - 1)].ns = 200'000;
    CHECK(beside->samples(first_in_first_out(plan, 0, 0), 0, 0) ==
          std::vector<double>{20'000.0, 20'000.0});
  }
}
