/// The whole replay harness, on a stand-in for CUDA in virtual time (tests/standin).

#include <csignal>
#include <tuple>

#include "tests/prelude.h"
#include "tests/validate/virtual_clock.h"
#include "validate/calibrate.h"
#include "validate/score.h"

using namespace baechi::validate;

namespace {

/// Random spins and links over three devices, or real ops.
ReplayPlan plan_of(const std::string& name, SubmitMode mode, Way way, BodyKind kind) {
  ReplayPlan plan = replay::empty_plan(name, 3, mode, way);
  plan.queues = way == Way::host ? 2 : 1;
  std::vector<int> ops;
  for (int i = 0; i < 24; ++i) {
    const int device = (i * i + i / 3) % 3;
    std::vector<int> after;
    if (i > 2) {
      const int before = ops[static_cast<std::size_t>(i - 1 - i % 3)];
      const int from = plan.tasks[static_cast<std::size_t>(before)].owner();
      if (from == device) {
        after = {before};
      } else if (way == Way::link) {
        after = {replay::add_transfer(plan, from, device, 64 << 10, 90'000, {before})};
      } else {
        const int out = replay::add_transfer(plan, from, Task::host, 1 << 20, 0, {before});
        after = {replay::add_transfer(plan, Task::host, device, 1 << 20, 0, {out})};
        plan.tasks.back().queue = 1;
      }
    }
    const std::int64_t size = kind == BodyKind::spin ? 40'000 + 1000 * i
                              : kind == BodyKind::ew ? (1 + i) << 20
                                                     : 256;
    ops.push_back(replay::add_op(plan, device, {.kind = kind, .args = {size}}, after));
  }
  return plan;
}

/// Plans in the folder's plans/, of all modes and ways that one GPU has.
void write_plans(const TemporaryFolder& folder) {
  std::filesystem::create_directories(folder.file("run/plans"));
  int number = 0;
  const auto write = [&](const ReplayPlan& plan) {
    folder.write("run/plans/" + std::to_string(number++) + ".plan", plan_text(plan));
  };
  for (const SubmitMode mode : {SubmitMode::graph, SubmitMode::stream})
    for (const BodyKind kind : {BodyKind::spin, BodyKind::ew, BodyKind::gemm})
      write(plan_of("p/" + std::to_string(number), mode, Way::link, kind));
}

/// Exit code, or 128 plus the signal, of the harness in the folder.
int run_harness(const TemporaryFolder& folder, const std::string& arguments,
                const std::string& environment = "") {
  return shell(folder, "env " + environment + " " BAECHI_REPLAY_STANDIN " " + arguments);
}

constexpr const char* replay_them = "run/plans/*.plan --passes 2 --rounds 2 --warm-up 1 -o run";
constexpr const char* measure_it = "--measure --devices 3 --passes 2 -o run";
constexpr const char* settle_it = "--settle --devices 3 -o run";
constexpr const char* with_cublas = "LD_LIBRARY_PATH=" BAECHI_STANDIN_CUBLAS;

std::size_t files_in(const std::string& folder) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file() && entry.file_size() > 0) ++files;
  return files;
}

}  // namespace

TEST_SUITE_BEGIN("standin");
TEST_CASE("measured, calibrated and replayed, the made-up GPU leaves no error") {
  const TemporaryFolder folder;
  write_plans(folder);
  REQUIRE(run_harness(folder, measure_it) == 0);
  REQUIRE(run_harness(folder, replay_them) == 0);
  const ValidationRun run = read_run(folder.file("run"));
  const Calibration c = calibrate(*run.machine, run.measurements, "measurements.csv");
  const Calibration truth = virtual_truth(3);
  for (const Calibration::Mode& mode : truth.modes) {
    CAPTURE(mode.mode);
    CHECK(c.find_mode(mode.mode)->same_ns.value == doctest::Approx(mode.same_ns.value));
    CHECK(c.find_mode(mode.mode)->cross_ns.value == doctest::Approx(mode.cross_ns.value));
  }
  for (const Calibration::Transfer& way : truth.transfers) {
    INFO(way.mode, " ", way.way, " ", way.direction);
    const Calibration::Transfer* found = c.find_transfer(way.mode, way.way, way.direction);
    CHECK(found->latency_ns.value == doctest::Approx(way.latency_ns.value).epsilon(0.01));
    CHECK(found->time(1e8) == doctest::Approx(way.time(1e8)).epsilon(1e-3));
  }
  for (const Calibration::OpTime& op : truth.ops) {
    CAPTURE(op.kind);
    CHECK(c.find_op(op.kind)->time(1e9) == doctest::Approx(op.time(1e9)).epsilon(1e-3));
  }
  const Validation v = compare(run, c);
  CHECK(v.plans.size() == 6);
  CHECK(v.failed == 0);
  CHECK(v.canary_spread == 0.0);
  // The gate stands in the first queue, which so starts before the others by what crossing takes
  // more.
  for (const PlanScore& plan : v.plans) {
    CAPTURE(plan.plan);
    const Calibration::Mode& mode = *truth.find_mode(plan.mode);
    CHECK(plan.measured.value - plan.predicted ==
          doctest::Approx(mode.cross_ns.value - mode.same_ns.value).epsilon(0.01));
  }
}

// Without a flush before each run, 57 kernels of these benchmarks find their data in 50 MiB.
TEST_CASE("what a run has left in the cache is not found by the next") {
  const TemporaryFolder folder;
  write_plans(folder);
  for (const char* arguments : {measure_it, replay_them}) {
    REQUIRE(run_harness(folder, arguments, "STANDIN_CACHE=52428800") == 0);
    CHECK_FALSE(says(folder, "out.txt", "found in the cache"));
  }
}

TEST_CASE("what is not proven is answered, with green contexts and without") {
  const TemporaryFolder folder;
  run_harness(folder, settle_it);
  check_says(folder, "run/settled.txt",
             {"ok  0 kernels", "ok  1 green contexts", "ok  2 graphs over parts", "ok  4 gaps",
              "error, 0.00 % worst"});
  CHECK(run_harness(folder, settle_it, "STANDIN_NO_GREEN=1") == 1);
  check_says(folder, "run/settled.txt", {"BAD 1 green contexts", "ok  4 gaps"});
  CHECK(run_harness(folder, measure_it, "STANDIN_NO_GREEN=1") == 1);
  CHECK(says(folder, "run/failed.txt", "process: "));
  CHECK(run_harness(folder, std::string(measure_it) + " --no-partitions", "STANDIN_NO_GREEN=1") ==
        0);
}

// The stand-in's engines serve in the order of the capture.
TEST_CASE("the order of copies is asked") {
  const TemporaryFolder folder;
  run_harness(folder, settle_it);
  CHECK(says(folder, "run/settled.txt",
             "ok  12 order of copies: a copy that is ready waits for one captured before it in 12 "
             "of 12 steps"));
}

TEST_CASE("green contexts that refuse events of another context get events of their own") {
  const TemporaryFolder folder;
  write_plans(folder);
  CHECK(run_harness(folder, measure_it, "STANDIN_OWN_EVENTS=400") == 0);
  CHECK(says(folder, "run/machine.txt", "events_by green contexts"));
  CHECK(run_harness(folder, replay_them, "STANDIN_OWN_EVENTS=400") == 0);
  run_harness(folder, settle_it, "STANDIN_OWN_EVENTS=400");
  check_says(folder, "run/settled.txt",
             {"ok  11 events across contexts: no", "ok  2 graphs over parts"});
  run_harness(folder, settle_it);
  CHECK(says(folder, "run/settled.txt", "ok  11 events across contexts: yes"));
  // The driver's manual has 400 for it; another error means the same.
  run_harness(folder, settle_it, "STANDIN_OWN_EVENTS=201");
  check_says(folder, "run/settled.txt",
             {"ok  11 events across contexts: no", "ok  2 graphs over parts"});
}

TEST_CASE("what the environment says of modules and connections does not count") {
  const TemporaryFolder folder;
  run_harness(folder, settle_it,
              "CUDA_MODULE_LOADING=LAZY CUDA_DEVICE_MAX_CONNECTIONS=1 CUDA_LAUNCH_BLOCKING=1");
  CHECK(says(folder, "out.txt", "ok  0 kernels"));
  CHECK_FALSE(says(folder, "out.txt", "stand-in: CUDA_"));
}

TEST_CASE("parts that are disjoint are used, though not all of their multiprocessors were seen") {
  const TemporaryFolder folder;
  run_harness(folder, settle_it, "STANDIN_SEEN_LESS=1");
  check_says(folder, "run/settled.txt",
             {"ok  1 green contexts", "NOT ALL SMS SEEN", "ok  2 graphs over parts"});
  run_harness(folder, settle_it, "STANDIN_OVERLAP=1");
  CHECK(says(folder, "run/settled.txt", "BAD 1 green contexts"));
}

TEST_CASE("cuBLAS is measured, calibrated and replayed, also where it makes parts share SMs") {
  const TemporaryFolder folder;
  const std::string shared = std::string(with_cublas) + " STANDIN_CDP=1";
  std::filesystem::create_directories(folder.file("run/plans"));
  ReplayPlan plan = replay::empty_plan("p/0", 1, SubmitMode::graph, Way::link);
  for (int i = 0; i < 2; ++i)
    replay::add_op(plan, 0, {.kind = BodyKind::cublas, .args = {1024, 1024, 1024}});
  folder.write("run/plans/0.plan", plan_text(plan));
  REQUIRE(run_harness(folder, measure_it) == 0);
  REQUIRE(run_harness(folder, "--measure --cublas --more --devices 3 --passes 2 -o run",
                      with_cublas) == 0);
  for (const std::string& environment : {std::string(with_cublas), shared}) {
    CAPTURE(environment);
    REQUIRE(run_harness(folder, replay_them, environment) == 0);
    const ValidationRun run = read_run(folder.file("run"));
    const Calibration c = calibrate(*run.machine, run.measurements, "measurements.csv");
    const Validation v = compare(run, c);
    REQUIRE(v.plans.size() == 1);
    // Two in a row, 2 * 1024^3 flops at 60,000 a ns and 6360 ns each, and a gap between them.
    CHECK(v.plans[0].measured.value == doctest::Approx(2 * (35'791 + 6'360) + 1'180));
    CHECK(std::abs(v.plans[0].error()) < 1e-3);
    CHECK(run.machine->disjoint == (environment == shared ? "no" : "yes"));
  }
}

TEST_CASE("where captures are refused, plans of mode graph are replayed in mode stream") {
  const TemporaryFolder folder;
  write_plans(folder);
  CHECK(run_harness(folder, replay_them, "STANDIN_NO_CAPTURE=1") == 1);
  CHECK(says(folder, "run/failed.txt", "p/0: "));
  CHECK(says(folder, "run/steps.csv", "p/3,0,0,stream,"));  // it needs no capture
  const TemporaryFolder other;
  write_plans(other);
  run_harness(other, std::string(replay_them) + " --mode stream", "STANDIN_NO_CAPTURE=1");
  CHECK(says(other, "run/steps.csv", "p/0,3,1,stream,"));
  CHECK_FALSE(says(other, "run/failed.txt", "p/"));  // the canary alone has no stream
}

TEST_CASE("parts that overlap end nothing, and machine.txt says so") {
  const TemporaryFolder folder;
  write_plans(folder);
  CHECK(run_harness(folder, replay_them, "STANDIN_OVERLAP=1") == 0);
  CHECK(says(folder, "run/machine.txt", "disjoint no"));
}

TEST_CASE("every call fails once, and for ever: some file comes back, the exit code says so") {
  for (const char* phase : {measure_it, replay_them, settle_it}) {
    CAPTURE(phase);
    const TemporaryFolder probe;
    write_plans(probe);
    run_harness(probe, phase, "STANDIN_CALLS=calls.txt");
    std::ifstream calls(probe.file("calls.txt"));
    std::size_t names = 0;
    std::string name;
    for (long count = 0; calls >> name >> count; ++names) {
      for (const char* which : {":1:719", ":0:719", ":1:719:sticky"}) {
        const std::string fault = "STANDIN_FAULT=" + name + which;
        CAPTURE(fault);
        const TemporaryFolder folder;
        write_plans(folder);
        const int code = run_harness(folder, phase, fault);
        CAPTURE(folder.read("out.txt"));
        CHECK(code != 0);
        CHECK(code < 128);
        CHECK(files_in(folder.file("run")) > 0);
      }
    }
    CHECK(names > 15);
  }
}

TEST_CASE("an error in one benchmark costs that benchmark") {
  const TemporaryFolder folder;
  CHECK(run_harness(folder, measure_it, "STANDIN_FAULT=cudaGraphLaunch:20:700") == 1);
  check_says(folder, "run/measurements.csv", {"gap_same,graph", "submit,graph"});
  CHECK(lines_of(folder.read("run/failed.txt")).size() == 1);
}

TEST_CASE("a benchmark that fails once is measured by the other passes; thrice, it is given up") {
  const TemporaryFolder folder;
  const auto submits = [](const std::string& line) { return line.starts_with("submit,graph"); };
  const auto graphs = [&] {
    return std::ranges::count_if(lines_of(folder.read("run/measurements.csv")), submits);
  };
  // Launches in a pass come in random order: the first one fails, whichever it is.
  CHECK(run_harness(folder, measure_it, "STANDIN_FAULT=cudaGraphLaunch:1:700") == 1);
  CHECK(graphs() == 2);
  CHECK(run_harness(folder, measure_it, "STANDIN_FAULT=cudaGraphLaunch:0:700") == 1);
  CHECK(graphs() == 0);
  CHECK(std::ranges::count_if(lines_of(folder.read("run/failed.txt")), submits) == 3);
}

TEST_CASE("a sticky error ends a process, and the next goes on without what failed") {
  const TemporaryFolder folder;
  write_plans(folder);
  CHECK(run_harness(folder, measure_it, "STANDIN_FAULT=cudaGraphLaunch:400:700:sticky") == 3);
  CHECK(says(folder, "run/measurements.csv", "op,graph"));  // of the passes before
  const std::size_t before = folder.read("run/measurements.csv").size();
  CHECK(run_harness(folder, std::string(measure_it) + " --more") == 0);
  CHECK(folder.read("run/measurements.csv").size() > 2 * before);
  CHECK_NOTHROW(read_run(folder.file("run")));
}

TEST_CASE("killed at any time, whole passes stay, and nothing is written over them") {
  const TemporaryFolder folder;
  write_plans(folder);
  for (const auto& [phase, copies, file] :
       {std::tuple{measure_it, "2300", "run/measurements.csv.part"},
        std::tuple{replay_them, "75", "run/steps.csv.part"},
        std::tuple{settle_it, "300", "run/settled.txt.part"}}) {
    CAPTURE(phase);
    const std::string fault = std::string("STANDIN_FAULT=cudaMemcpy:") + copies + ":kill";
    CHECK(run_harness(folder, phase, fault) > 128);
    REQUIRE(std::filesystem::exists(folder.file(file)));
    const std::string left = folder.read(file);
    CHECK(std::ranges::count(left, '\n') > 2);
    CHECK(std::filesystem::exists(folder.file("run/machine.txt")));
    run_harness(folder, phase);
    CHECK(folder.read(file) == left);
  }
}
