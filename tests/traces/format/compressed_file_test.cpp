#include "tests/prelude.h"
#include "tests/traces/import/imported.h"
#include "traces/format/json_pieces.h"
#include "traces/format/trace_file.h"
#include "traces/generator.h"

using namespace std::string_literals;

namespace fs = std::filesystem;

TEST_SUITE_BEGIN("traces");
TEST_CASE("a long file is read in pieces: the graph does not depend on the file's layout") {
  // 10,000 forward and 10,000 backward ops: 7 MB, cut about every MiB.
  const Trace t =
      generate_trace("layered", options("layered", {{"ops", "10000"}, {"training", "true"}}), "");
  const std::string text = trace_json(t);
  REQUIRE(text.size() > 5 * JsonPieces::usual);
  CHECK(trace_json(parse(text)) == text);
  const TemporaryFolder folder;
  write_trace(t, folder.file("t.json.zst"));
  CHECK(trace_json(read_trace(folder.file("t.json.zst"))) == text);

  std::string dense;  // no name of this graph has a blank, but its source has: "seed 1"
  std::ranges::copy_if(text, std::back_inserter(dense),
                       [](char c) { return c != ' ' && c != '\n'; });
  dense.replace(dense.find("seed1"), 5, "seed 1");
  CHECK(trace_json(parse(dense)) == text);

  // Edges before ops, and an extra list whose strings look like structure.
  const std::size_t ops = text.find(" \"ops\": ["), edges = text.find(" \"edges\": ["),
                    controls = text.find(",\n \"controls\": [");
  std::string strange =
      text.substr(0, ops) + text.substr(edges, controls - edges) + ", \"x-strange\": [";
  for (int i = 0; i < 100'000; ++i) strange += R"({"a\\": "},{\"[\\"}, [[], "{"],)";
  strange += "{}]," + text.substr(ops, edges - ops) + text.substr(controls + 1);
  CHECK(trace_json(parse(strange)) == text);
}

TEST_CASE("a list without a key (malformed JSON) is cut without one") {
  TextFile file("t.json", R"({"a key": "and a value", "ops": [{}, {}], [{}, {}]})");
  JsonPieces pieces(file, 1);
  JsonPiece piece;
  std::vector<std::string> texts;
  while (pieces.next(piece)) texts.push_back(piece.text);
  CHECK(texts == std::vector<std::string>{R"({"a key": "and a value", "ops": [{}]})",
                                          R"({"ops":[{}], [{}]})", "{:[{}]}"});
}

TEST_CASE("pieces are cut at brackets outside strings, wherever backslashes and quotes are") {
  // The text is scanned in blocks of 64 bytes: `before` shifts it across block ends. In the
  // value, \\ and \" are escaped; the key of the list is o"p\.
  for (std::size_t size = 0; size < 140; ++size) {
    CAPTURE(size);
    const std::string before = R"({")" + std::string(size, 'a') + R"(": "\\\"[{", )";
    const std::string key = R"("o\"p\\")";
    TextFile file("t.json", before + key + R"( : [{"a": "\\"}, {"b": "]"}, [3]]})");
    JsonPieces pieces(file, 1);
    JsonPiece piece;
    std::vector<std::string> texts;
    while (pieces.next(piece)) texts.push_back(piece.text);
    CHECK(texts == std::vector<std::string>{before + key + R"( : [{"a": "\\"}]})",
                                            "{" + key + R"(:[{"b": "]"}]})",
                                            "{" + key + ":[[3]]}"});
  }
}

TEST_CASE("integers of any length are read, and other numbers rejected") {
  const auto bytes = [](const std::string& number) {
    const Trace t = parse(R"({"format": "baechi-trace", "version": 1, "ops": [{"name": "a", )"
                          R"("outputs": [{"bytes": )" +
                          number + "}]}]}");
    return t.graph.tensor(TensorId{0}).size.count;
  };
  CHECK(bytes("0") == 0);
  CHECK(bytes("7\t") == 7);
  CHECK(bytes("999999999999999999") == 999'999'999'999'999'999);     // 18 digits
  CHECK(bytes("1000000000000000000") == 1'000'000'000'000'000'000);  // 19
  CHECK(bytes("1e3") == 1000);
  CHECK(bytes("1024.0") == 1024);
  for (const char* const no : {"007", "-1", "1.5", "9223372036854775808", "1x", "\"7\""})
    CHECK(message<InputError>([&] { bytes(no); }).starts_with("t.json:1:"));
}

TEST_CASE("a mistake in a late piece of a long file has the right line and column") {
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
  // One of the last edges: every op but the first reads its predecessor.
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
  // Both duplicates are in another piece than the originals.
  CHECK(message_of_text(changed("\"op19999\", \"kind\"", "\"op0\", \"kind\""))
            .starts_with("t.json:20002:12: name: two ops are named 'op0'"));
  CHECK(message_of_text(changed(R"("controls": [])", R"("edges": [])")) ==
        fmt::format("t.json:{}:2: a trace has two keys 'edges'", std::ranges::count(text, '\n')));
  CHECK(message_of_text(changed("\"controls\": []}", "\"controls\": []} {}"))
            .ends_with("not JSON: something after the end of the value"));
}

TEST_CASE("an error message names the file that cannot be read or written") {
  const TemporaryFolder folder;
  CHECK_REFUSED(read_trace("/no/such.json"),
                "/no/such.json: cannot be read: No such file or directory");
  CHECK_REFUSED(read_trace(folder.file(".")),
                (folder.file(".") + ": is a folder, not a file").c_str());
  CHECK_REFUSED(write_file("/no/such.json", ""),
                "/no/such.json: cannot be written: No such file or directory");
  CHECK_REFUSED(
      read_trace("/dev/null", "baechy"),
      "no importer 'baechy' (did you mean 'baechi'?) (importers: baechi, dnn_partitioning, "
      "pipedream, piper, doppler, pytorch, kineto, onnx, chakra, tensorflow, hlo, graphml)");
  CHECK_REFUSED(
      read_trace("/dev/null", "dnn_partitioning", options("dnn_partitioning", {{"cost", "s"}})),
      "/dev/null: the file is empty");
}

TEST_SUITE_BEGIN("file_kind");
TEST_CASE("files of other programs are recognised by their beginnings") {
  const auto kind = [](const std::string& bytes, const std::string& path = "file") {
    return kind_of_file(bytes, path);
  };
  CHECK(kind("SQLite format 3\0more"s).starts_with("a SQLite database"));
  CHECK(kind("SQLite format 3\0 CREATE TABLE results (x)"s).starts_with("results of 'baechi run'"));
  CHECK(kind("id,scenario,graph,ops\n").starts_with("results of 'baechi run'"));
  CHECK(kind("<!doctype html>\n<title>s</title><style>:root {\n  color-scheme: light dark;")
            .starts_with("a report of 'baechi run'"));
  CHECK(kind("<!doctype html>\n<title>s</title>") == "a web page");
  CHECK(kind("ir_version: 8\ngraph {\n").starts_with("an ONNX model as text"));
  CHECK(kind("<\n  ir_version: 8,\n  opset_import: [\"\" : 18]\n>\n")
            .starts_with("an ONNX model as text"));
  CHECK(kind("PK\x03\x04\x14\0"s, "model.pt2").starts_with("a program of torch.export"));
  CHECK(kind("PK\x03\x04\x14\0"s, "model.pt").starts_with("weights or a model saved"));
  CHECK(kind("PK\x03\x04\x14\0"s, "x.zip").starts_with("a zip archive"));
  CHECK(kind(std::string(257, 'a') + "ustar\0"s).starts_with("a tar archive"));
  // ir_version 7, producer_name "pytorch".
  CHECK(kind("\x08\x07\x12\x07pytorch"s).starts_with("an ONNX model"));
  CHECK(kind("\x80\x02}q\0"s).starts_with("a Python pickle"));
  CHECK(kind("\x10\0\0\0\0\0\0\0{\"a\":1}"s).starts_with("weights in safetensors"));
  CHECK(kind("HloModule jit_step\n").starts_with("HLO text"));
  CHECK(kind("digraph {a -> b}").starts_with("a picture in DOT"));
  CHECK(kind("version https://git-lfs.github.com/spec/v1").starts_with("a pointer of Git LFS"));
  CHECK(kind("\x01\x02\x03\0"s, "x.nsys-rep").starts_with("a report of Nsight Systems"));
  CHECK(kind("").empty());
  CHECK(kind("no format at all").empty());
}

TEST_CASE("the error for a file that no importer reads says what it is") {
  const auto answer = [](const std::string& bytes, const std::string& path) {
    return message<InputError>([&] {
      TextFile file(path, bytes);
      read_trace(file);
    });
  };
  CHECK(
      answer("digraph {a -> b}", "m.txt").starts_with("m.txt: not a graph, but a picture in DOT"));
  CHECK(answer("\x0a\x1a\x0a\x18\x0a\x16/job:localhost/gpu:0", "r.pb")
            .find("--importer tensorflow:costs=FILE") != std::string::npos);
  CHECK(answer("SQLite format 3\0x"s, "m.sqlite").starts_with("m.sqlite: is a SQLite database"));
  CHECK(answer("nothing", "m.txt")
            .starts_with("m.txt: no importer recognises this file; importers:"));
}
