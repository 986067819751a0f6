#include "scenarios/run/resumable_run.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <iterator>
#include <random>
#include <thread>

#include "scenarios/report/html.h"
#include "tests/prelude.h"
#include "tests/scenarios/sweeps.h"

namespace {

namespace fs = std::filesystem;

struct Swept {
  TemporaryFolder folder;
  Sweep sweep = sweep_of(swept), other = sweep_of(swept + "engine: {overlap: false}\n");
};

void run_into(const std::string& folder, const Sweep& sweep, const RunSettings& settings,
              const std::vector<std::size_t>& ids, bool resume = false) {
  ResumableRun run(folder, sweep, ids, resume);
  run.run(run.remaining(), settings);
  run.finish(settings);
}

/// The three files of a folder, without wall-clock times.
struct Files {
  std::string csv, sqlite, html;
  friend bool operator==(const Files&, const Files&) = default;
};

Files files_of(const std::string& results, const TemporaryFolder& folder) {
  write_results(folder.file("compared"), without_placing(read_results(results)));
  return {folder.read("compared/results.csv"), folder.read("compared/results.sqlite"),
          folder.read("compared/report.html")};
}

/// Starts the program without its output. Returns its process.
pid_t start_program(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  const pid_t process = fork();
  REQUIRE(process >= 0);
  if (process == 0) {
    const int null_device = open("/dev/null", O_RDWR);
    if (null_device < 0) _exit(126);
    for (const int stream : {0, 1, 2}) dup2(null_device, stream);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  return process;
}

/// The exit code as in a shell: 137 if it was killed.
int exit_code(pid_t process) {
  int status = 0;
  REQUIRE(waitpid(process, &status, 0) == process);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// mpirun with the program's arguments; nothing, and a message, if it is not available.
std::optional<std::vector<std::string>> under_mpirun(std::size_t ranks,
                                                     const std::vector<std::string>& program) {
  const std::string mpirun = mpirun_program();
  if (mpirun.empty()) {
    MESSAGE("skipped: no Open MPI");
    return std::nullopt;
  }
  std::vector<std::string> command{"env",
                                   "OMPI_ALLOW_RUN_AS_ROOT=1",
                                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                                   "ASAN_OPTIONS=detect_leaks=0",  // Open MPI's own
                                   mpirun,
                                   "--oversubscribe",
                                   "--bind-to",
                                   "none",
                                   "-n",
                                   std::to_string(ranks)};
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

std::vector<pid_t> children_of(pid_t process) {
  std::ifstream list(fmt::format("/proc/{0}/task/{0}/children", process));
  return {std::istream_iterator<pid_t>(list), {}};
}

}  // namespace

TEST_SUITE_BEGIN("resumable_run");
TEST_CASE_FIXTURE(Swept, "merged shards equal the unsharded run, to the byte") {
  run_into(folder.file("whole"), sweep, {.threads = 2}, all_runs(sweep));
  const Files whole = files_of(folder.file("whole"), folder);
  for (const std::size_t shards : {1U, 2U, 5U}) {
    std::vector<std::string> parts;
    std::size_t runs = 0;
    for (std::size_t s = 1; s <= shards; ++s) {
      const std::vector<std::size_t> ids = shard_runs(sweep, s, shards);
      CHECK(ids.size() % 8 == 0);  // whole points
      CHECK(ids.size() / 8 >= 24 / shards);
      CHECK(ids.size() / 8 <= 24 / shards + 1);
      runs += ids.size();
      parts.insert(parts.begin(), folder.file(fmt::format("{}of{}", s, shards)));
      run_into(parts.front(), sweep, {.threads = s}, ids);
    }
    CHECK(runs == swept_runs);
    write_results(folder.file("merged"), merge_results(parts));
    CHECK(files_of(folder.file("merged"), folder) == whole);
  }
}

TEST_CASE("the program runs shards and merges them, with their timelines") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("swept.yaml", swept);
  const auto program = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), baechi::testing::program());
    return exit_code(start_program(arguments));
  };
  const std::string whole = folder.file("whole"), merged = folder.file("merged");
  const std::string one = folder.file("one"), two = folder.file("two");
  REQUIRE(program({"run", scenario, "--out", whole, "--timelines", "best"}) == 0);
  REQUIRE(program({"run", scenario, "--shard", "1/2", "--out", one, "--timelines", "best"}) == 0);
  REQUIRE(program({"run", scenario, "--shard", "2/2", "--out", two, "--timelines", "best"}) == 0);
  REQUIRE(program({"merge", two, one, "--out", merged}) == 0);
  CHECK(files_of(merged, folder) == files_of(whole, folder));
  const auto names = [](const std::string& path) {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(path))
      all.insert(entry.path().filename().string());
    return all;
  };
  CHECK(names(merged) == names(whole));
  CHECK(names(whole).size() > 3);
  CHECK(program({"merge", one, folder.file("none"), "--out", merged}) == 2);
  const Files before = files_of(merged, folder);
  CHECK(program({"merge", two, "--out", merged}) == 2);  // shard 1/2 is missing
  CHECK(files_of(merged, folder) == before);
  CHECK(program({"merge", two, "--out", merged, "--partial"}) == 0);
  for (const char* shard : {"0/2", "3/2", "1", "1/x"})
    CHECK(program({"run", scenario, "--shard", shard, "--out", one}) == 2);
}

// 24 points of 8 runs are distributed to 5 shards: shards 1 to 4 have 5 points, shard 5 has 4.
TEST_CASE_FIXTURE(Swept, "merging names the shards that no folder has") {
  std::vector<std::string> parts;
  for (const std::size_t s : {1U, 3U, 5U}) {
    parts.push_back(folder.file(fmt::format("part{}", s)));
    const std::vector<std::size_t> ids = shard_runs(sweep, s, 5);
    ResumableRun run(parts.back(), sweep, ids, false);
    run.run(ids, {});
    run.finish({}, fmt::format("{}/5", s));
  }
  CHECK_REFUSED(merge_results(parts),
                "80 of 192 runs are in none of the folders; missing are shards 2/5, 4/5. "
                "Run what is missing, then merge; --partial joins what there is");
  const Results some = merge_results(parts, true);
  CHECK(some.rows.size() == 112);
  CHECK(some.shard.empty());
  run_into(folder.file("four"), sweep, {}, shard_runs(sweep, 4, 5));
  parts.push_back(
      folder.file("four"));  // it is not marked as a shard, so none is listed as missing
  CHECK_REFUSED(merge_results(parts),
                doctest::Contains("40 of 192 runs are in none of the folders. Run"));
}

TEST_CASE_FIXTURE(Swept, "merging reports for every folder why it cannot be merged") {
  run_into(folder.file("a"), sweep, {}, shard_runs(sweep, 1, 12));
  run_into(folder.file("b"), other, {}, shard_runs(other, 2, 12));
  fs::create_directories(folder.file("c"));
  folder.write("c/runs.journal", "");
  const std::vector<std::string> parts{folder.file("a"), folder.file("b"), folder.file("c"),
                                       folder.file("d")};
  CHECK_REFUSED(merge_results(parts),
                fmt::format("{0}/b: results of another scenario or version than those in {0}/a\n"
                            "{0}/c: its run did not end; run it again with --resume, then merge\n"
                            "{0}/d/results.sqlite: no such file",
                            fs::path(folder.file("a")).parent_path().string())
                    .c_str());
  CHECK(merge_results(std::span(parts).first(1), true).rows.size() == 16);
}

TEST_CASE_FIXTURE(Swept, "a resumed sweep runs everything once, wherever the first run stopped") {
  run_into(folder.file("whole"), sweep, {.threads = 2}, all_runs(sweep));
  std::vector<std::size_t> first = all_runs(sweep);
  first.resize(50);
  SUBCASE("with results, as Ctrl-C leaves them") {
    run_into(folder.file("r"), sweep, {.threads = 2}, first);
    CHECK_FALSE(fs::exists(folder.file("r/runs.journal")));
  }
  SUBCASE("with a journal alone, as kill -9 leaves it") {
    ResumableRun run(folder.file("r"), sweep, all_runs(sweep), false);
    run.run(first, {.threads = 2});
  }
  SUBCASE("with both") {
    run_into(folder.file("r"), sweep, {}, {first.begin(), first.begin() + 30});
    ResumableRun run(folder.file("r"), sweep, first, true);
    run.run(run.remaining(), {});
  }
  ResumableRun run(folder.file("r"), sweep, all_runs(sweep), true);
  CHECK(run.remaining().size() == swept_runs - 50);
  run.run(run.remaining(), {.threads = 2});
  run.finish({.threads = 2});
  CHECK(files_of(folder.file("r"), folder) == files_of(folder.file("whole"), folder));
}

TEST_CASE_FIXTURE(Swept, "a journal is read up to where it is torn or damaged") {
  {
    ResumableRun run(folder.file("r"), sweep, all_runs(sweep), false);
    run.run(all_runs(sweep), {});
  }
  const std::string journal = folder.read("r/runs.journal");
  const auto runs_of = [&](const std::string& bytes) {
    folder.write("r/runs.journal", bytes);
    return Journal(folder.file("r/runs.journal"), sweep, true).size();
  };
  CHECK(runs_of(journal) == swept_runs);
  CHECK(runs_of(journal.substr(0, journal.size() - 1)) == swept_runs - 1);
  CHECK(runs_of(journal.substr(0, journal.size() - 1) + "\1") == swept_runs - 1);
  CHECK(runs_of(journal + std::string(1000, '\0')) == swept_runs);
  std::size_t before = 0;
  for (std::size_t bytes = 0; bytes < journal.size(); bytes += 97) {
    const std::size_t runs = runs_of(journal.substr(0, bytes));
    CHECK(runs >= before);
    before = runs;
  }
  CHECK(before >= swept_runs - 2);
  CHECK_REFUSED(runs_of("something else"), doctest::Contains("not a journal of this program"));
}

TEST_CASE_FIXTURE(Swept, "a journal refuses a second process, a folder runs of another sweep") {
  {
    ResumableRun run(folder.file("r"), sweep, all_runs(sweep), false);
    CHECK_REFUSED(ResumableRun(folder.file("r"), sweep, all_runs(sweep), true),
                  doctest::Contains("another baechi is running into this folder"));
    run.run(shard_runs(sweep, 1, 12), {});
  }
  CHECK_REFUSED(ResumableRun(folder.file("r"), other, all_runs(other), true),
                doctest::Contains("runs.journal holds 16 runs of another scenario or version"));
  run_into(folder.file("r"), sweep, {}, shard_runs(sweep, 1, 12), true);
  CHECK_REFUSED(ResumableRun(folder.file("r"), other, all_runs(other), true),
                doctest::Contains("r holds 16 runs of another scenario or version"));
}

TEST_CASE_FIXTURE(Swept, "runs of a sweep that did not end are only removed on request") {
  {
    ResumableRun run(folder.file("r"), sweep, all_runs(sweep), false);
    run.run(shard_runs(sweep, 1, 12), {});  // and then it is killed
  }
  CHECK_REFUSED(ResumableRun(folder.file("r"), sweep, all_runs(sweep), false),
                doctest::Contains("runs.journal holds 16 runs of a sweep that did not end: "
                                  "--resume continues from there"));
  const ResumableRun run(folder.file("r"), sweep, all_runs(sweep), true);
  CHECK(run.remaining().size() == swept_runs - 16);
}

TEST_CASE_FIXTURE(Swept, "a refused resumption leaves the folder unchanged") {
  run_into(folder.file("r"), sweep, {}, shard_runs(sweep, 1, 12));
  CHECK_THROWS_AS(ResumableRun(folder.file("r"), other, all_runs(other), true), InputError);
  CHECK_FALSE(fs::exists(folder.file("r/runs.journal")));
  const std::vector<std::string> parts{folder.file("r")};
  CHECK(merge_results(parts, true).rows.size() == 16);
  folder.write("r/results.sqlite", "not a database");
  CHECK_REFUSED(ResumableRun(folder.file("r"), sweep, all_runs(sweep), true),
                doctest::Contains("r/results.sqlite: not results of this program"));
  CHECK_FALSE(fs::exists(folder.file("r/runs.journal")));
}

TEST_CASE_FIXTURE(Swept, "resuming waits for a process that is still ending") {
  auto ending = std::make_unique<ResumableRun>(folder.file("r"), sweep, all_runs(sweep), false);
  ending->run(shard_runs(sweep, 1, 12), {});
  const std::jthread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ending.reset();
  });
  const ResumableRun run(folder.file("r"), sweep, all_runs(sweep), true, std::chrono::minutes(1));
  CHECK(run.remaining().size() == swept_runs - 16);
}

TEST_CASE_FIXTURE(Swept, "a process that waited for one that ended has its own journal") {
  auto ending =
      std::make_unique<ResumableRun>(folder.file("r"), sweep, shard_runs(sweep, 1, 12), false);
  ending->run(ending->remaining(), {});
  const std::jthread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ending->finish({});
    ending.reset();
  });
  const ResumableRun run(folder.file("r"), sweep, all_runs(sweep), true, std::chrono::minutes(1));
  CHECK(fs::exists(folder.file("r/runs.journal")));
  CHECK(run.remaining().size() == swept_runs - 16);
}

TEST_CASE_FIXTURE(Swept, "an interrupted shard is not merged, unless the others have its runs") {
  const std::vector<std::size_t> ids = shard_runs(sweep, 1, 2);  // 96 runs
  {
    ResumableRun run(folder.file("a"), sweep, ids, false);
    run.run(std::span(ids).first(20), {});  // Ctrl-C
    run.finish({});
  }
  run_into(folder.file("b"), sweep, {}, shard_runs(sweep, 2, 2));
  std::vector<std::string> parts{folder.file("a"), folder.file("b")};
  CHECK_REFUSED(merge_results(parts),
                doctest::Contains("a: its run was interrupted, 76 of its 96 runs are "
                                  "missing; run it again with --resume, then merge"));
  run_into(folder.file("c"), sweep, {}, ids);
  parts.push_back(folder.file("c"));
  CHECK(merge_results(parts).rows.size() == swept_runs);
}

TEST_CASE("timelines of earlier runs in the folder are removed") {
  const TemporaryFolder folder;
  const Sweep sweep = sweep_of(swept, {"report.timelines=best"});
  fs::create_directories(folder.file("r"));
  folder.write("r/7.gone.trace.json.gz", "");
  folder.write("r/mine.trace.json.gz", "");
  run_into(folder.file("r"), sweep, {}, shard_runs(sweep, 1, 24));  // one point
  CHECK_FALSE(fs::exists(folder.file("r/7.gone.trace.json.gz")));
  CHECK(fs::exists(folder.file("r/mine.trace.json.gz")));
  CHECK(timelines_in(folder.file("r")).size() == 1);
  fs::create_directories(folder.file("merged"));
  folder.write("merged/7.gone.trace.json.gz", "");
  const std::vector<std::string> parts{folder.file("r")};
  CHECK(merge_timelines(parts, folder.file("merged")) == 1);
  CHECK(timelines_in(folder.file("merged")) == timelines_in(folder.file("r")));
}

TEST_CASE("an extended sweep keeps the runs that it had") {
  const TemporaryFolder folder;
  const std::string less = [] {
    std::string text = swept;
    text.replace(text.find("[0.1, 0.5, 1.0]"), 15, "[0.1, 1.0]");
    return text;
  }();
  const Sweep small = sweep_of(less), large = sweep_of(swept);
  run_into(folder.file("r"), small, {}, all_runs(small));
  ResumableRun run(folder.file("r"), large, all_runs(large), true);
  CHECK(run.remaining().size() == swept_runs / 3);
  run.run(run.remaining(), {});
  run.finish({});
  run_into(folder.file("whole"), large, {}, all_runs(large));
  CHECK(files_of(folder.file("r"), folder) == files_of(folder.file("whole"), folder));
}

TEST_CASE("a sweep that is killed repeatedly loses no finished run") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("swept.yaml", swept);
  std::mt19937 random(7);
  const std::vector<std::string> fresh{baechi::testing::program(), "run",     scenario, "--out",
                                       folder.file("whole"),       "--quiet", "-j",     "2"};
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(exit_code(start_program(fresh)) == 0);
  auto whole_time = std::chrono::steady_clock::now() - start;
  const Files whole = files_of(folder.file("whole"), folder);

  std::size_t killed = 0, ended = 0, torn_folders = 0;
  const std::size_t kills = thorough() ? 50 : 12;
  while (killed < kills || (torn_folders == 0 && killed < 10 * kills)) {
    const std::string out = folder.file(fmt::format("r{}", ended));
    std::vector<std::string> again = fresh;
    again[4] = out;
    again.emplace_back("--resume");
    const pid_t process = start_program(again);
    std::this_thread::sleep_for(whole_time * std::uniform_int_distribution(0, 1000)(random) / 1000);
    kill(process, SIGKILL);
    const int code = exit_code(process);
    REQUIRE((code == 0 || code == 128 + SIGKILL));
    if (code != 0) {
      ++killed;
      torn_folders += fs::exists(out + "/runs.journal") ? 1U : 0U;
      if (torn_folders == 0) whole_time += whole_time / 8;  // the machine has become slower
    }
    if (code != 0 && killed < kills) continue;
    if (code != 0) REQUIRE(exit_code(start_program(again)) == 0);
    CHECK(files_of(out, folder) == whole);
    CHECK_FALSE(fs::exists(out + "/runs.journal"));
    ++ended;
  }
  CHECK(torn_folders > 0);
  CHECK(ended > 0);
}
TEST_CASE("one, two and three ranks write the same files as one process") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("swept.yaml", swept);
  const std::vector<std::string> program{baechi::testing::program(), "run",    scenario, "--out",
                                         folder.file("r"),           "--quiet"};
  if (!under_mpirun(1, program)) return;
  REQUIRE(exit_code(start_program(program)) == 0);
  const Files whole = files_of(folder.file("r"), folder);
  for (const std::size_t ranks : {1U, 2U, 3U}) {
    CAPTURE(ranks);
    REQUIRE(exit_code(start_program(*under_mpirun(ranks, program))) == 0);
    CHECK(files_of(folder.file("r"), folder) == whole);
  }
  std::vector<std::string> wrong = program;
  wrong[2] = folder.file("none.yaml");
  CHECK(exit_code(start_program(*under_mpirun(2, wrong))) == 2);
}

TEST_CASE("a rank that is killed ends the job, whose finished runs are resumed") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write("swept.yaml", swept);
  std::vector<std::string> program{baechi::testing::program(), "run",     scenario, "--out",
                                   folder.file("r"),           "--quiet", "-j",     "1"};
  if (!under_mpirun(1, program)) return;
  REQUIRE(exit_code(start_program(program)) == 0);
  const Files whole = files_of(folder.file("r"), folder);
  program.emplace_back("--resume");
  std::mt19937 random(11);
  for (int trial = 0; trial < (thorough() ? 6 : 2); ++trial) {
    fs::remove_all(folder.file("r"));
    const pid_t mpirun = start_program(*under_mpirun(3, program));
    const auto ended = [mpirun] {  // without taking its exit code
      siginfo_t info{};
      return waitid(P_PID, static_cast<id_t>(mpirun), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
             info.si_pid == mpirun;
    };
    const auto wait_until = [&](auto condition) {
      for (int i = 0; i < 10'000 && !condition() && !ended(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    wait_until([&] { return fs::exists(folder.file("r/runs.journal")); });
    const std::vector<pid_t> ranks = children_of(mpirun);
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::uniform_int_distribution(0, 100)(random)));
    if (ranks.size() == 3) kill(ranks[static_cast<std::size_t>(trial) % 3], SIGKILL);
    // It may have ended already. mpirun sometimes hangs after a rank has died: then all of it is
    // killed, as a batch system would do.
    wait_until([] { return false; });
    if (!ended()) {
      kill(mpirun, SIGKILL);
      for (const pid_t rank : ranks) kill(rank, SIGKILL);
    }
    exit_code(mpirun);
    REQUIRE(exit_code(start_program(*under_mpirun(2, program))) == 0);
    CHECK(files_of(folder.file("r"), folder) == whole);
  }
}
