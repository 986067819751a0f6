// Files in tests/traces/import/cases: small inputs and the whole graph that is imported from each.
#include <nlohmann/json.hpp>

#include "tests/prelude.h"
#include "tests/traces/import/imported.h"
#include "traces/format/trace_file.h"
#include "traces/format/wire.h"

namespace {

/// A line per op, "name: kind" and its other keys in our trace format, without those that have
/// the value that is taken where the key is missing; then a line per edge, per control edge
/// ("~>") and per other entry; then the notes.
std::string lines_of(const Trace& trace) {
  using Json = nlohmann::ordered_json;
  std::string text;
  const auto rest = [&](const Json& entry, std::initializer_list<std::string_view> shown) {
    for (const auto& [key, value] : entry.items())
      if (!std::ranges::count(shown, key) && value != 0 && value != "forward" &&
          value != Json::array())
        text +=
            fmt::format(" {}={}", key, value.is_string() ? value.get<std::string>() : value.dump());
    text += '\n';
  };
  const Json graph = Json::parse(trace_json(trace));
  for (const auto& [key, entries] : graph.items()) {
    if (!entries.is_array() && key != "format" && key != "version" && key != "name" &&
        key != "source" && entries != 0)
      text += fmt::format("{}: {}\n", key, entries.dump());
    if (!entries.is_array()) continue;
    for (const Json& entry : entries) {
      if (key == "ops") {
        text += fmt::format("{}: {}", entry["name"].get<std::string>(),
                            entry["kind"].get<std::string>());
        rest(entry, {"name", "kind"});
      } else if (entry.is_object() && entry.contains("from")) {
        text += fmt::format("{} {} {}", entry["from"].get<std::string>(),
                            key == "controls" ? "~>" : "->", entry["to"].get<std::string>());
        rest(entry, {"from", "to"});
      } else {
        text += fmt::format("{}: {}\n", key, entry.dump());
      }
    }
  }
  for (const std::string& note : trace.notes) text += "note: " + note + '\n';
  if (trace.untimed.ops > 0)
    text += fmt::format("untimed: {}, the first {}\n", trace.untimed.ops, trace.untimed.first);
  if (const auto& hint = trace.cluster)
    text += fmt::format("cluster: {} accelerators of {} B, {} cpus, transfers of {} ns\n",
                        hint->accelerators, hint->memory.count, hint->cpus,
                        fmt::join(hint->transfer | std::views::transform(&Duration::count), " "));
  return text;
}

/// `text` as an input file: if the file's extension is a message of protobuf_fields.txt, its
/// encoding, in which hex(3f80) is a string of these bytes and a name of an element type of ONNX is
/// its number.
std::string contents(std::string text, std::string_view message) {
  const std::string rows = read_file(source_dir() + "/tests/traces/import/protobuf_fields.txt");
  std::vector<WireField> fields;
  for (const auto row : parts(rows, '\n'))
    if (const auto words = parts(row, ' '); !row.starts_with('#'))
      fields.push_back({words[0], words[1], parse_number<std::uint32_t>(words[2]).value(),
                        words[3] == "whole"  ? WireType::whole
                        : words[3] == "text" ? WireType::text
                                             : WireType::message,
                        words[3]});
  if (!std::ranges::count(fields, message, &WireField::message)) return text;
  for (std::size_t at = text.find("hex("); at != text.npos; at = text.find("hex(")) {
    std::string bytes = "\"";
    std::size_t end = at + 4;
    for (; text.at(end) != ')'; end += 2)
      bytes += {'\\', static_cast<char>(std::stoi(text.substr(end, 2), nullptr, 16))};
    text.replace(at, end + 1 - at, bytes + '"');
  }
  return bytes_of_text(text, "case", message, fields, [](std::string_view type) {
    const auto types = parts(
        "UNDEFINED FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE", ' ');
    return static_cast<std::uint64_t>(std::ranges::find(types, type) - types.begin());
  });
}

/// The bytes of lines such as `0a 02 "hi" 18 04  comment`, each up to the first other word.
std::string bytes_of(std::string_view text) {
  std::string bytes;
  for (const auto line : parts(text, '\n'))
    for (const auto word : parts(line, ' '))
      if (word.front() == '"')
        bytes += word.substr(1, word.size() - 2);
      else if (word.size() == 2 && word.find_first_not_of("0123456789abcdef") == word.npos)
        bytes += static_cast<char>(std::stoi(std::string(word), nullptr, 16));
      else
        break;
  return bytes;
}

}  // namespace

TEST_SUITE_BEGIN("whole imports");
// A file holds parts, each below its line "=== WHAT". FILE.EXT: the text of an input file.
// IMPORTER FILE.EXT [OPTION=VALUE...]: what is imported from it, as lines_of() has it, or
// "error: TEXT", a part of the message. IMPORTER - is the one that recognises the file. {} in a
// value is the folder of the files. FILE.EXT.hex: the bytes of FILE.EXT. Text before the first part
// says what the file shows.
TEST_CASE("each file gives the whole graph that is derived from it by hand") {
  std::size_t imports = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() + "/tests/traces/import/cases")) {
    CAPTURE(entry.path().filename());
    const TemporaryFolder folder;
    std::string text = "\n" + read_file(entry.path().string());
    for (std::size_t at = text.find("\n=== "), next = 0; at < text.size(); at = next) {
      next = std::min(text.find("\n=== ", at + 1), text.size());
      const std::size_t end = text.find('\n', at + 1);
      const std::string head = text.substr(at + 5, end - at - 5),
                        body = text.substr(end + 1, next - end);
      const auto words = parts(head, ' ');
      if (words.size() == 1) {
        const bool hex = head.ends_with(".hex");
        const std::string name = hex ? head.substr(0, head.size() - 4) : head;
        folder.write(name,
                     hex ? bytes_of(body)
                         : contents(body, std::string_view(name).substr(name.rfind('.') + 1)));
        continue;
      }
      std::map<std::string, std::string> given;
      for (const auto word : std::span(words).subspan(2)) {
        std::string value(word.substr(word.find('=') + 1));
        if (const auto brace = value.find("{}"); brace != value.npos)
          value.replace(brace, 2, folder.file(""));
        given[std::string(word.substr(0, word.find('=')))] = value;
      }
      CAPTURE(head);
      std::string found;
      try {
        found = lines_of(
            imported(folder.file(words[1]), words[0] == "-" ? "" : std::string(words[0]), given));
      } catch (const InputError& error) {
        found = fmt::format("error: {}\n", error.what());
      }
      const std::string prefix = folder.file("");
      for (auto at = found.find(prefix); at != found.npos; at = found.find(prefix))
        found.erase(at, prefix.size());
      CAPTURE(found);
      if (body.starts_with("error: "))
        CHECK(found.find(body.substr(7, body.size() - 8)) != std::string::npos);
      else
        CHECK(found == body);
      ++imports;
    }
  }
  CHECK(imports > 0);
}
