#include <fcntl.h>
#include <unistd.h>

#include <thread>

#include "placers/external/child_process.h"
#include "sim/text.h"
#include "tests/placers/place_by_name.h"
#include "tests/prelude.h"
#include "traces/format/trace_file.h"

using namespace baechi::external;

namespace {

/// A folder of programs.
struct Programs : TemporaryFolder {
  std::string program(std::string_view name, std::string_view text) const {
    const std::string path = write(name, text);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  /// A shell script.
  std::string script(std::string_view name, const std::string& body) const {
    return program(name, "#!/bin/sh\n" + body + "\n");
  }
};

constexpr const char* on_0_1_1 =
    R"({"format": "baechi-placement", "version": 1, "placement": {"a": 0, "b": 1, "c": 1}})";

/// Places one_tensor_two_readers() on two devices by the program at `path`.
Placement place_by(const std::string& path, Values values = {}) {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(one_tensor_two_readers(), gpus(2));
  return make_placer("exec:" + path, Options("exec", std::move(values)))->place(problem, 11);
}

/// The message of its error, without the path.
template <class Error = InputError>
std::string program_error(const std::string& path, const Values& values = {}) {
  return without(message<Error>([&] { place_by(path, values); }), path);
}

}  // namespace

TEST_SUITE_BEGIN("exec");
TEST_CASE_FIXTURE(Programs, "a program reads the problem on its input and writes the placement") {
  const std::string path =
      script("place", fmt::format("cat > {}\necho '{}'", file("problem.json"), on_0_1_1));
  CHECK(place_by(path).device == on({gpu0, gpu1, gpu1}).device);

  const std::string text = read("problem.json");
  CHECK(text.starts_with(R"({"format": "baechi-problem", "version": 1,)"));
  // The trace in the problem can be read as a trace.
  const std::size_t begin = text.find(R"({"format": "baechi-trace")");
  const std::size_t end = text.find(",\n \"cluster\": ");
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  Options none;
  TextFile part("problem", std::string_view(text).substr(begin, end - begin));
  const Trace trace = read_baechi_trace(part, none);
  CHECK(trace.graph.num_ops() == 3);
  CHECK(trace.graph.num_edges() == 2);
  CHECK(text.substr(end + 2) == R"( "cluster": {"devices": [
  {"name": "gpu0", "kind": "", "memory_bytes": 1073741824, "speed": 1},
  {"name": "gpu1", "kind": "", "memory_bytes": 1073741824, "speed": 1}],
  "links": [[{"bandwidth_bytes_per_s": 1000000000, "latency_us": 0}, {"bandwidth_bytes_per_s": 1000000000, "latency_us": 0}],
   [{"bandwidth_bytes_per_s": 1000000000, "latency_us": 0}, {"bandwidth_bytes_per_s": 1000000000, "latency_us": 0}]]},
 "engine": {"semantics": "event", "transfers": "sequential", "queue": "fifo", "cache_tensors": true, "overlap": true, "enforce_memory": true},
 "seed": 11}
)");
}

TEST_CASE_FIXTURE(Programs, "a program's path is relative to the scenario's folder") {
  script("place", fmt::format("test \"$1 $2\" = 'a b c' || exit 9\necho '{}'", on_0_1_1));
  Values values;
  values["args"].children = {{"", value("a b")}, {"", value("c")}};
  const auto placer = make_placer("exec:place", Options("exec", values, file("")));
  const auto& [graph, cluster, costs, problem] = OwnedProblem(one_tensor_two_readers(), gpus(2));
  CHECK(placer->place(problem, 0).device == on({gpu0, gpu1, gpu1}).device);
}

namespace {

/// A shell loop over problems that reads each one's id; `then` may use $id, and `answer ID` writes
/// the answer to the problem ID.
std::string serve(const std::string& then) {
  return fmt::format(
      "answer() {{ echo '{{\"format\": \"baechi-placement\", \"version\": 1, \"id\": '$1', "
      "\"placement\": {{\"a\": 0, \"b\": 1, \"c\": 1}}}}'; }}\n"
      "while read -r problem; do\n"
      "id=${{problem#*\\\"id\\\": }}; id=${{id%%,*}}\n{}\ndone",
      then);
}

/// Requests placements from one program.
struct PlacerCalls {
  OpGraph graph = one_tensor_two_readers();
  Cluster cluster = gpus(2);
  ProfiledCosts costs{graph, cluster};
  std::unique_ptr<Placer> placer;
  std::string path;

  explicit PlacerCalls(const std::string& program, Values values = {}) : path(program) {
    values["persistent"] = value("true");
    placer = make_placer("exec:" + path, Options("exec", values));
  }
  bool answers() {
    return placer->place({graph, cluster, costs}, 0).device == on({gpu0, gpu1, gpu1}).device;
  }
  std::string program_error() {
    return without(message<InputError>([&] { answers(); }), path);
  }
};

}  // namespace

TEST_CASE_FIXTURE(Programs, "with `persistent` one process answers all problems, one line each") {
  PlacerCalls good(
      script("serve", fmt::format("echo start >> {}\n{}", file("starts"), serve("answer $id"))));
  for (int i = 0; i < 20; ++i) CHECK(good.answers());
  CHECK(read("starts") == "start\n");

  // A process that ends is reported; the next problem gets a new one.
  PlacerCalls once(script("once", serve("answer $id; exit")));
  CHECK(once.answers());
  CHECK(once.program_error() == ": ended, or wrote an empty line, in place of an answer");
  CHECK(once.answers());
  PlacerCalls dies(script("dies", "echo why >&2; exit 4"));
  CHECK(dies.program_error() == ": ended with status 4: why");
  PlacerCalls sleeps(script("sleeps", "sleep 60"), {{"time_limit", value("200 ms")}});
  CHECK(sleeps.program_error() == ": still running after 200.000 ms (option time_limit)");
  PlacerCalls none(script(
      "none", serve(R"(echo '{"format": "baechi-placement", "version": 1, "id": '$id', "status": )"
                    R"("infeasible", "detail": "no room"}')")));
  CHECK_THROWS_WITH_AS(none.answers(), "no room", InfeasibleError);
  CHECK_THROWS_WITH_AS(none.answers(), "no room", InfeasibleError);
}

TEST_CASE_FIXTURE(Programs, "with `persistent` no line counts as the answer to another problem") {
  // Both lines are written at once, so the second is there when the next problem is sent.
  PlacerCalls twice(
      script("twice", serve("printf '%s\\n%s\\n' \"$(answer $id)\" \"$(answer $id)\"")));
  CHECK(twice.answers());
  CHECK(twice.program_error() == ": wrote more than one line for one problem");
  CHECK(twice.answers());  // by a new process
  // Answers each problem with the answer to the one before, as after a stray line.
  PlacerCalls behind(script("behind", serve("answer $((id - 1))")));
  CHECK(behind.program_error().ends_with("the answer to problem 0, not 1"));
  CHECK(behind.program_error().ends_with("the answer to problem 1, not 2"));
  // A line before the first answer is no answer to any problem.
  PlacerCalls banner(script("banner", "echo loading\n" + serve("answer $id")));
  CHECK(holds(banner.program_error(), "not JSON"));
  CHECK(holds(banner.program_error(), "not JSON"));
  PlacerCalls silent(
      script("silent", fmt::format("while read -r problem; do echo '{}'; done", on_0_1_1)));
  CHECK(holds(silent.program_error(), "repeats the problem's \"id\""));
}

// The pipe holds 64 KiB; the answer comes after the first bytes of a larger problem.
TEST_CASE_FIXTURE(Programs, "`persistent`: a program may answer before it has read all") {
  OpGraphBuilder builder;
  std::string placed;
  for (int i = 0; i < 3000; ++i) {
    builder.add_op({.name = fmt::format("op{}", i), .compute = std::chrono::microseconds(1)});
    placed += fmt::format("{}\"op{}\": 0", i == 0 ? "" : ", ", i);
  }
  const auto& [graph, cluster, costs, problem] = OwnedProblem(std::move(builder).build(), gpus(2));
  const std::string path = script(
      "early", fmt::format("while id=$(head -c 60 | sed 's/.*\"id\": \\([0-9]*\\).*/\\1/'); test "
                           "\"$id\"; do\necho '{{\"format\": \"baechi-placement\", \"version\": 1, "
                           "\"id\": '$id', \"placement\": {{{}}}}}'\nread -r rest\ndone",
                           placed));
  const auto placer = make_placer("exec:" + path, Options("exec", {{"persistent", value("true")}}));
  for (int i = 0; i < 3; ++i) CHECK(placer->place(problem, 0).device.size() == 3000);
}

TEST_CASE_FIXTURE(Programs, "a program may report that nothing fits") {
  CHECK(program_error<InfeasibleError>(script("a", "echo hopeless >&2; exit 3")) ==
        ": no placement found: hopeless");
  CHECK(program_error<InfeasibleError>(
            script("b", R"(echo '{"format": "baechi-placement", "version": 1,
                           "status": "infeasible", "detail": "c is too large"}')")) ==
        "c is too large");
}

// Three ops of no weights: 60 us on one device, whichever. The program counts the ops that are not
// on device 1, so that the least, 0, has all there; it cannot know the step's own optimum.
TEST_CASE_FIXTURE(Programs, "an objective may be a program, which scores placements") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(one_tensor_two_readers(), gpus(2));
  const auto search = [&](const std::string& path) {
    const Values values{{"objective", value("exec:" + path)},
                        {"portfolio", value("single")},
                        {"evaluations", value("60")}};
    return make_placer("search", Options("search", values))->place(problem, 3);
  };
  const std::string zeros =
      script("zeros", R"(read -r problem; echo "$problem" | grep -o '"baechi-problem"'
while read -r placed; do echo "$placed" | sed 's/.*device": //' | tr -cd 0 | wc -c; done)");
  const Placement best = search(zeros);
  for (const OpId v : graph.ops()) CHECK(best.device[v] == gpu1);
  const auto failure = [&](const std::string& body) {
    return message<InputError>([&] { search(script("bad", body)); });
  };
  CHECK(failure("while read -r line; do echo many; done")
            .ends_with("/bad: answered 'many', not a number from 0 to 1e12"));
  CHECK(failure("while read -r line; do echo -1; done")
            .ends_with("/bad: answered '-1', not a number from 0 to 1e12"));
  CHECK(failure("read -r line; echo ready; read -r line; echo lost >&2; exit 1")
            .ends_with("in place of an answer to each line: lost"));
  CHECK_REFUSED(make_placer("search", Options("search", {{"objective", value("exec:")}})),
                "exec.path: missing: write exec:PATH");
}

TEST_CASE_FIXTURE(Programs, "the error says why a program cannot be started") {
  CHECK(program_error(file("nothing")) == ": no such file");
  CHECK(program_error(file("")) == ": is a folder, not a program");
  CHECK(program_error(write("plain", "#!/bin/sh\n")) == ": is not executable (chmod +x)");
  CHECK(program_error(program("text", "hello\n")) ==
        ": is not a program: a script's first line must be like #!/usr/bin/env python3");
  CHECK(program_error(program("lost", "#!/no/such/interpreter\n")) ==
        ": cannot be run: the interpreter that its first line names was not found");
  CHECK_REFUSED(make_placer("exec"), "exec.path: missing: write exec:PATH");
}

TEST_CASE_FIXTURE(Programs, "the error of a program that fails quotes its standard error") {
  CHECK(program_error(script("a", "for i in 1 2 3 4 5; do echo line $i >&2; done; exit 4")) ==
        ": ended with status 4: line 3 | line 4 | line 5");
  CHECK(program_error(script("b", "kill -9 $$")) ==
        ": ended by signal 9 (it may use 4.00 GiB of host memory: option memory_limit)");
  CHECK(program_error(script("c", "exit 0")) == ": wrote nothing to its standard output");
}

TEST_CASE_FIXTURE(Programs, "a program's placement is read as strictly as a file") {
  const auto output = [&](const std::string& text) {
    return program_error(script("p", fmt::format("cat > /dev/null\necho '{}'", text)));
  };
  const std::string head = R"({"format": "baechi-placement", "version": 1, "placement": )";
  CHECK(output("Segmentation fault") == "output of :1:1: not JSON: neither an object nor a list");
  CHECK(output(head + R"({"a": 0}})") ==
        "output of :1:59: 2 ops of the graph without a device: b, c");
  CHECK(output(head + R"({"a": 0, "b": 0, "c": 2}})") ==
        "output of :1:81: c: there is no device 2; the cluster has 0 to 1");
}

TEST_CASE_FIXTURE(Programs, "a truncated answer is reported as truncated") {
  CHECK(program_error(script("cut", R"(printf '{"format": "baechi-placement", "ver')")) ==
        ": its answer is cut off: 35 bytes that begin with '{' and do not end with '}'");
}

TEST_CASE_FIXTURE(Programs, "a program may not split a group") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a0,c:x; b0,c:x; c0"), gpus(2));
  const std::string path = script("p", fmt::format("echo '{}'", on_0_1_1));
  CHECK_REFUSED(
      make_placer("exec:" + path, Options("exec"))->place(problem, 0),
      fmt::format("output of {}: colocation group 'x' is split: 'a' is on device 0, 'b' on 1", path)
          .c_str());
}

TEST_CASE_FIXTURE(Programs, "a program is killed at its time limit, with all it started") {
  const Values limit{{"time_limit", value("300 ms")}};
  const auto begin = std::chrono::steady_clock::now();
  CHECK(program_error(script("a", "echo thinking >&2; sleep 100"), limit) ==
        ": still running after 300.000 ms (option time_limit): thinking");
  CHECK(program_error(script("b", "exec >&- 2>&-; sleep 100"), limit) ==
        ": still running after 300.000 ms (option time_limit)");
  // A child that keeps the output open after the program has ended.
  CHECK(program_error(script("c", fmt::format("sleep 100 &\necho '{}'", on_0_1_1)), limit) ==
        ": still running after 300.000 ms (option time_limit)");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}

TEST_CASE_FIXTURE(Programs, "full pipes do not block, and unread input does not kill") {
  const std::string megabytes(5'000'000, 'x');
  // Reads nothing until it has written more than a pipe holds to both outputs.
  const std::string path =
      script("p", "head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero; wc -c; exit 5");
  const ProcessResult both = run_process(path, {}, megabytes, {.time = 30s});
  CHECK(both.exit_code == 5);
  CHECK(both.out.size() == 1'000'000 + std::string("5000000\n").size());
  CHECK(both.out.ends_with("5000000\n"));
  CHECK(both.error_tail.size() <= 65536 + 8192);

  CHECK(run_process(script("q", "exit 0"), {}, megabytes, {.time = 30s}).exit_code == 0);
  CHECK(run_process(script("r", "exec <&-; sleep 0.1; echo done"), {}, megabytes, {.time = 30s})
            .out == "done\n");
}

TEST_CASE_FIXTURE(Programs, "a program with endless output is stopped") {
  const ProcessResult run =
      run_process(script("p", "yes"), {}, "", {.time = 30s, .output = std::size_t{1} << 20U});
  CHECK(run.stopped == Stopped::output);
}

namespace {

/// Whether the process whose id a program writes to the file at `path` is running; waits up to 10 s
/// for the file, and then for the process to end.
bool still_runs(const std::string& path) {
  pid_t pid = 0;
  for (int i = 0; i < 1000 && pid == 0; ++i) {
    std::ifstream(path) >> pid;
    if (pid == 0) std::this_thread::sleep_for(10ms);
  }
  REQUIRE(pid > 0);
  for (int i = 0; i < 1000; ++i) {
    if (kill(pid, 0) != 0) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

}  // namespace

TEST_CASE_FIXTURE(Programs, "a process that left its session is ended with the program") {
  // The inner shell is an orphan in its own session, without an open file in common with the outer
  // one.
  const auto program = [&](const std::string& name, const std::string& then) {
    return script(name, fmt::format("setsid sh -c 'echo $$ > {0}; exec sleep 100' <&- >&- 2>&- &\n"
                                    "while [ ! -s {0} ]; do sleep 0.01; done\n{1}",
                                    file(name + ".pid"), then));
  };
  CHECK(program_error(program("slow", "sleep 100"), {{"time_limit", value("1 s")}}) ==
        ": still running after 1.000 s (option time_limit)");
  CHECK_FALSE(still_runs(file("slow.pid")));
  CHECK(program_error(program("failing", "exit 4")) == ": ended with status 4");
  CHECK_FALSE(still_runs(file("failing.pid")));
  CHECK(place_by(program("placing", fmt::format("echo '{}'", on_0_1_1))).device ==
        on({gpu0, gpu1, gpu1}).device);
  CHECK_FALSE(still_runs(file("placing.pid")));
}

TEST_CASE_FIXTURE(Programs, "killing the calling program ends the placer and all it started") {
  const std::string path = script(
      "p", fmt::format("echo $$ > {0}\nsetsid sh -c 'echo $$ > {1}; exec sleep 100' &\nsleep 100",
                       file("placer.pid"), file("orphan.pid")));
  const pid_t asking = fork();
  if (asking == 0) {
    run_process(path, {}, "", {.time = 100s});
    _exit(0);
  }
  for (int i = 0; i < 1000 && !std::filesystem::exists(file("orphan.pid")); ++i)
    std::this_thread::sleep_for(10ms);
  kill(asking, SIGKILL);
  waitpid(asking, nullptr, 0);
  CHECK_FALSE(still_runs(file("placer.pid")));
  CHECK_FALSE(still_runs(file("orphan.pid")));
}

TEST_CASE_FIXTURE(Programs, "a program and all it starts are under one memory limit") {
  const Values limit{{"memory_limit", value("64 MiB")}};
  // A process that allocates too much gets nothing more: dd takes its bundle size from malloc.
  CHECK(program_error(script("one", "LC_ALL=C dd if=/dev/zero of=/dev/null bs=200M count=1"), limit)
            .starts_with(": ended with status 1: dd: memory exhausted"));
  // Four of 40 MB each: none is over the limit, together they are. `tail` keeps one long line.
  CHECK(program_error(script("four",
                             "for i in 1 2 3 4; do\n"
                             "  { head -c 40000000 /dev/zero; sleep 100; } | tail -n 1 &\n"
                             "done\nwait"),
                      limit)
            .starts_with(": used more than 64.00 MiB of host memory (option memory_limit)"));
}

TEST_CASE_FIXTURE(Programs, "a program that starts endless processes is stopped") {
  CHECK(program_error(script("p", "while :; do sleep 100 & done")) ==
        ": had more than 256 processes at once");
}

TEST_CASE_FIXTURE(Programs,
                  "a program writes at most 1 GiB to a file, opens 1024 and inherits none") {
  const int ours = open(file("").c_str(), O_RDONLY);
  REQUIRE(ours >= 0);
  const std::string path = script(
      "p", fmt::format("ulimit -f; ulimit -n; ulimit -c; ls /proc/$$/fd/{} 2>&1 || :", ours));
  const ProcessResult run = run_process(path, {}, "", {.time = 30s});
  close(ours);
  CHECK(run.out.starts_with("2097152\n1024\n0\n"));  // bundles of 512 bytes
  CHECK(run.out.ends_with("No such file or directory\n"));
}

TEST_CASE_FIXTURE(Programs, "quoted output is valid UTF-8 without terminal control sequences") {
  CHECK(program_error(script(
            "a", R"(printf 'one\033[2J\033[31m two\n\033]0;title\007thr\351e\r\n' >&2; exit 4)")) ==
        ": ended with status 4: one two | thr\uFFFDe");
  const std::string head = R"({"format": "baechi-placement", "version": 1, "placement": )";
  CHECK(place_by(script("b", fmt::format("printf '%s' '{}{}'", head,
                                         R"({"a": 0, "b": 0, "c": 0},
                                                  "detail": "\u001b[7mfine\u001b[0m"})")))
            .detail == "fine");
  CHECK(program_error(script("c", fmt::format("printf '%s' '{}{}'", head,
                                              R"({"\u001b[2Ja": 0, "a": 0, "b": 0, "c": 0}})"))) ==
        "output of :1:74: a: the graph has no op 'a'");
  CHECK(plain_text("a\tb\n\u00e9 \u4e2d \U0001F600") == "a\tb\n\u00e9 \u4e2d \U0001F600");
  CHECK(plain_text("\xc0\xaf \xed\xa0\x80 \xf5 \xe2\x82") ==
        "\uFFFD\uFFFD \uFFFD\uFFFD\uFFFD \uFFFD \uFFFD\uFFFD");
  CHECK(plain_text("\u009b31mred \x1b(0x \x1b") == "red x ");
}

TEST_CASE_FIXTURE(Programs,
                  "a hidden file cannot be read, changed, replaced or removed; others can") {
  if (kernel_guard() == Guard::nothing) {
    MESSAGE("skipped: this kernel has no Landlock");
    return;
  }
  const std::string hidden = write("known.json", "secret");
  write("open.txt", "public");
  write("other.txt", "forged");
  // Prints the name of each step that succeeds. Its standard input holds the test's process id.
  const std::string path = script("spy", R"(
exec 2>/dev/null
read -r arena
cat open.txt && echo changed > open.txt && echo ' wrote' || echo ' nothing'
cat known.json && echo read
echo x >> known.json && echo appended
: > known.json && echo cut
mv other.txt known.json && echo replaced
rm -f known.json && echo removed
ln known.json link && cat link && echo linked
cat /proc/$arena/environ && echo traced
sh -c 'cat known.json' && echo 'read by a child'
kill -0 $arena && echo signalled
exit 0)");
  ProcessLimits limits{.time = std::chrono::seconds(20)};
  limits.resources.hidden = hidden;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(file(""));
  const ProcessResult run = run_process(path, {}, fmt::format("{}\n", getpid()), limits);
  const ProcessResult free =
      run_process(path, {}, fmt::format("{}\n", getpid()), {.time = std::chrono::seconds(20)});
  std::filesystem::current_path(before);
  CHECK(run.out ==
        (kernel_guard() == Guard::files ? "public wrote\nsignalled\n" : "public wrote\n"));
  CHECK(holds(free.out, "secretread\nappended\ncut\nreplaced\nremoved"));
  CHECK(holds(free.out, "signalled"));
}
