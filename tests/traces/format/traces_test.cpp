#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "sim/random.h"
#include "tests/expected_messages.h"
#include "tests/message.h"
#include "tests/shared_data.h"
#include "tests/small_graphs.h"
#include "tests/this_build.h"
#include "traces/format/json_pieces.h"
#include "traces/format/trace_file.h"
#include "traces/generator.h"
#include "traces/import/pytorch/pytorch.h"
#include "traces/importer.h"

using namespace baechi;
using namespace baechi::testing;
namespace fs = std::filesystem;

namespace {

Trace parse(const std::string& text) {
  TextFile file("t.json", text);
  return read_trace(file, "baechi");
}

Options options(const std::string& owner, const std::map<std::string, std::string>& values) {
  std::map<std::string, Options::Value> given;
  for (const auto& [key, text] : values) given[key] = {.text = text, .where = "", .children = {}};
  return Options(owner, given);
}

/// A folder of this process's own, removed at the end.
struct ScratchFolder {
  fs::path path = fs::temp_directory_path() / fmt::format("baechi_traces_{}", ::getpid());
  ScratchFolder() { fs::create_directories(path); }
  ~ScratchFolder() { fs::remove_all(path); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string operator/(const char* name) const { return (path / name).string(); }
};

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
      pytorch::import_step(execution, &text, {});
    } else {
      read_trace(text, importer);
    }
  });
}

/// Every feature the format has, at random.
OpGraph random_graph(std::uint64_t seed) {
  Random random(seed);
  OpGraphBuilder b;
  const std::uint32_t n = 1 + random.below(30);
  std::vector<std::vector<TensorId>> outputs(n);
  const bool kinds = random.below(2) == 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::string name = fmt::format("op\"{}\\\n{}", i, random.below(2) == 0 ? "é" : "");
    const OpId v = b.add_op({.name = name,
                             .kind = random.below(2) == 0 ? "Conv2D" : "",
                             .compute = Duration{static_cast<std::int64_t>(random.next() >> 20U)},
                             .persistent = {random.below(1000)},
                             .temporary = {random.below(1000)},
                             .phase = static_cast<Phase>(random.below(3))});
    if (kinds && random.below(2) == 0) {
      b.set_compute(v, "gpu", random.below(3) == 0 ? std::nullopt : std::optional(Duration{7}));
      b.set_compute(v, "cpu", Duration{random.below(100000)});
    }
    for (std::uint32_t k = random.below(3); k > 0; --k) {
      outputs[i].push_back(b.add_tensor(v, {random.below(5000)}));
      if (random.below(4) == 0) b.set_transfer(outputs[i].back(), Duration{random.below(9999)});
    }
    if (random.below(2) == 0) b.colocate(v, fmt::format("g{}", random.below(4)));
    if (i > 0 && random.below(3) == 0) b.set_forward(v, static_cast<OpId>(random.below(i)));
  }
  for (std::uint32_t k = 0; k < 2 * n; ++k) {
    const std::uint32_t i = random.below(n), j = random.below(n);
    if (i >= j) continue;
    if (outputs[i].empty())
      b.add_control(static_cast<OpId>(i), static_cast<OpId>(j));
    else
      b.add_edge(outputs[i][random.below(static_cast<std::uint32_t>(outputs[i].size()))],
                 static_cast<OpId>(j));
  }
  return std::move(b).build();
}

struct Count {
  std::size_t ops = 0, edges = 0;
};

/// Occurrences of a word in a text: how the tests count what an importer should find.
std::size_t occurrences(const std::string& text, std::string_view word) {
  std::size_t n = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_SUITE("traces") {
  TEST_CASE("the example of the format's reference reads as it says") {
    const Trace t = parse(R"(
{"format": "baechi-trace", "version": 1, "name": "toy", "source": "by hand", "batch": 1,
 "ops": [{"name": "a", "kind": "Conv2D", "phase": "forward", "compute_us": 12.5, "temporary_bytes": 0,
          "persistent_bytes": 4096, "colocation": ["a"], "outputs": [{"bytes": 1024}]},
         {"name": "a_grad", "phase": "backward", "forward": "a", "compute_us": 25}],
 "edges": [{"from": "a", "output": 0, "to": "a_grad"}],
 "controls": []})");
    CHECK(t.name == "toy");
    CHECK(t.source == "by hand");
    CHECK(t.batch == 1);
    CHECK(t.format == "baechi");
    REQUIRE(t.graph.num_ops() == 2);
    const Op& a = t.graph.op(OpId{0});
    CHECK(t.graph.kind(OpId{0}) == "Conv2D");
    CHECK(a.compute == 12500ns);
    CHECK(a.persistent == 4096_B);
    CHECK(t.graph.group_name(a.group) == "a");
    CHECK(t.graph.op(OpId{1}).phase == Phase::backward);
    CHECK(t.graph.op(OpId{1}).forward == OpId{0});
    REQUIRE(t.graph.num_edges() == 1);
    CHECK(t.graph.tensor(t.graph.edge(EdgeId{0}).tensor).size == 1024_B);
    // a has all three; a_grad has a time, and no outputs that could lack a size.
    CHECK(t.coverage.ops == 2);
    CHECK(t.coverage.with_time == 2);
    CHECK(t.coverage.with_bytes == 2);
    CHECK(t.coverage.with_memory == 1);
  }

  TEST_CASE("work is written and read back, and ops of a graph without any have none") {
    const Trace t = parse(
        R"({"format": "baechi-trace", "version": 1, "ops": [{"name": "a"}, {"name": "b", "kernels": [{"flops": 150}, {"flops": 50, "traffic_bytes": 48}]}]})");
    CHECK(t.graph.work(OpId{0}) == OpWork{});
    CHECK(t.graph.work(OpId{1}) == OpWork{.flops = 200, .traffic = 48_B});
    REQUIRE(t.graph.kernels(OpId{1}).size() == 2);
    CHECK(t.graph.kernels(OpId{1})[0] == OpWork{.flops = 150});
    CHECK(
        std::ranges::equal(parse(trace_json(t)).graph.kernels(OpId{1}), t.graph.kernels(OpId{1})));
    CHECK_FALSE(parse(R"({"format": "baechi-trace", "version": 1, "ops": [{"name": "a"}]})")
                    .graph.has_work());
  }

  TEST_CASE("keys may come in any order, and keys that begin with x- anywhere") {
    const Trace t = parse(R"({"edges": [{"to": "b", "from": "a", "x-why": [1, {"c": null}]}],
      "controls": [{"from": "a", "to": "b"}], "x-tool": "mine",
      "ops": [{"outputs": [{"x-shape": [2, 2], "bytes": 1e3}], "name": "a"},
              {"\u006eame": "b", "x-y": 1}],
      "version": 1, "format": "baechi-trace"})");
    CHECK(t.graph.num_ops() == 2);
    CHECK(t.graph.num_edges() == 2);
    CHECK(t.graph.tensor(TensorId{0}).size == 1000_B);
    CHECK(t.graph.find("b") == OpId{1});
  }

  TEST_CASE("times are exact to the nanosecond, and rounded where written finer") {
    const auto time = [](const std::string& us) {
      return parse(
                 R"({"format": "baechi-trace", "version": 1, "ops": [{"name": "a", "compute_us": )" +
                 us + "}]}")
          .graph.op(OpId{0})
          .compute;
    };
    CHECK(time("0.001") == 1ns);
    CHECK(time("4503599627370.497") == 4503599627370497ns);
    CHECK(time("4503599627370497.501") == 4503599627370497501ns);  // more than a double holds
    CHECK(time("1.0005") == 1001ns);
    CHECK(time("2e3") == 2ms);
    CHECK(time("0") == 0ns);
    for (const char* bad : {"1.", ".5", "01", "1.2.3", "4700000000000000", "18446744073709551617"})
      CHECK_THROWS_AS(time(bad), InputError);
  }

  TEST_CASE("op times per device kind keep their kinds and what was not measured") {
    const Trace t = parse(R"({"format": "baechi-trace", "version": 1, "ops": [
      {"name": "a", "compute_us": {"gpu": null, "cpu": 3}}, {"name": "b", "compute_us": 1}]})");
    CHECK(t.graph.device_kinds() == std::vector<std::string>{"gpu", "cpu"});
    CHECK_FALSE(t.graph.compute(OpId{0}, 0));
    CHECK(*t.graph.compute(OpId{0}, 1) == 3us);
    CHECK(*t.graph.compute(OpId{1}, 1) == 1us);
    CHECK(trace_json(parse(trace_json(t))) == trace_json(t));
  }

  TEST_CASE("lanes, collectives and precisions are kept") {
    const Trace t = parse(R"({"format": "baechi-trace", "version": 1,
      "collectives": [{"kind": "all_gather", "bytes": 64, "ops": ["b", "a"], "ranks": 8, "nodes": 2,
                       "sharing": 4}],
      "ops": [{"name": "a"}, {"name": "b", "lane": "nvlink"},
              {"name": "c", "lane": "host", "kernels": [{"flops": 1, "precision": "bf16"}]}]})");
    const Collective& c = t.graph.collectives()[CollectiveId{0}];
    CHECK(c.kind == CollectiveKind::all_gather);
    CHECK(c.bytes == 64_B);
    CHECK(c.ranks == 8);
    CHECK(c.nodes == 2);
    CHECK(c.sharing == 4);
    CHECK(c.members == 2);
    CHECK(t.graph.name(c.first) == "b");  // ranks in the order of `ops`
    const OpId b = *t.graph.find("b"), a = *t.graph.find("a"), last = *t.graph.find("c");
    CHECK(t.graph.lanes()[index(t.graph.lane(b))] == "nvlink");
    CHECK(t.graph.lanes()[index(t.graph.lane(a))] == "comm");
    CHECK(t.graph.lanes()[index(t.graph.lane(last))] == "host");
    CHECK(t.graph.kernels(last)[0].precision == Precision::bf16);
    CHECK(trace_json(parse(trace_json(t))) == trace_json(t));
  }

  TEST_CASE("modules are kept; an op without one is written as before") {
    const Trace t = parse(R"({"format": "baechi-trace", "version": 1,
      "ops": [{"name": "b", "module": "net.b"}, {"name": "a", "module": "net.a"}, {"name": "c"}],
      "edges": []})");
    const OpId a = *t.graph.find("a"), b = *t.graph.find("b"), c = *t.graph.find("c");
    CHECK(t.graph.module(a) == "net.a");
    CHECK(t.graph.module(b) == "net.b");
    CHECK(t.graph.module(c).empty());
    const std::string text = trace_json(t);
    CHECK(text.find(R"("name": "c", "kind": "", "phase": "forward", "compute_us")") !=
          std::string::npos);
    CHECK(trace_json(parse(text)) == text);
  }

  TEST_CASE("a trace that is written, read and written again has the same bytes") {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      CAPTURE(seed);
      const Trace t{.graph = random_graph(seed), .name = "r\"", .source = "s\t", .batch = 3};
      const std::string text = trace_json(t);
      const Trace again = parse(text);
      CHECK(trace_json(again) == text);
      REQUIRE(again.graph.num_ops() == t.graph.num_ops());
      REQUIRE(again.graph.num_edges() == t.graph.num_edges());
      for (const OpId v : t.graph.ops()) {
        CHECK(again.graph.name(v) == t.graph.name(v));
        CHECK(again.graph.op(v).compute == t.graph.op(v).compute);
        CHECK(again.graph.op(v).forward == t.graph.op(v).forward);
        CHECK(again.graph.op(v).group == t.graph.op(v).group);
      }
      for (const TensorId x : t.graph.tensors())
        CHECK(again.graph.measured_transfer(x) == t.graph.measured_transfer(x));
    }
  }

  TEST_CASE("files are compressed by their name, and decompressed by their content") {
    const ScratchFolder folder;
    const Trace t{.graph = random_graph(1), .name = "n"};
    for (const char* name : {"t.json", "t.json.gz", "t.json.zst"}) {
      CAPTURE(name);
      write_trace(t, folder / name);
      CHECK(trace_json(read_trace(folder / name)) == trace_json(t));
      fs::rename(folder / name, folder / "plain");
      CHECK(trace_json(read_trace(folder / "plain")) == trace_json(t));
    }
    CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 1);  // nothing left aside
    // Two gzip members are the file of both texts.
    write_file(folder / "one.gz", "one ");
    write_file(folder / "two.gz", "two");
    std::ofstream both(folder / "both", std::ios::binary);
    for (const char* part : {"one.gz", "two.gz"})
      both << std::ifstream(folder / part, std::ios::binary).rdbuf();
    both.close();
    CHECK(read_file(folder / "both") == "one two");
    const std::string large(3'000'000, 'x');
    write_file(folder / "large.gz", large);
    CHECK(read_file(folder / "large.gz") == large);
    write_file(folder / "large.zst", large);
    CHECK(read_file(folder / "large.zst") == large);
  }

  TEST_CASE("a long file is read in pieces: the same graph however it is laid out") {
    // 10,000 forward and 10,000 backward ops: 7 MB, cut about every MiB.
    const Trace t =
        generate_trace("layered", options("layered", {{"ops", "10000"}, {"training", "true"}}), "");
    const std::string text = trace_json(t);
    REQUIRE(text.size() > 5 * JsonPieces::usual);
    CHECK(trace_json(parse(text)) == text);
    const ScratchFolder folder;
    write_trace(t, folder / "t.json.zst");
    CHECK(trace_json(read_trace(folder / "t.json.zst")) == text);

    std::string dense;  // no name of this graph has a blank, but its source has: "seed 1"
    std::ranges::copy_if(text, std::back_inserter(dense),
                         [](char c) { return c != ' ' && c != '\n'; });
    dense.replace(dense.find("seed1"), 5, "seed 1");
    CHECK(trace_json(parse(dense)) == text);

    // Edges before ops, and a list that is not ours, full of what is no structure.
    const std::size_t ops = text.find(" \"ops\": ["), edges = text.find(" \"edges\": ["),
                      controls = text.find(",\n \"controls\": [");
    std::string strange =
        text.substr(0, ops) + text.substr(edges, controls - edges) + ", \"x-strange\": [";
    for (int i = 0; i < 100'000; ++i) strange += R"({"a\\": "},{\"[\\"}, [[], "{"],)";
    strange += "{}]," + text.substr(ops, edges - ops) + text.substr(controls + 1);
    CHECK(trace_json(parse(strange)) == text);
  }

  TEST_CASE("a list without a key, which is broken, is cut without one") {
    TextFile file("t.json", R"({"a key": "and a value", "ops": [{}, {}], [{}, {}]})");
    JsonPieces pieces(file, 1);
    JsonPiece piece;
    std::vector<std::string> texts;
    while (pieces.next(piece)) texts.push_back(piece.text);
    CHECK(texts == std::vector<std::string>{R"({"a key": "and a value", "ops": [{}]})",
                                            R"({"ops":[{}], [{}]})", "{:[{}]}"});
  }

  TEST_CASE("a mistake in a late piece of a long file has its line and column") {
    // Line 1 is the head, 2 begins the ops, 3 to 20,002 are ops, 20,003 ends them, 20,004 begins
    // the edges; each of those is a line.
    const Trace t =
        generate_trace("layered", options("layered", {{"ops", "20000"}, {"width", "1"}}), "");
    const std::string text = trace_json(t);
    REQUIRE(text.size() > 4 * JsonPieces::usual);
    const auto message_of_text = [](const std::string& broken) {
      return message<InputError>([&] { parse(broken); });
    };
    const auto changed = [&](std::string_view from, std::string_view to) {
      std::string other = text;
      return other.replace(other.rfind(from), from.size(), to);
    };
    // One of the last edges: every op but the first reads the one before it.
    const std::string edge = R"({"from": "op19998", "output": 0, "to": "op19999"})";
    const std::size_t line =
        1 + static_cast<std::size_t>(std::ranges::count(text.substr(0, text.find(edge)), '\n'));
    CHECK(line > 40'000);
    CHECK(message_of_text(changed(edge, R"({"from": "op19998", "output": 0, "to": "nobody"})")) ==
          fmt::format("t.json:{}:42: to: no op 'nobody'", line));
    CHECK(message_of_text(changed(edge, R"({"from": "op19998", "output": 1, "to": "op19999"})")) ==
          fmt::format("t.json:{}:12: output: 1 is not an output of 'op19998', which has 1, from 0",
                      line));
    CHECK(message_of_text(changed(edge, R"({"from": "op19998", "output": 0, "to" "op19999"})")) ==
          fmt::format("t.json:{}:41: not JSON: a missing or superfluous comma, colon, quote or "
                      "bracket",
                      line));
    // Both of another piece than what they repeat.
    CHECK(message_of_text(changed("\"op19999\", \"kind\"", "\"op0\", \"kind\""))
              .starts_with("t.json:20002:12: name: two ops are named 'op0'"));
    CHECK(message_of_text(changed(R"("controls": [])", R"("edges": [])")) ==
          fmt::format("t.json:{}:2: a trace has two keys 'edges'", std::ranges::count(text, '\n')));
    CHECK(message_of_text(changed("\"controls\": []}", "\"controls\": []} {}"))
              .ends_with("not JSON: something behind the end of the value"));
  }

  TEST_CASE("a file that cannot be read or written is named") {
    const ScratchFolder folder;
    CHECK_THROWS_WITH_AS(read_trace("/no/such.json"),
                         "/no/such.json: cannot be read: No such file or directory", InputError);
    CHECK_THROWS_WITH_AS(read_trace(folder.path.string()),
                         (folder.path.string() + ": is a folder, not a file").c_str(), InputError);
    CHECK_THROWS_WITH_AS(write_file("/no/such.json", ""),
                         "/no/such.json: cannot be written: No such file or directory", InputError);
    CHECK_THROWS_WITH_AS(
        read_trace("/dev/null", "baechy"),
        "no importer 'baechy' (did you mean 'baechi'?) (importers: baechi, dnn_partitioning, "
        "pipedream, piper, doppler, pytorch, kineto, onnx, chakra, tensorflow, hlo, graphml)",
        InputError);
    CHECK_THROWS_WITH_AS(
        read_trace("/dev/null", "dnn_partitioning", options("dnn_partitioning", {{"cost", "s"}})),
        "/dev/null: the file is empty", InputError);
  }

  TEST_CASE("every broken file is refused with its own message") {
    const auto expected = expected_messages(bad_files / "expected.txt");
    std::set<std::string> seen;
    for (const auto& entry : fs::directory_iterator(bad_files)) {
      const std::string file = entry.path().filename().string();
      if (file == "expected.txt") continue;
      CAPTURE(file);
      const auto it = expected.find(file);
      CHECK(message_of(file) == (it == expected.end() ? "(not in expected.txt)" : it->second));
      seen.insert(file);
    }
    CHECK(seen.size() == expected.size());
  }

  TEST_CASE("the importers tell their files apart") {
    const std::map<std::string, std::string> beginnings{
        {"baechi", R"({"format": "baechi-trace", )"},
        {"dnn_partitioning", R"({"maxSizePerFPGA": 1.0, "maxFPGAs": 4, "nodes": [)"},
        {"pipedream", "node1 -- Input0 -- forward_compute_time=0.000, "},
        {"piper", R"({"maxDevices": 4, "maxMemoryPerDevice": 1e9, "mbsInBatch": 8, "nodes": [)"},
        {"doppler", "5\n0, 1, \n0, 0, 1, \n1, 2, "},
        {"pytorch",
         R"({"schema": "1.0.1", "pid": 7, "nodes": [{"name": "a", "id": 2, "rf_id": 1, )"},
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
      // What no importer can read is an InputError, not a crash.
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

  TEST_CASE(
      "a workload of Tarnawski et al.: times by device kind, sizes up, the largest per node") {
    //  0 -> 1 with 10.2 bytes and 0 -> 2 with 20 bytes; 2 is the backward node of 0
    const std::string text = R"({"maxSizePerFPGA": 1e9, "maxFPGAs": 2, "maxCPUs": 1, "nodes": [
      {"name": "x", "id": 7, "supportedOnFpga": 1, "cpuLatency": 1.5, "fpgaLatency": 0.14,
       "isBackwardNode": 0, "colorClass": 3, "layerId": 1, "size": 100.5},
      {"name": "x", "id": 8, "supportedOnFpga": false, "cpuLatency": 2, "fpgaLatency": 0},
      {"name": "xgrad", "id": 9, "cpuLatency": 0, "fpgaLatency": 0, "isBackwardNode": true,
       "colorClass": 3}],
      "edges": [{"sourceId": 7, "destId": 8, "cost": 0.001, "size": 10.2},
                {"sourceId": 7, "destId": 9, "cost": 0.002, "size": 20}]})";
    const auto read = [&](const std::map<std::string, std::string>& o) {
      TextFile file("m.json", text);
      return read_trace(file, "", options("dnn_partitioning", o));
    };
    const Trace t = read({});
    const OpGraph& g = t.graph;
    CHECK(t.format == "dnn_partitioning");
    CHECK(g.device_kinds() == std::vector<std::string>{"accelerator", "cpu"});
    CHECK(g.op(OpId{0}).compute == 140us);
    CHECK(*g.compute(OpId{0}, 1) == 1500us);
    CHECK(g.op(OpId{0}).persistent == 101_B);
    CHECK_FALSE(g.compute(OpId{1}, 0));
    CHECK(g.name(OpId{1}) == "x#8");
    CHECK(g.op(OpId{2}).forward == OpId{0});
    CHECK(g.op(OpId{2}).phase == Phase::backward);
    CHECK(g.op(OpId{2}).group == g.op(OpId{0}).group);
    CHECK(g.op(OpId{1}).group == no_group);
    REQUIRE(g.num_tensors() == 1);
    CHECK(g.tensor(TensorId{0}).size == 20_B);
    CHECK_FALSE(g.measured_transfer(TensorId{0}));
    CHECK(t.cluster->accelerators == 2);
    CHECK(t.cluster->memory == Bytes{1'000'000'000});
    CHECK(t.cluster->transfer[TensorId{0}] == 2us);
    CHECK(t.notes.size() == 3);  // several sizes, several costs, one renamed
    CHECK(*read({{"transfers", "measured"}}).graph.measured_transfer(TensorId{0}) == 2us);
    CHECK(*read({{"transfers", "measured"}, {"cost_unit", "s"}})
               .graph.measured_transfer(TensorId{0}) == 2ms);
    CHECK_THROWS_WITH_AS(read({{"transfer", "link"}}),
                         "dnn_partitioning has no option 'transfer' (did you mean 'transfers'?) "
                         "(options: transfers, cost_unit, backward)",
                         InputError);
  }

  TEST_CASE("a PipeDream profile: forward ops, backward ops beside them, edges mirrored") {
    //  node1 (4 bytes) -> node2 (5 + 6 bytes)
    const std::string text =
        "node1 -- Conv2d(3, 64, kernel_size=(3, 3)) -- forward_compute_time=1.500, "
        "backward_compute_time=2.000, activation_size=4.0, parameter_size=8.000\r\n"
        "node2 -- LSTM(1 -- 2) -- forward_compute_time=0.5, backward_compute_time=0.25, "
        "activation_size=[5.0; 6.0], parameter_size=0.000 -- stage_id=1\n"
        "\tnode1 -- node2\n";
    const auto read = [&](const std::map<std::string, std::string>& o) {
      TextFile file("graph.txt", text);
      return read_trace(file, "", options("pipedream", o));
    };
    const Trace t = read({});
    const OpGraph& g = t.graph;
    REQUIRE(g.num_ops() == 4);
    const OpId one = *g.find("node1"), two = *g.find("node2");
    const OpId one_grad = *g.find("node1_grad"), two_grad = *g.find("node2_grad");
    CHECK(g.kind(one) == "Conv2d");
    CHECK(g.kind(two) == "LSTM");
    CHECK(g.op(one).compute == 1500us);
    CHECK(g.op(one_grad).compute == 2ms);
    CHECK(g.op(one).persistent == 24_B);  // weights, gradients, momentum
    CHECK(g.op(one_grad).forward == one);
    CHECK(g.op(one).group == g.op(one_grad).group);
    CHECK(g.op(one).group != g.op(two).group);
    // node1 -> node2 and node1_grad, node2 -> node2_grad, node2_grad -> node1_grad with 4 bytes
    CHECK(g.num_edges() == 4);
    CHECK(g.num_tensors() == 3);
    CHECK(g.tensor(*g.outputs(two).begin()).size == 11_B);
    CHECK(g.tensor(*g.outputs(two_grad).begin()).size == 4_B);
    const Trace inference = read({{"training", "false"}});
    CHECK(inference.graph.num_ops() == 2);
    CHECK(inference.graph.num_edges() == 1);
    CHECK(inference.graph.op(OpId{0}).persistent == 8_B);
    CHECK(read({{"parameter_copies", "4"}}).graph.op(OpId{0}).persistent == 32_B);
  }

  TEST_CASE("every generator keeps the contract") {
    for (const GeneratorEntry& entry : generators()) {
      CAPTURE(entry.name);
      const Trace t = generate_trace(entry.name, Options(std::string(entry.name)));
      CHECK(t.format == entry.name);
      CHECK(t.graph.num_ops() > 0);
      CHECK((t.coverage.with_time == t.coverage.ops || t.graph.has_work()));
      CHECK(trace_json(t) ==
            trace_json(generate_trace(entry.name, Options(std::string(entry.name)))));
      CHECK(trace_json(parse(trace_json(t))) == trace_json(t));
      CHECK_THROWS_AS(generate_trace(entry.name, options("g", {{"no_such_option", "1"}})),
                      InputError);
    }
    CHECK_THROWS_WITH_AS(
        generate_trace("layerd", Options("layerd"), "x.yaml:2:3"),
        doctest::Contains("x.yaml:2:3: no generator 'layerd' (did you mean 'layered'?) "
                          "(generators: layered, alexnet, "),
        InputError);
  }

  TEST_CASE("layered: as many ops as asked, each but the first layer's reads one to three") {
    const auto make = [](const std::map<std::string, std::string>& o) {
      return generate_trace("layered", options("layered", o)).graph;
    };
    const OpGraph g = make({{"ops", "5000"}, {"width", "50"}, {"degree", "2"}, {"seed", "3"}});
    CHECK(g.num_ops() == 5000);
    for (const OpId v : g.ops()) {
      const std::size_t inputs = g.in_edges(v).size();
      CHECK(inputs <= 3);
      CHECK((inputs == 0) == (index(v) < 50));
      for (const OpId u : g.predecessors(v)) CHECK(index(v) / 50 - index(u) / 50 <= 8);
    }
    // Mean in-degree 2, less what two choices of the same op lose.
    CHECK(static_cast<double>(g.num_edges()) / 4950 == doctest::Approx(2.0).epsilon(0.05));
    const OpGraph ties = make({{"ties", "true"}, {"compute", "3 us"}});
    for (const OpId v : ties.ops()) CHECK(ties.op(v).compute == 3us);
    const OpGraph one = make({{"ops", "1"}, {"width", "7"}});
    CHECK(one.num_edges() == 0);
    const OpGraph chain = make({{"ops", "100"}, {"width", "1"}, {"degree", "1"}});
    CHECK(chain.num_edges() == 99);
    const OpGraph training = make({{"ops", "1000"}, {"training", "true"}});
    const OpGraph inference = make({{"ops", "1000"}});
    CHECK(training.num_ops() == 2000);
    CHECK(training.num_edges() == 2 * inference.num_edges() + 1000);  // each op's own backward
    CHECK(training.num_groups() == 1000);
    CHECK_THROWS_AS(make({{"degree", "4"}}), InputError);
    CHECK_THROWS_AS(make({{"ops", "0"}}), InputError);
  }

  TEST_CASE("every published MSR workload imports with the nodes and edges its file lists") {
    const auto data = shared_data("msr-dnn-partitioning");
    if (!data) return;
    std::size_t files = 0;
    for (const char* folder : {"latency-inputs", "throughput-inputs"}) {
      for (const auto& entry :
           fs::recursive_directory_iterator(*data / "msr-dnn-partitioning" / folder)) {
        if (entry.path().extension() != ".json") continue;
        CAPTURE(entry.path().string());
        const std::string text = read_file(entry.path().string());
        const Trace t = read_trace(entry.path().string());
        CHECK(t.format == "dnn_partitioning");
        CHECK(t.graph.num_ops() == occurrences(text, "\"fpgaLatency\""));
        CHECK(t.cluster->accelerators >= 3);
        std::size_t backward = 0, linked = 0;
        for (const OpId v : t.graph.ops()) {
          backward += t.graph.op(v).phase == Phase::backward;
          linked += t.graph.op(v).forward != no_op;
        }
        // Of the layer graphs each backward op is made to read from its forward op.
        CHECK(t.graph.num_edges() == occurrences(text, "\"destId\"") + linked);
        CHECK((backward > 0) == entry.path().string().ends_with("_training.json"));
        const bool seconds =
            entry.path().string().find("throughput-inputs/LayerGraphs") != std::string::npos;
        CHECK(seconds == std::ranges::any_of(t.notes, [](const std::string& note) {
                return note.find("seconds") != std::string::npos;
              }));
        CHECK(trace_json(parse(trace_json(t))) == trace_json(t));
        ++files;
      }
    }
    CHECK(files == 24);
    // Nodes and edges as the authors count them.
    const auto bert = read_trace((*data / "msr-dnn-partitioning/throughput-inputs/OperatorGraphs/"
                                          "bert_L-12_training.json")
                                     .string());
    CHECK(bert.graph.num_ops() == 2012);
    CHECK(bert.graph.num_edges() == 2751);
  }

  TEST_CASE("a backward pass given as a copy of the forward pass is mirrored, unless as_given") {
    //   a -10 B-> b -20 B-> c   and   agrad -11 B-> bgrad -21 B-> cgrad
    const std::string text = R"({"nodes": [
      {"name": "a", "id": 1, "cpuLatency": 1, "fpgaLatency": 1},
      {"name": "b", "id": 2, "cpuLatency": 1, "fpgaLatency": 1},
      {"name": "c", "id": 3, "cpuLatency": 1, "fpgaLatency": 1},
      {"name": "agrad", "id": 4, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": true},
      {"name": "bgrad", "id": 5, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": true},
      {"name": "cgrad", "id": 6, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": true}],
      "edges": [{"sourceId": 1, "destId": 2, "cost": 0.001, "size": 10},
                {"sourceId": 2, "destId": 3, "cost": 0.002, "size": 20},
                {"sourceId": 4, "destId": 5, "cost": 0.003, "size": 11},
                {"sourceId": 5, "destId": 6, "cost": 0.004, "size": 21}]})";
    const auto edges = [&](const char* backward) {
      TextFile file("m.json", text);
      const Trace t = read_trace(file, "", options("dnn_partitioning", {{"backward", backward}}));
      std::set<std::string> all;
      for (const EdgeId e : t.graph.edges()) {
        const Edge& edge = t.graph.edge(e);
        all.insert(fmt::format("{} {} {}", t.graph.name(edge.src), t.graph.name(edge.dst),
                               t.graph.tensor(edge.tensor).control
                                   ? "control"
                                   : to_text(t.cluster->transfer[edge.tensor])));
      }
      CHECK(t.notes.empty() == (std::string(backward) == "as_given"));
      return all;
    };
    CHECK(edges("as_given") == std::set<std::string>{"a b 1.000 us", "b c 2.000 us",
                                                     "agrad bgrad 3.000 us",
                                                     "bgrad cgrad 4.000 us"});
    CHECK(edges("mirrored") == std::set<std::string>{"a b 1.000 us", "b c 2.000 us",
                                                     "bgrad agrad 3.000 us", "cgrad bgrad 4.000 us",
                                                     "a agrad 1.000 us", "b bgrad 2.000 us",
                                                     "c cgrad control"});
  }

  TEST_CASE("every published PipeDream profile imports with the nodes and edges its file lists") {
    const auto data = shared_data("pipedream");
    if (!data) return;
    std::size_t files = 0;
    for (const auto& entry : fs::directory_iterator(*data / "pipedream")) {
      if (entry.path().extension() != ".txt") continue;
      CAPTURE(entry.path().string());
      const std::string text = read_file(entry.path().string());
      const std::size_t nodes = occurrences(text, "forward_compute_time=");
      const std::size_t edges = occurrences("\n" + text, "\n\t");
      const Trace t = read_trace(entry.path().string());
      CHECK(t.format == "pipedream");
      CHECK(t.graph.num_ops() == 2 * nodes);
      CHECK(t.graph.num_edges() == 2 * edges + nodes);
      CHECK(trace_json(parse(trace_json(t))) == trace_json(t));
      ++files;
    }
    CHECK(files == 14);
  }
}
