#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/expected_messages.h"
#include "tests/message.h"
#include "tests/small_graphs.h"
#include "tests/this_build.h"
#include "traces/format/trace_file.h"
#include "traces/import/pytorch/pytorch.h"
#include "traces/importer.h"

using namespace baechi;
using namespace baechi::testing;
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

TEST_SUITE("traces") {
  TEST_CASE("every malformed file is rejected with its own message") {
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

  TEST_CASE("the importers recognise their own files only") {
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
}
