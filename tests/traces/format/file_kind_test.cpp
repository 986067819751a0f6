#include <doctest/doctest.h>

#include <string>

#include "sim/error.h"
#include "traces/format/compressed_file.h"
#include "traces/importer.h"

using namespace baechi;
using namespace std::string_literals;

TEST_SUITE("file_kind") {
  TEST_CASE("files of other programs are recognised by their beginnings") {
    const auto kind = [](const std::string& bytes, const std::string& path = "file") {
      return kind_of_file(bytes, path);
    };
    CHECK(kind("SQLite format 3\0more"s).starts_with("a SQLite database"));
    CHECK(
        kind("SQLite format 3\0 CREATE TABLE results (x)"s).starts_with("results of 'baechi run'"));
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
      try {
        TextFile file(path, bytes);
        read_trace(file);
      } catch (const InputError& e) {
        return std::string(e.what());
      }
      return std::string();
    };
    CHECK(answer("digraph {a -> b}", "m.txt")
              .starts_with("m.txt: no importer recognises this file, which is a picture in DOT"));
    CHECK(answer("\x0a\x1a\x0a\x18\x0a\x16/job:localhost/gpu:0", "r.pb")
              .find("--importer tensorflow:costs=FILE") != std::string::npos);
    CHECK(answer("SQLite format 3\0x"s, "m.sqlite").starts_with("m.sqlite: is a SQLite database"));
    CHECK(answer("nothing", "m.txt")
              .starts_with("m.txt: no importer recognises this file; importers:"));
  }
}
