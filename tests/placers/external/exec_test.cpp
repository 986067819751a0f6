#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "placers/external/child_process.h"
#include "placers/registry.h"
#include "sim/error.h"
#include "tests/message.h"
#include "tests/small_graphs.h"
#include "traces/format/trace_file.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

/// A folder of programs, removed at the end.
class Programs {
 public:
  Programs() {
    std::string name = std::filesystem::temp_directory_path() / "baechi_exec_test_XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    folder_ = name;
  }
  ~Programs() { std::filesystem::remove_all(folder_); }
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;

  std::string path(const std::string& name) const { return folder_ / name; }
  /// A shell script.
  std::string script(const std::string& name, const std::string& body) const {
    return file(name, "#!/bin/sh\n" + body + "\n", true);
  }
  std::string file(const std::string& name, const std::string& text, bool executable) const {
    std::ofstream(folder_ / name) << text;
    if (executable) std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
    return folder_ / name;
  }
  std::string folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

using Values = std::map<std::string, Options::Value>;
Options::Value value(std::string text) {
  return {.text = std::move(text), .where = {}, .children = {}};
}

constexpr const char* on_0_1_1 =
    R"({"format": "baechi-placement", "version": 1, "placement": {"a": 0, "b": 1, "c": 1}})";

/// Places one_tensor_two_readers() on two devices by the program at `path`.
Placement place(const std::string& path, Values values = {}) {
  const OpGraph graph = one_tensor_two_readers();
  const Cluster cluster = gpus(2);
  const ProfiledCosts costs(graph, cluster);
  return make_placer("exec:" + path, Options("exec", std::move(values)))
      ->place({graph, cluster, costs}, 11);
}

/// What it says instead, without the path.
template <class Error = InputError>
std::string said(const std::string& path, const Values& values = {}) {
  return without(message<Error>([&] { place(path, values); }), path);
}

}  // namespace

TEST_SUITE_BEGIN("exec");

TEST_CASE("a program places: the problem on its input, the placement on its output") {
  const Programs programs;
  const std::string path = programs.script(
      "place", fmt::format("cat > {}\necho '{}'", programs.path("problem.json"), on_0_1_1));
  CHECK(place(path).device == on({gpu0, gpu1, gpu1}).device);

  std::ifstream file(programs.path("problem.json"));
  std::stringstream problem;
  problem << file.rdbuf();
  const std::string text = problem.str();
  CHECK(text.starts_with(R"({"format": "baechi-problem", "version": 1,)"));
  // The trace in it can be read as such.
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

TEST_CASE("a program's path is relative to the scenario's folder; it gets its arguments") {
  const Programs programs;
  programs.script("place", fmt::format("test \"$1 $2\" = 'a b c' || exit 9\necho '{}'", on_0_1_1));
  Values values;
  values["args"].children = {{"", value("a b")}, {"", value("c")}};
  const auto placer = make_placer("exec:place", Options("exec", values, programs.folder()));
  const OpGraph graph = one_tensor_two_readers();
  const Cluster cluster = gpus(2);
  const ProfiledCosts costs(graph, cluster);
  CHECK(placer->place({graph, cluster, costs}, 0).device == on({gpu0, gpu1, gpu1}).device);
}

TEST_CASE("a program may say that nothing fits, by status 3 or in its output") {
  const Programs programs;
  CHECK(said<InfeasibleError>(programs.script("a", "echo hopeless >&2; exit 3")) ==
        ": no placement found: hopeless");
  CHECK(said<InfeasibleError>(
            programs.script("b", R"(echo '{"format": "baechi-placement", "version": 1,
                           "status": "infeasible", "detail": "c is too large"}')")) ==
        "c is too large");
}

TEST_CASE("a program that cannot be started is told why") {
  const Programs programs;
  CHECK(said(programs.path("nothing")) == ": no such file");
  CHECK(said(programs.folder()) == ": is a folder, not a program");
  CHECK(said(programs.file("plain", "#!/bin/sh\n", false)) == ": is not executable (chmod +x)");
  CHECK(said(programs.file("text", "hello\n", true)) ==
        ": is not a program: a script's first line must be like #!/usr/bin/env python3");
  CHECK(said(programs.file("lost", "#!/no/such/interpreter\n", true)) ==
        ": cannot be run: the interpreter that its first line names was not found");
  CHECK_THROWS_WITH_AS(make_placer("exec", Options("exec")), "exec.path: missing: write exec:PATH",
                       InputError);
}

TEST_CASE("a program that fails is quoted") {
  const Programs programs;
  CHECK(said(programs.script("a", "for i in 1 2 3 4 5; do echo line $i >&2; done; exit 4")) ==
        ": ended with status 4: line 3 | line 4 | line 5");
  CHECK(said(programs.script("b", "kill -9 $$")) == ": ended by signal 9");
  CHECK(said(programs.script("c", "exit 0")) == ": wrote nothing to its standard output");
}

TEST_CASE("a program's placement is read as strictly as a file") {
  const Programs programs;
  const auto output = [&](const std::string& text) {
    return said(programs.script("p", fmt::format("cat > /dev/null\necho '{}'", text)));
  };
  const std::string head = R"({"format": "baechi-placement", "version": 1, "placement": )";
  CHECK(output("Segmentation fault") == "output of :1:1: not JSON: neither an object nor a list");
  CHECK(output(head + R"({"a": 0}})") ==
        "output of :1:59: 2 ops of the graph without a device: b, c");
  CHECK(output(head + R"({"a": 0, "b": 0, "c": 2}})") ==
        "output of :1:81: c: there is no device 2; the cluster has 0 to 1");
}

TEST_CASE("a program may not split a group") {
  const Programs programs;
  OpGraphBuilder g;
  for (const char* name : {"a", "b", "c"}) g.add_op({.name = name});
  g.colocate(OpId{0}, "x");
  g.colocate(OpId{1}, "x");
  const OpGraph graph = std::move(g).build();
  const Cluster cluster = gpus(2);
  const ProfiledCosts costs(graph, cluster);
  const std::string path = programs.script("p", fmt::format("echo '{}'", on_0_1_1));
  CHECK_THROWS_WITH_AS(
      make_placer("exec:" + path, Options("exec"))->place({graph, cluster, costs}, 0),
      fmt::format("output of {}: colocation group 'x' is split: 'a' is on device 0, 'b' on 1", path)
          .c_str(),
      InputError);
}

TEST_CASE("a program is killed at its time limit, with all it started") {
  const Programs programs;
  const Values limit{{"time_limit", value("300 ms")}};
  const auto begin = std::chrono::steady_clock::now();
  CHECK(said(programs.script("a", "echo thinking >&2; sleep 100"), limit) ==
        ": still running after 300.000 ms (option time_limit): thinking");
  CHECK(said(programs.script("b", "exec >&- 2>&-; sleep 100"), limit) ==
        ": still running after 300.000 ms (option time_limit)");
  // A child that keeps the output open after the program has ended.
  CHECK(said(programs.script("c", fmt::format("sleep 100 &\necho '{}'", on_0_1_1)), limit) ==
        ": still running after 300.000 ms (option time_limit)");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}

TEST_CASE("full pipes do not block, and unread input does not kill") {
  const Programs programs;
  const std::string megabytes(5'000'000, 'x');
  // Reads nothing until it has written more than a pipe holds, on both.
  const std::string path = programs.script(
      "p", "head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero; wc -c; exit 5");
  const ProcessResult both = run_process(path, {}, megabytes, std::chrono::seconds(30));
  CHECK(both.exit_code == 5);
  CHECK(both.out.size() == 1'000'000 + std::string("5000000\n").size());
  CHECK(both.out.ends_with("5000000\n"));
  CHECK(both.error_tail.size() <= 65536 + 8192);

  CHECK(run_process(programs.script("q", "exit 0"), {}, megabytes, std::chrono::seconds(30))
            .exit_code == 0);
  CHECK(run_process(programs.script("r", "exec <&-; sleep 0.1; echo done"), {}, megabytes,
                    std::chrono::seconds(30))
            .out == "done\n");
}

TEST_CASE("a program that writes without end is stopped") {
  const Programs programs;
  const ProcessResult run = run_process(programs.script("p", "yes"), {}, "",
                                        std::chrono::seconds(30), std::size_t{1} << 20U);
  CHECK(run.too_much);
}

TEST_SUITE_END();
