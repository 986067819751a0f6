
#include "tests/expected_messages.h"
#include "tests/prelude.h"
#include "tests/traces/import/recordings.h"

using Json = nlohmann::json;

namespace fs = std::filesystem;

namespace {

const fs::path bad_files = fs::path(source_dir()) / "tests" / "bad" / "traces";

std::string message_of(const std::string& file) {
  std::string importer;
  if (file != "unknown.txt") {
    importer = file.starts_with("msr_")         ? "dnn_partitioning"
               : file.starts_with("pipedream_") ? "pipedream"
               : file.starts_with("graphml_")   ? "graphml"
               : file.starts_with("pytorch_")   ? "pytorch"
               : file.starts_with("piper_")     ? "piper"
               : file.starts_with("doppler_")   ? "doppler"
               : file.starts_with("profiler_")  ? "kineto"
               : file.starts_with("onnx_")      ? "onnx"
               : file.starts_with("chakra_")    ? "chakra"
               : file.starts_with("tf_")        ? "tensorflow"
               : file.starts_with("hlo_")       ? "hlo"
                                                : "baechi";
  }
  return message<InputError>([&] {
    std::ifstream in(bad_files / file, std::ios::binary);
    std::stringstream bytes;
    bytes << in.rdbuf();
    TextFile text(file, bytes.str(), Content::any);
    if (file.starts_with("kineto_")) {
      TextFile execution("layer.et.json",
                         read_file(source_dir() + "/tests/recordings/layer.et.json"));
      TextFile* const times = &text;
      pytorch::import_step(execution, std::span(&times, 1), {});
    } else {
      read_trace(text, importer);
    }
  });
}

}  // namespace

TEST_SUITE_BEGIN("traces");
TEST_CASE("every malformed file is rejected with its own message") {
  const auto expected = expected_messages(bad_files / "expected.txt");
  std::set<std::string> seen;
  for (const auto& entry : fs::directory_iterator(bad_files)) {
    const std::string file = entry.path().filename().string();
    if (file == "expected.txt") continue;
    CAPTURE(file);
    const auto it = expected.find(file);
    seen.insert(file);
    const std::string message = message_of(file);
    // simdjson 3.12 looks for the end of a document first.
    if (message.starts_with("unclosed.json:1:1: not JSON: a bracket that is never closed"))
      continue;
    CHECK(message == (it == expected.end() ? "(not in expected.txt)" : it->second));
  }
  CHECK(seen.size() == expected.size());
}

TEST_CASE("the importers recognise their own files only") {
  const std::map<std::string, std::string> beginnings{
      {"baechi", R"({"format": "baechi-trace", )"},
      {"dnn_partitioning", R"({"maxSizePerFPGA": 1.0, "maxFPGAs": 4, "nodes": [)"},
      {"pipedream", "node1 -- Input0 -- forward_compute_time=0.000, "},
      {"piper", R"({"maxDevices": 4, "maxMemoryPerDevice": 1e9, "mbsInBatch": 8, "nodes": [)"},
      {"doppler", "5\n0, 1, \n0, 0, 1, \n1, 2, "},
      {"pytorch", R"({"schema": "1.0.1", "pid": 7, "nodes": [{"name": "a", "id": 2, "rf_id": 1, )"},
      {"kineto", R"({"schemaVersion": 1, "traceEvents": [{"ph": "X", )"},
      {"onnx", "\x08\x07\x12\x07pytorch"},
      {"chakra", R"({"workload_graph": [{"Id": 1, )"},
      {"tensorflow", "node {\n  name: \"a\"\n  op: \"Const\"\n}"},
      {"hlo", "HloModule jit_f, is_scheduled=true\n"},
      {"graphml", R"(<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org">)"}};
  std::set<std::string_view> names;
  for (const ImporterEntry& entry : importers()) {
    CAPTURE(entry.name);
    CHECK(names.insert(entry.name).second);
    REQUIRE(beginnings.contains(std::string(entry.name)));
    for (const auto& [name, text] : beginnings)
      CHECK(entry.recognises(text) == (name == entry.name));
    // A file that no importer can read is an InputError, not a crash.
    for (const char* text : {"", "\n", "{", "node", "<", "\xff"}) {
      CHECK_FALSE(entry.recognises(text));
      TextFile file("x", text);
      try {
        read_trace(file, entry.name);
      } catch (const InputError& e) {
        CHECK(std::string_view(e.what()).starts_with("x:"));
      }
    }
  }
}

// Realistic recordings: calls missing from one of the two files, threads in another order,
// incomplete steps.

namespace {

/// A recorded model: its execution trace, and the profiler's export, whose events have no ids.
struct Recording {
  Json calls, events;
};

Recording recording(const std::filesystem::path& data, const std::string& model) {
  const std::string path = (data / "traces" / "recorded" / model).string();
  return {Json::parse(read_file(path + ".eg.json.zst")),
          Json::parse(read_file(path + ".profiler.json.zst"))};
}

Trace imported_recording(const Recording& r) {
  return imported_texts(r.calls.dump(), r.events.dump());
}

/// `list` without `count` evenly spaced entries among those that `may_go` allows.
template <class May>
Json without(const Json& list, std::size_t count, const May& may_go) {
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (may_go(list[i])) candidates.push_back(i);
  std::vector<bool> gone(list.size());
  for (std::size_t k = 0; k < count; ++k)
    gone[candidates[(2 * k + 1) * candidates.size() / (2 * count)]] = true;
  Json rest = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!gone[i]) rest.push_back(list[i]);
  return rest;
}

bool is_call(const Json& event) { return event.value("ph", "") == "X"; }
bool is_operator(const Json& node) { return !node["op_schema"].get<std::string>().empty(); }

/// The total time, relative to that of `whole`.
double share_of_time(const OpGraph& graph, const OpGraph& whole) {
  const auto sum = [](const OpGraph& g) {
    Duration time{};
    for (const OpId v : g.ops()) time += g.op(v).compute;
    return static_cast<double>(time.count());
  };
  return sum(graph) / sum(whole);
}

}  // namespace

TEST_SUITE_BEGIN("recordings");
TEST_CASE("a few calls missing from the Kineto trace are tolerated, too many rejected") {
  const auto data = shared_data("traces");
  if (!data) return;
  for (const char* model : {"resnet50", "gnmt_small"}) {
    CAPTURE(model);
    const Recording whole = recording(*data, model);
    const Trace full = imported_recording(whole);
    Recording damaged = whole;
    const std::size_t some = whole.events.size() / 300;
    damaged.events = without(whole.events, some, is_call);
    const Trace trace = imported_recording(damaged);
    CHECK(noted(trace, "order of names with gaps"));
    CHECK(trace.graph.num_ops() == full.graph.num_ops());
    CHECK(share_of_time(trace.graph, full.graph) > 0.9);
    CHECK(share_of_time(trace.graph, full.graph) <= 1.0);
    damaged.events = without(whole.events, whole.events.size() / 50, is_call);
    CHECK_THROWS_WITH_AS(imported_recording(damaged),
                         doctest::Contains("99 % of the calls must be found"), InputError);
  }
}

TEST_CASE("a few calls missing from the execution trace are tolerated") {
  const auto data = shared_data("traces");
  if (!data) return;
  const Recording whole = recording(*data, "resnet50");
  const Trace full = imported_recording(whole);
  Recording damaged = whole;
  damaged.calls["nodes"] = without(whole.calls["nodes"], 9, is_operator);
  const Trace trace = imported_recording(damaged);
  CHECK(noted(trace, "order of names with gaps"));
  CHECK(noted(trace, "have a parent that is not in the file"));
  CHECK(share_of_time(trace.graph, full.graph) > 0.95);
  CHECK(share_of_time(trace.graph, full.graph) < 1.05);
  damaged.calls["nodes"] = without(whole.calls["nodes"], 200, is_operator);
  CHECK_THROWS_AS(imported_recording(damaged), InputError);
}

TEST_CASE("an execution trace that ends within its step gives a warning") {
  const auto data = shared_data("traces");
  if (!data) return;
  Recording cut = recording(*data, "resnet50");
  CHECK_FALSE(noted(imported_recording(cut), "is not a complete step"));
  auto& nodes = cut.calls["nodes"].get_ref<Json::array_t&>();
  std::ranges::sort(nodes, {}, [](const Json& n) { return n["rf_id"].get<std::int64_t>(); });
  nodes.resize(nodes.size() * 6 / 10);
  CHECK(noted(imported_recording(cut), "warning: the Kineto trace has an optimizer call"));
}

TEST_CASE("the result does not depend on the order of events or the names of threads") {
  const auto data = shared_data("traces");
  if (!data) return;
  const auto folder = *data / "traces" / "public" / "param";
  const std::string calls = read_file((folder / "linear_et.json.gz").string());
  Json times = Json::parse(read_file((folder / "linear_kineto.json.gz").string()));
  const Trace full = imported_texts(calls, times.dump());
  auto& events = times["traceEvents"].get_ref<Json::array_t&>();
  std::ranges::stable_sort(events, [](const Json& a, const Json& b) {
    const auto thread = [](const Json& e) { return e.contains("tid") ? e["tid"].dump() : ""; };
    return thread(a) > thread(b);
  });
  for (auto& event : events)
    if (event.contains("tid") && event["tid"].is_number())
      event["tid"] = 1'000'000 - event["tid"].get<std::int64_t>();
  const Trace moved = imported_texts(calls, times.dump());
  CHECK(share_of_time(moved.graph, full.graph) == 1.0);
  CHECK(moved.notes == full.notes);
}

TEST_CASE("an incomplete step is not chosen") {
  const auto data = shared_data("traces");
  if (!data) return;
  const auto file = *data / "traces/public/param/resnet_1gpu_et.1.0.3-chakra.json.gz";
  const Json whole = Json::parse(read_file(file.string()));
  const auto number = [](const Json& node) {
    for (const auto& a : node["attrs"])
      if (a["name"] == "rf_id") return a["value"].get<std::int64_t>();
    return std::int64_t{0};
  };
  std::vector<std::int64_t> steps;
  for (const auto& node : whole["nodes"])
    if (node["name"].get<std::string>().starts_with("ProfilerStep#")) steps.push_back(number(node));
  std::ranges::sort(steps);
  REQUIRE(steps.size() == 3);
  /// The recording up to the call with this id.
  const auto up_to = [&](std::int64_t last) {
    Json cut = whole;
    cut["nodes"] = Json::array();
    for (const auto& node : whole["nodes"])
      if (number(node) <= last) cut["nodes"].push_back(node);
    return cut.dump();
  };
  const Trace second = imported(file, nullptr, {.step = 2});
  Json idle = whole;  // its last step has no update
  for (auto& node : idle["nodes"])
    if (node["name"].get<std::string>().starts_with("Optimizer.step") && number(node) > steps[2])
      node["name"] = "my own update";
  CHECK(noted(imported_texts(idle.dump(), ""), "step 2 of 3 in the recording"));
  for (const std::int64_t rest : {3L, 400L, 2000L}) {
    CAPTURE(rest);
    const Trace trace = imported_texts(up_to(steps[2] + rest), "");
    CHECK(noted(trace, "step 3 of 3 is incomplete: ProfilerStep#6"));
    CHECK(noted(trace, "step 2 of 3 in the recording"));
    CHECK(trace.graph.num_ops() == second.graph.num_ops());
    CHECK_THROWS_WITH_AS(imported_texts(up_to(steps[2] + rest), "", {.step = 3}),
                         doctest::Contains("step 3 of 3 is incomplete"), InputError);
  }
}
