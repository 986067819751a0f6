/// A whole visit to a GPU (validate/cuda/visit.sh) with the harness that stands on tests/standin.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "scenarios/read/load.h"
#include "sim/error.h"
#include "tests/temporary_folder.h"
#include "tests/this_build.h"
#include "tests/thorough.h"
#include "validate/calibrate.h"
#include "validate/export.h"
#include "validate/plan/benchmarks.h"
#include "validate/score.h"
#include "validate/validation_run.h"

using namespace baechi;
using namespace baechi::validate;
using namespace baechi::testing;

namespace {

namespace fs = std::filesystem;

/// Ops of 50 us that go round three devices, a transfer between any two.
ReplayPlan round_plan(const std::string& name, std::int64_t link_ns) {
  ReplayPlan plan = replay::empty_plan(name, 3, SubmitMode::graph, Way::link);
  int last = replay::add_spin(plan, 0, 50'000);
  for (int i = 1; i < 12; ++i) {
    const int sent = replay::add_transfer(plan, (i - 1) % 3, i % 3, 64 << 10, link_ns, {last});
    last = replay::add_spin(plan, i % 3, 50'000, {sent});
  }
  return plan;
}

/// Sets of two plans each.
void write_sets(const TemporaryFolder& folder, std::initializer_list<const char*> sets) {
  for (const char* set : sets) {
    const std::string plans = std::string("runs/") + set + "/plans";
    fs::create_directories(folder.file(plans));
    folder.write(plans + "/0.plan", plan_text(round_plan(std::string("g/") + set, 90'000)));
    folder.write(plans + "/1.plan", plan_text(round_plan(std::string("h/") + set, 70'000)));
  }
}

/// runs/NAME: the plans of files of validate/protocol.
void write_set(const TemporaryFolder& folder, const std::string& name,
               const std::vector<std::string>& files, const ExportChoice& choice) {
  std::vector<std::string> paths;
  for (const std::string& file : files)
    paths.push_back(source_dir() + "/validate/protocol/" + file + ".yaml");
  Mistakes mistakes;
  const Sweep sweep = make_sweep(load_scenarios(paths, {}, mistakes), 1, mistakes);
  mistakes.throw_if_any();
  export_plans(sweep, choice, folder.file("runs/" + name));
}

int shell(const TemporaryFolder& folder, const std::string& command) {
  const std::string whole = "cd '" + folder.file("") + "' && " + command + " >said.txt 2>&1";
  const int status = std::system(whole.c_str());  // NOLINT(concurrency-mt-unsafe)
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int visit(const TemporaryFolder& folder, const std::string& arguments,
          const std::string& environment = "") {
  return shell(folder, "env HARNESS=" BAECHI_REPLAY_STANDIN " " + environment + " bash " +
                           source_dir() + "/validate/cuda/visit.sh " + arguments);
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files.insert(entry.path().filename().string());
  return files;
}

}  // namespace

TEST_SUITE("visit") {
  TEST_CASE("protocol brings a control and every set home, and the report finds no error in them") {
    const TemporaryFolder folder;
    write_sets(folder, {"other", "spin"});
    CHECK(visit(folder, "protocol out runs") == 0);
    CAPTURE(folder.read("said.txt"));
    CHECK(names_in(folder.file("out")) == std::set<std::string>{"clocks.csv", "control.tgz",
                                                                "facts.txt", "log.txt", "other.tgz",
                                                                "spin.tgz"});
    REQUIRE(shell(folder,
                  "tar -xzf out/control.tgz && tar -xzf out/spin.tgz && "
                  "cp -r runs/spin/plans spin/ && cp control/measurements.csv spin/") == 0);
    CHECK(fs::exists(folder.file("control/settle/settled.txt")));
    const ValidationRun run = read_run(folder.file("spin"));
    const Validation v =
        compare(run, calibrate(*run.machine, run.measurements, "measurements.csv"));
    REQUIRE(v.plans.size() == 2);
    CHECK(std::abs(v.plans[0].error()) < 1e-3);
    CHECK(v.plans[0].replays == 60);  // 30 in each of two rounds
  }

  TEST_CASE("the protocol's sets, predicted from a visit's benchmarks, come home from the next") {
    const TemporaryFolder folder;
    fs::create_directories(folder.file("none"));
    CHECK(visit(folder, "look look none") <= 1);  // cuBLAS is not on every machine
    REQUIRE(shell(folder, "tar -xzf look/measure.tgz") == 0);
    ValidationRun measured = read_run(folder.file("measure"));
    const Calibration c = calibrate(*measured.machine, measured.measurements, "measurements.csv");

    // As validate/README.md has it; a part of the placements where time is short.
    const std::size_t others = thorough() ? 20 : 1;
    const ExportChoice spin{.calibration = c, .neighbours = 9, .at_random = others};
    const ExportChoice timed{
        .bodies = Bodies::timed, .calibration = c, .neighbours = 9, .at_random = others};
    write_set(folder, "spin", {"layers", "pipelines", "towers"}, spin);
    write_set(folder, "timed", {"layers", "pipelines", "towers"}, timed);
    write_set(folder, "host", {"host"}, timed);
    CHECK(visit(folder, "protocol out runs") == 0);
    CAPTURE(folder.read("said.txt"));
    CHECK(names_in(folder.file("out")).size() <= 8);

    for (const std::string set : {"spin", "timed", "host"}) {
      CAPTURE(set);
      REQUIRE(shell(folder,
                    "tar -xzf out/" + set + ".tgz && cp -r runs/" + set + "/plans " + set) == 0);
      const Validation v = compare(read_run(folder.file(set)), c);
      CHECK(v.failed + v.not_replayed == 0);
      CHECK(v.frozen_equal == v.plans.size());
      REQUIRE_FALSE(v.layers.empty());
      // Through the host the stand-in serves whoever asks first, which is not always as predicted.
      for (const auto& [layer, of_layer] : v.layers)
        CHECK(of_layer.median < (set == "host" ? 0.005 : 0.001));
    }
  }

  TEST_CASE("look replays rehearsal plans alone, and at most 8 files come back") {
    const TemporaryFolder folder;
    write_sets(folder, {"rehearsal_spin", "rehearsal_work", "held_out"});
    CHECK(visit(folder, "look out runs") <= 1);  // cuBLAS is not on every machine
    CAPTURE(folder.read("said.txt"));
    const std::set<std::string> files = names_in(folder.file("out"));
    CHECK(files.size() <= 8);
    for (const char* file :
         {"settle.tgz", "measure.tgz", "rehearsal_spin.tgz", "rehearsal_work.tgz"})
      CHECK(files.contains(file));
    CHECK_FALSE(files.contains("held_out.tgz"));
  }

  TEST_CASE("what a GPU cannot do is done otherwise") {
    const TemporaryFolder folder;
    write_sets(folder, {"spin"});
    CHECK(visit(folder, "protocol no_green runs", "STANDIN_NO_GREEN=1") == 0);
    CHECK(says(folder, "no_green/log.txt", "with --no-partitions"));
    CHECK(says(folder, "no_green/log.txt", "2 plans, 120 replays, 0 failed"));
    CHECK(visit(folder, "protocol no_capture runs", "STANDIN_NO_CAPTURE=1") == 1);
    CHECK(says(folder, "no_capture/log.txt", "with --mode stream"));
    CHECK(says(folder, "no_capture/log.txt", "control: exit code 1"));  // its graphs fail
    REQUIRE(shell(folder,
                  "tar -xzOf no_capture/spin.tgz spin/steps.csv | grep -c g/spin,.*stream") == 0);
    CHECK(folder.read("said.txt") == "60\n");
  }

  TEST_CASE("a question that ends its process has no good answer") {
    const TemporaryFolder folder;
    write_sets(folder, {"spin"});
    // Questions 0, 1 and 11 launch no graph.
    CHECK(visit(folder, "protocol out runs", "STANDIN_FAULT=cudaGraphLaunch:1:kill") == 1);
    CHECK_FALSE(says(folder, "out/log.txt", "with --no-partitions"));
    CHECK(says(folder, "out/log.txt", "with --mode stream"));
    CHECK(says(folder, "out/log.txt", "ok  11 events"));
  }

  TEST_CASE("whether there is a GPU is asked of the harness alone") {
    const TemporaryFolder folder;
    fs::create_directories(folder.file("other/validate/cuda"));
    fs::create_directories(folder.file("other/build/release"));
    fs::copy(source_dir() + "/validate/cuda/visit.sh", folder.file("other/validate/cuda/visit.sh"));
    const std::string harness = folder.file("other/build/release/baechi_replay");
    fs::copy(BAECHI_REPLAY_STANDIN, harness);
    fs::permissions(harness, fs::perms::owner_read | fs::perms::owner_write);
    const std::string carried = "env -u HARNESS bash other/validate/cuda/visit.sh look ";
    CHECK(shell(folder, carried + "out") <= 1);  // cuBLAS is not on every machine
    CHECK(says(folder, "out/log.txt", "335 benchmarks"));
    CHECK(shell(folder, "STANDIN_FAULT=cudaGetDeviceCount:0:35 " + carried + "none") == 77);
    CHECK(says(folder, "none/log.txt", "no GPU here that a harness could use"));
  }

  TEST_CASE("sets share the time that is left") {
    const TemporaryFolder folder;
    write_sets(folder, {"a", "b", "c"});
    // 100 s less a few: (100 - 40) / 3 - 5, then / 2, then / 1: none of it is kept for sets that
    // are done.
    CHECK(visit(folder, "protocol out runs", "VISIT_SECONDS=100") == 0);
    const std::string log = folder.read("out/log.txt");
    std::vector<int> seconds;
    for (const char* set : {"a", "b", "c"}) {
      const std::string begins = std::string("] ") + set + ": at most ";
      const std::size_t at = log.find(begins);
      REQUIRE(at != std::string::npos);
      seconds.push_back(std::stoi(log.substr(at + begins.size())));
    }
    CHECK(seconds[0] <= 45);
    CHECK(seconds[1] > seconds[0]);
    CHECK(seconds[2] > seconds[1]);
  }

  TEST_CASE("a GPU lost in one phase costs what ran, and the exit code says so") {
    const TemporaryFolder folder;
    write_sets(folder, {"spin"});
    CHECK(visit(folder, "protocol out runs", "STANDIN_FAULT=cudaGraphLaunch:60:700:sticky") == 1);
    for (const char* file : {"control.tgz", "spin.tgz"})
      CHECK(names_in(folder.file("out")).contains(file));
    CHECK(says(folder, "out/log.txt", "control: exit code 3"));
  }

  TEST_CASE("no time is left for a set: the others are home, and the exit code says so") {
    const TemporaryFolder folder;
    write_sets(folder, {"spin"});
    CHECK(visit(folder, "protocol out runs", "VISIT_SECONDS=36") == 1);
    CHECK(says(folder, "out/log.txt", "spin: no time left"));
    CHECK(names_in(folder.file("out")).contains("control.tgz"));
    CHECK_FALSE(names_in(folder.file("out")).contains("spin.tgz"));
  }

  TEST_CASE("wrong arguments are refused before anything runs") {
    const TemporaryFolder folder;
    write_sets(folder, {"a", "b", "c", "d", "e"});
    CHECK(visit(folder, "protocol out runs") == 2);
    CHECK(says(folder, "said.txt", "holds 5 sets of plans; a visit takes 1 to 4"));
    CHECK(visit(folder, "protocol out") == 2);
    CHECK(visit(folder, "protocol runs runs") == 2);  // not empty
    CHECK(visit(folder, "visit out") == 2);
  }
}
