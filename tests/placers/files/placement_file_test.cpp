#include "placers/files/placement_file.h"

#include "sim/error.h"
#include "tests/prelude.h"
#include "traces/format/compressed_file.h"

namespace {

Placement parse(const std::string& text) {
  return parse_placement(text, "p.json", one_tensor_two_readers(), 2);
}

Placement read_placement_file(const std::string& path, const OpGraph& graph) {
  return parse_placement(read_file(path), path, graph, 2);
}

/// What reading tests/bad/placements/<name>.json for ops a, b, c on two devices says, without the
/// path.
std::string error_of_file(const std::string& name) {
  const std::string path = source_dir() + "/tests/bad/placements/" + name + ".json";
  return without(message<InputError>([&] { read_placement_file(path, one_tensor_two_readers()); }),
                 path + ":");
}

}  // namespace

TEST_SUITE_BEGIN("placement_file");
TEST_CASE("a placement file gives devices, and priorities in its order") {
  const Placement p = parse(R"({"format": "baechi-placement", "version": 1, "graph": "toy",
    "devices": 2, "placement": {"c": 1, "a": 0, "b": 1}, "order": ["c", "a"], "x-note": [1, 2]})");
  CHECK(p.device == on({gpu0, gpu1, gpu1}).device);
  CHECK(p.priority[OpId{2}] > p.priority[OpId{0}]);
  CHECK(p.priority[OpId{0}] > p.priority[OpId{1}]);  // b is not listed
}

TEST_CASE("graph, devices and order may be absent, and what place --format json adds be there") {
  const Placement p = parse(R"({"format": "baechi-placement", "version": 1,
    "placement": {"a": 1, "b": 0, "c": 1}, "placer": "m_etf", "placing_ms": 1.5, "status": "ok",
    "detail": "second try", "step_time_us": 7, "assumed_kind": "rtx_2080",
    "kind_without_times": "v100"})");
  CHECK(p.device == on({gpu1, gpu0, gpu1}).device);
  CHECK(p.priority.empty());
  CHECK(p.detail == "second try");
}

TEST_CASE("a file whose placer found nothing is infeasible, not a mistake") {
  CHECK_THROWS_WITH_AS(parse(R"({"format": "baechi-placement", "version": 1,
    "status": "infeasible", "detail": "b is too large"})"),
                       "b is too large", InfeasibleError);
}

TEST_CASE("a written file is read back, and written again the same") {
  const OpGraph graph = one_tensor_two_readers();
  Placement p = on({gpu1, gpu0, gpu1});
  for (const std::int32_t priority : {0, 5, 5}) p.priority.push_back(priority);
  const std::string text = placement_json(p, graph, "to\"y", 2);
  CHECK(text == R"({"format": "baechi-placement", "version": 1, "graph": "to\"y", "devices": 2,
 "placement": {
  "a": 1,
  "b": 0,
  "c": 1},
 "order": [
  "b",
  "c",
  "a"]}
)");
  const Placement again = parse_placement(text, "p.json", graph, 2);
  CHECK(again.device == p.device);
  CHECK(placement_json(again, graph, "to\"y", 2) == text);
}

TEST_CASE("a placement file is written whole, or not at all") {
  const OpGraph graph = one_tensor_two_readers();
  const Placement p = on({gpu1, gpu0, gpu1});
  const auto folder = std::filesystem::temp_directory_path() / "baechi_placement_file_test";
  std::filesystem::create_directories(folder);
  for (const char* name : {"p.json", "p.json.gz", "p.json.zst"}) {
    write_placement(folder / name, p, graph, "toy", 2);
    CHECK(read_placement_file(folder / name, graph).device == p.device);
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 3);
  std::filesystem::remove_all(folder);
  CHECK_THROWS_AS(write_placement(folder / "p.json", p, graph, "toy", 2), InputError);
}

TEST_CASE("every mistake in a placement file has its place and message") {
  constexpr const char* keys =
      "(keys: format, version, id, graph, devices, placement, home, prefetch, order, placer, "
      "placed_by, placing_ms, facts, status, detail, step_time_us, peak_kinds, spare_bytes, "
      "assumed_kind, kind_without_times, evidence, time_per_sample_us, simulated_us, "
      "simulated_together_us, simulated_overlap_us, simulated_batch_us, difference, plan, or "
      "x-...)";
  const std::pair<std::string, std::string> expected[] = {
      {"no_such_file", " cannot be read: No such file or directory"},
      {"not_json", "1:1: not JSON: neither an object nor a list"},
      {"not_an_object", "1:1: the file: a list is not an object"},
      {"a_trace", "1:12: format: \"baechi-trace\" is not \"baechi-placement\""},
      {"no_format", "1:1: a placement needs a key 'format'"},
      {"later_version", "1:43: version: 2 is not a version that can be read here: 1"},
      {"unknown_key",
       fmt::format("2:2: a placement has no key 'placment' (did you mean 'placement'?) {}", keys)},
      {"repeated_key", "2:16: a placement has two keys 'devices'"},
      {"no_placement", "1:1: a placement needs a key 'placement'"},
      {"unknown_op", "2:46: bb: the graph has no op 'bb' (did you mean 'b'?)"},
      {"missing_ops", "2:15: 2 ops of the graph without a device: a, c"},
      {"op_twice", "2:45: b: this op was placed before"},
      {"device_out_of_range", "2:37: c: there is no device 2; the cluster has 0 to 1"},
      {"device_beyond_devices", "2:51: device 1, but 'devices' is 1"},
      {"device_negative", "2:29: b: -1 is not a whole number from 0 to 9223372036854775807"},
      {"device_is_text", "2:29: b: \"gpu1\" is not a whole number from 0 to 9223372036854775807"},
      {"too_many_devices", "2:13: devices: a placement for 4 devices, but the cluster has 2"},
      {"order_twice", "3:22: order: op 'a' is listed twice"},
      {"order_unknown_op", "3:17: order: the graph has no op 'd' (did you mean 'a'?)"},
      {"order_of_numbers",
       "3:12: order: 0 is not the name of an op\n"
       "3:15: order: 1 is not the name of an op"},
      {"bad_status", "1:56: status: \"great\" is not \"ok\", \"oom\" or \"infeasible\""},
      {"several", fmt::format("1:46: a placement has no key 'colour' {}\n", keys) +
                      "2:15: 1 op of the graph without a device: b\n"
                      "3:8: x: the graph has no op 'x' (did you mean 'a'?)\n"
                      "4:8: c: there is no device 9; the cluster has 0 to 1\n"
                      "5:17: order: op 'c' is listed twice"},
  };
  for (const auto& [name, message] : expected) {
    CAPTURE(name);
    CHECK(error_of_file(name) == message);
  }
}

TEST_CASE("of the facts, only those of replicas are written, and read back") {
  const OpGraph graph = one_tensor_two_readers();
  Placement p = on({gpu0, gpu0, gpu0});
  p.facts = {{"latency_us", 7.0}, {"stage_0_first", 0.0}, {"stage_0_devices", 2.0}};
  const Placement read = parse_placement(placement_json(p, graph, "toy", 2), "p.json", graph, 2);
  CHECK(read.facts ==
        std::map<std::string, double>{{"stage_0_first", 0.0}, {"stage_0_devices", 2.0}});
}
