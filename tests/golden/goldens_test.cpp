// Tests of the goldens' reader: it accepts correct goldens, and nothing else.
#include "tests/golden/goldens.h"

#include "sim/error.h"
#include "sim/random.h"
#include "tests/prelude.h"

using baechi::golden::json;
using baechi::golden::Report;

namespace {

using Pointer = json::json_pointer;

/// Failed records of a check, which must not throw.
std::size_t failures(const auto& check) {
  std::ostringstream out;
  Report report(out);
  check(report);
  return report.failed();
}

/// Paths to all numbers below `at` whose path contains none of `without`.
void numbers(const json& value, const Pointer& at, const std::vector<std::string>& without,
             std::vector<Pointer>& found) {
  for (const std::string& part : without) {
    if (holds(at.to_string(), part)) return;
  }
  if (value.is_number()) found.push_back(at);
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) numbers(child, at / key, without, found);
  }
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) numbers(value[i], at / i, without, found);
  }
}

/// Changes `count` numbers of `document`, one at a time, and checks that each makes exactly one
/// record fail. `check(document, report)`.
void each_change_is_found(const json& document, std::size_t count,
                          const std::vector<std::string>& without, const auto& check) {
  REQUIRE(failures([&](Report& report) { check(document, report); }) == 0);
  std::vector<Pointer> found;
  numbers(document, Pointer(), without, found);
  REQUIRE_FALSE(found.empty());
  Random random(7);
  for (std::size_t i = 0; i < count; ++i) {
    const Pointer& at = found[random.below(static_cast<std::uint32_t>(found.size()))];
    json changed = document;
    if (changed[at].is_number_float()) {
      changed[at] = changed[at].get<double>() * 1.001 + 0.001;
    } else {
      changed[at] = changed[at].get<std::int64_t>() + 1;
    }
    CAPTURE(at.to_string());
    CHECK(failures([&](Report& report) { check(changed, report); }) == 1);
  }
}

//   a(10) --a:0, 5 us--> b(20)     b: 7 bytes of workspace
//     \-----a:0, 5 us--> c(30)
json fork_graph() {
  return json::parse(R"({"name": "fork", "note": "", "devices": 2, "comm_cost": null, "ops": [
    {"id": 0, "name": "a", "compute_us": 10, "temp_bytes": 0, "persistent_bytes": 0,
     "output_bytes": [100], "colocation_group": ["a"]},
    {"id": 1, "name": "b", "compute_us": 20, "temp_bytes": 7, "persistent_bytes": 0,
     "output_bytes": [0], "colocation_group": ["b"]},
    {"id": 2, "name": "c", "compute_us": 30, "temp_bytes": 0, "persistent_bytes": 0,
     "output_bytes": [8], "colocation_group": ["c", "long"]}], "edges": [
    {"src": 0, "dst": 1, "tensor": "a:0", "bytes": 100, "comm_us": 5, "edge_id": 0},
    {"src": 0, "dst": 2, "tensor": "a:0", "bytes": 100, "comm_us": 5, "edge_id": 1}]})");
}

// m-ETF: a 0..10 on device 0. At 10, b and c could start there, or at 15 on device 1; b (lower
// number) takes device 0, 10..30. Then c can start at 30 on device 0 or at 15 on device 1: a:0 is
// sent 10..15, c 15..45. The simulator sends it as a ends, to the same effect. Device 0 holds 100
// from a, with b's workspace 107; a's 100 go as c starts. Device 1 keeps c's 8.
json fork_results() {
  return json::parse(R"({"graph": "fork", "file": "", "devices": 2, "num_ops": 3, "num_edges": 2,
    "sum_temp_plus_output": 115, "sum_persistent": 0, "topo_order": [0, 1, 2],
    "pred_order": {"0": [], "1": [0], "2": [0]},
    "groupers": {"tf": {"group": ["a", "b", "c"], "num_groups": 3}},
    "runs": [{"grouper": "tf", "fused": false, "mem": "S", "algo": "etf", "coloc": false,
      "reserve": false, "memory_limit": 115, "status": "ok", "placement": [0, 0, 1],
      "est_makespan": 45, "peak_memory": [107, 8], "final_memory": [0, 8],
      "events": [["op", 0, 0, 0, 0, 10], ["op", 1, 0, 10, 10, 30],
                 ["xfer", "a:0", 0, 2, 0, 1, false, 10, 15, 10, 15], ["op", 2, 1, 15, 15, 45]],
      "virtual": {"makespan": 45, "peak_memory": [107, 8], "final_memory": [0, 8],
        "events": [["op", 0, 0, 0, 0, 10], ["xfer", "a:0", 0, 2, 0, 1, false, 10, 15, 10, 15],
                   ["op", 1, 0, 10, 10, 30], ["op", 2, 1, 15, 15, 45]]}}]})");
}

void check_fork(const json& results, Report& report) {
  golden::check_results(results, fork_graph(), "fork", report);
}

}  // namespace

TEST_SUITE_BEGIN("goldens");
TEST_CASE("a golden derived by hand passes, and fails with any one number changed") {
  each_change_is_found(fork_results(), 200, {"memory_limit", "sum_"}, check_fork);
}

TEST_CASE("unknown and missing fields are reported") {
  json results = fork_results();
  results["runs"][0]["colour"] = "red";
  CHECK(failures([&](Report& report) { check_fork(results, report); }) == 1);
  results = fork_results();
  results["runs"][0].erase("memory_limit");
  std::ostringstream out;
  Report report(out);
  CHECK_THROWS_AS(check_fork(results, report), InputError);
}

TEST_CASE("each mismatch names file, run, field, expected and got; the last line counts") {
  json results = fork_results();
  results["runs"][0]["placement"][2] = 0;
  std::ostringstream out;
  Report report(out);
  check_fork(results, report);
  report.print_summary();
  // head, topo_order, pred_order, groupers.tf, events, virtual, its events
  CHECK(out.str() ==
        "fork: runs[0] etf tf mem=S: placement[2]: expected 0, got 1\n"
        "7 passed, 1 failed, 0 skipped\n");
}

TEST_CASE("a missing folder, or one without goldens, is an input error") {
  std::ostringstream out;
  Report report(out);
  CHECK_THROWS_AS(golden::check_folder("/nonexistent", report), InputError);
  const auto folder = std::filesystem::temp_directory_path() / "baechi_no_goldens";
  std::filesystem::create_directories(folder / "unit");
  CHECK_THROWS_AS(golden::check_folder(folder, report), InputError);
  std::ofstream(folder / "unit" / "comm_cost.json") << "[{\"coef\": 1.0,";
  CHECK_THROWS_AS(golden::check_folder(folder, report), InputError);
  std::filesystem::remove_all(folder);
}

TEST_CASE("the original's goldens: no mismatch") {
  const auto data = testing::shared_data("baechi-golden");
  if (!data) return;
  std::ostringstream out;
  Report report(out);
  golden::check_folder(*data / "baechi-golden", report);
  CHECK(report.passed() > 0);
  CHECK_MESSAGE(report.failed() == 0, out.str());
}
